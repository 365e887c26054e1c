"""PDF as text; the files are made here."""

import logging
import signal
import sys
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from foltr.device import read_pdf as read_apart
from foltr.device.content import Text, Unread, parsing
from foltr.device.index import Index
from foltr.device.indexing import update
from foltr.device.read_pdf import MOST_PAGES, MOST_UNPACKED, read_pdf
from foltr.device.reading import texts_of


def pdf_text(data: bytes) -> Text:
    with parsing():
        return read_pdf(data, "a.pdf")


def why_no_pdf(data: bytes) -> str:
    with pytest.raises(Unread) as caught:
        pdf_text(data)
    return caught.value.reason


def pdf_of(*streams: bytes, title: str = "", packed: bool = False) -> bytes:
    """A PDF with a page for each stream of operators."""
    writer = PdfWriter()
    data = _pdf_objects(streams, packed)
    for page in PdfReader(BytesIO(data)).pages:
        writer.add_page(page)
    if title:
        writer.add_metadata({"/Title": title})
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def _pdf_objects(streams: tuple[bytes, ...], packed: bool) -> bytes:
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(streams)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(streams), kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for i, stream in enumerate(streams):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>"
            b"/Contents %d 0 R>>" % (5 + 2 * i)
        )
        content = zlib.compress(stream) if packed else stream
        filtered = b"/Filter/FlateDecode" if packed else b""
        head = b"<</Length %d%b>>" % (len(content), filtered)
        objects.append(b"%b\nstream\n%b\nendstream" % (head, content))
    made, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    made += b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<</Size %d/Root 1 0 R>>\n" % (
        *(count, table),
        count,
    )
    return made + b"startxref\n%d\n%%%%EOF" % (made.index(b"xref\n"))


def pdf_words(*lines: str) -> bytes:
    shown = b" 0 -20 Td ".join(b"(%b) Tj" % line.encode("latin-1") for line in lines)
    return b"BT /F 12 Tf 50 700 Td %b ET" % shown


def test_a_pdf_is_read_with_its_title(tmp_path):
    data = pdf_of(pdf_words("First line", "a divid-", "ed word"), pdf_words("Page two"), title="T")
    text = pdf_text(data)
    assert (text.kind, text.title, text.cut) == ("pdf", "T", False)
    assert text.body == "First line\na divided word\nPage two"
    (tmp_path / "noname").write_bytes(data)
    assert list(texts_of(tmp_path / "noname", len(data))) == [text]


def test_the_title_of_a_pdf_without_one_is_its_first_line():
    assert pdf_text(pdf_of(pdf_words("First line", "x"))).title == "First line"


def test_the_outline_of_a_pdf_is_its_headings():
    writer = PdfWriter(clone_from=BytesIO(pdf_of(pdf_words("x"))))
    above = writer.add_outline_item(title="Chapter", page_number=0)
    writer.add_outline_item(title="Section", page_number=0, parent=above)
    writer.add_outline_item(title="Next", page_number=0)
    file = BytesIO()
    writer.write(file)
    assert pdf_text(file.getvalue()).headings == "Chapter\nSection\nNext"


def test_a_pdf_with_a_password_is_encrypted_and_one_with_an_empty_password_is_read():
    for password in ("secret", ""):
        writer = PdfWriter(clone_from=BytesIO(pdf_of(pdf_words("words"))))
        writer.encrypt(password, "owner", algorithm="RC4-128")
        file = BytesIO()
        writer.write(file)
        if password:
            assert why_no_pdf(file.getvalue()) == "encrypted"
        else:
            assert pdf_text(file.getvalue()).body == "words"


def test_a_pdf_of_images_is_empty():
    assert why_no_pdf(pdf_of(b"")) == "empty"


def test_a_pdf_that_unpacks_to_too_much_loses_that_page_only():
    huge = b" " * (2 * MOST_UNPACKED) + pdf_words("lost")
    bomb = _pdf_objects((pdf_words("kept"), huge), packed=True)
    assert len(bomb) < 100_000
    assert pdf_text(bomb).body == "kept"


def test_a_truncated_pdf_raises_nothing_else_and_prints_nothing(capfd):
    data = pdf_of(*[pdf_words("word")] * 3)
    for end in range(0, len(data), 97):
        try:
            assert set(pdf_text(data[:end]).body.split()) == {"word"}
        except Unread as error:
            assert error.reason in ("damaged", "empty")
    assert capfd.readouterr() == ("", "")
    assert len(logging.getLogger("pypdf").handlers) == 1


def test_pages_that_contain_each_other_are_damage():
    data = _pdf_objects((pdf_words("x"),), False).replace(b"/Kids[4 0 R]", b"/Kids[2 0 R]")
    assert why_no_pdf(data) in ("damaged", "empty")


def test_the_pages_after_the_limit_are_cut():
    text = pdf_text(_pdf_objects((pdf_words("word"),) * (MOST_PAGES + 5), False))
    assert text.cut and text.body.split() == ["word"] * MOST_PAGES


WHOLE_PDF = _pdf_objects((pdf_words("word"), pdf_words("next")), False)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE_PDF)), st.binary(max_size=20)), max_size=5))
def test_a_pdf_with_any_changed_bytes_is_read_or_unread(changes):
    data = WHOLE_PDF
    for at, piece in changes:
        data = data[:at] + piece + data[at + len(piece) :]
    try:
        text = pdf_text(data)
        assert text.title.strip()
        f"{text.title}{text.headings}{text.body}".encode()
    except Unread as error:
        assert error.reason in ("damaged", "empty", "encrypted")


# --- in a process of its own ---


@pytest.fixture
def apart():
    yield read_apart
    read_apart.stop()


def test_a_pdf_is_read_apart_as_it_is_here(apart):
    data = pdf_of(pdf_words("First line", "x"), title="T")
    assert apart.read_apart(data, "a.pdf") == pdf_text(data)
    with pytest.raises(Unread, match="empty"):
        apart.read_apart(pdf_of(b""), "a.pdf")
    assert apart.read_apart(data, "a.pdf") == pdf_text(data)


def test_a_pdf_that_takes_too_long_is_left_out_and_the_next_one_is_read(apart, monkeypatch):
    data = pdf_of(pdf_words("words"))
    assert apart.read_apart(data, "a.pdf").body == "words"  # its process runs
    reader = apart._process
    reader.send_signal(signal.SIGSTOP)  # as if this file had no end
    monkeypatch.setattr(apart, "SECONDS", 0.2)
    with pytest.raises(Unread, match="takes too long"):
        apart.read_apart(data, "a.pdf")
    monkeypatch.undo()
    assert reader.poll() is not None  # nothing is left running
    assert apart.read_apart(data, "a.pdf").body == "words"


def test_a_pdf_that_ends_its_reader_is_damaged_and_the_next_one_is_read(apart, monkeypatch):
    data = pdf_of(pdf_words("words"))
    assert apart.read_apart(data, "a.pdf").body == "words"
    answer_of = apart._answer_of

    def killed_at_once(process, *file):
        process.kill()
        return answer_of(process, *file)

    with monkeypatch.context() as patch, pytest.raises(Unread, match="damaged"):
        patch.setattr(apart, "_answer_of", killed_at_once)
        apart.read_apart(data + b"\n" * 2**20, "a.pdf")  # more than a pipe holds
    assert apart.read_apart(data, "a.pdf").body == "words"


@pytest.mark.skipif(sys.platform != "linux", reason="not on this system: limits of memory")
def test_the_memory_of_the_reader_is_limited(apart):
    apart.read_apart(pdf_of(pdf_words("words")), "a.pdf")
    limits = Path(f"/proc/{apart._process.pid}/limits").read_text()
    (line,) = [each for each in limits.splitlines() if each.startswith("Max address space")]
    assert line.split()[3] == str(apart.MOST_MEMORY)


def test_an_update_of_the_index_leaves_no_reader_running(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf_of(pdf_words("kernel words")))
    index = Index(None)
    work = update(index, [tmp_path])
    assert work.documents == 1 and read_apart._process is None
