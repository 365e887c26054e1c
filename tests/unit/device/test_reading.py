"""Which reader reads a file, what is not read and why; plain text and source code."""

import builtins
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.device import reading as reading_module
from foltr.device.content import MOST_BYTES, MOST_CHARACTERS, Text, decoded, holds_key
from foltr.device.read_pdf import read_pdf
from foltr.device.read_text import read_plain
from foltr.device.reading import READERS, Unread, texts_of

BEGIN, END = b"-----BEGIN ", b"-----\n"  # so that this file is no key


def texts_in(folder: Path, name: str, data: bytes) -> list[Text]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return list(texts_of(path, len(data)))


def text_in(folder: Path, name: str, data: bytes) -> Text:
    (text,) = texts_in(folder, name, data)
    return text


def why_unread(folder: Path, name: str, data: bytes) -> str:
    with pytest.raises(Unread) as caught:
        texts_in(folder, name, data)
    return caught.value.reason


def assert_read_text_is_sound(text: Text) -> None:
    assert text.title.strip() and "\n" not in text.title
    assert len(text.body) <= MOST_CHARACTERS
    f"{text.title}{text.headings}{text.body}{text.part}".encode()


@pytest.mark.parametrize(
    ("name", "data", "kind", "title"),
    [
        ("a.html", b"<title>T</title>x", "html", "T"),
        ("a.HTM", b"<title>T</title>x", "html", "T"),
        ("page", b"\n<!DOCTYPE HTML><title>T</title>x", "html", "T"),
        ("a.md", b"# T\nx", "markdown", "T"),
        ("a.eml", b"Subject: T\n\nx", "mail", "T"),
        ("mail/cur/1700.M1P2.host:2,S", b"Subject: T\n\nx", "mail", "T"),
        ("mail/new/1700.M1P2.host.pl", b"X-A: 1\nSubject: T\n\nx", "mail", "T"),
        ("saved", b"Received: from x\nSubject: T\n\nx", "mail", "T"),
        ("a.py", b"def f(): pass", "code", "a.py"),
        ("Makefile", b"all:\n\techo", "code", "Makefile"),
        ("a.txt", b"# no heading", "text", "a.txt"),
        ("a.txt", b"<html>not parsed", "text", "a.txt"),
        ("a.unknown", b"Subject: alone", "text", "a.unknown"),
        ("README", b"text", "text", "README"),
        ("a.rst", b"=====\nTitle\n=====\n\nx", "text", "Title"),
    ],
)
def test_the_reader_is_chosen_by_suffix_and_then_by_content(tmp_path, name, data, kind, title):
    text = text_in(tmp_path, name, data)
    assert (text.kind, text.title) == (kind, title)


def test_a_mailbox_is_many_documents(tmp_path):
    one = b"From a@b Mon Jan  1 10:00:00 2024\nMessage-ID: <%d>\nSubject: s\n\nx\n\n"
    data = one % 1 + one % 2
    for name in ("a.mbox", "inbox", "Sent.sbd/2024"):
        assert [text.part for text in texts_in(tmp_path, name, data)] == ["<1>", "<2>"]
    assert len(texts_in(tmp_path, "a.txt", data)) == 1


def test_messages_that_are_not_read_are_counted(tmp_path):
    one = b"From a@b Mon Jan  1 10:00:00 2024\nMessage-ID: <1>\nSubject: s\n\nx\n\n"
    (tmp_path / "a.mbox").write_bytes(one + one)
    left_out: Counter[str] = Counter()
    assert len(list(texts_of(tmp_path / "a.mbox", 1, left_out))) == 1
    assert left_out == Counter(copy=1)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b" \n\t\x00", "empty"),
        ("a.html", b"<p> </p>", "empty"),
        ("a.txt", bytes(range(256)) * 20, "binary"),
        ("program", b"\x7fELF" + bytes(5000), "binary"),
        ("a.md", b"text\n" * 2000 + bytes(20_000), "binary"),
        ("a.eml", bytes(100), "binary"),
        ("a.pdf", b"no PDF", "damaged"),
        ("a.pdf", b"%PDF-1.4\n" + b"junk" * 100, "damaged"),
        ("a.mbox", b"no mailbox", "damaged"),
        ("a.mbox", b"", "empty"),
    ],
)
def test_what_is_not_read_has_a_reason(tmp_path, name, data, reason):
    assert why_unread(tmp_path, name, data) == reason


@pytest.mark.parametrize(
    "key",
    [
        BEGIN + b"PRIVATE KEY" + END,
        BEGIN + b"RSA PRIVATE KEY" + END,
        BEGIN + b"EC PRIVATE KEY" + END,
        BEGIN + b"ENCRYPTED PRIVATE KEY" + END,
        BEGIN + b"OPENSSH PRIVATE KEY" + END,
        BEGIN + b"PGP PRIVATE KEY BLOCK" + END,
        b"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n",
        b"AGE-SECRET-" + b"KEY-1QQQQ\n",
        b"PuTTY-User-" + b"Key-File-3: ssh-ed25519\n",
    ],
)
def test_private_keys_are_never_read(tmp_path, key):
    for name in ("a.txt", "noname", "a.html", "a.eml"):
        assert why_unread(tmp_path, name, b"Bag Attributes\n" * 100 + key + b"MIIEv\n") == "key"
    assert why_unread(tmp_path, "a.txt", b"\xff\xfe" + key.decode().encode("utf-16-le")) == "key"


def test_public_keys_and_certificates_are_text():
    for kind in (b"PUBLIC KEY", b"CERTIFICATE", b"PGP PUBLIC KEY BLOCK"):
        assert not holds_key(BEGIN + kind + END)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
        file.write(b"text")
    for size in (MOST_BYTES + 1, 10):  # it may have grown since it was found
        with pytest.raises(Unread, match="too large"):
            next(texts_of(path, size))
    with pytest.raises(Unread, match="too large"):
        next(texts_of(tmp_path / "a.mbox", 5 * 2**30))


def test_what_is_no_file_is_not_opened(tmp_path):
    (tmp_path / "target.txt").write_text("text")
    (tmp_path / "link.txt").symlink_to(tmp_path / "target.txt")
    (tmp_path / "folder.txt").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    for name in ("link.txt", "folder.txt", "pipe.txt", "missing.txt", "\0.txt", "target.txt/x"):
        with pytest.raises(Unread, match="not a file"):
            next(texts_of(tmp_path / name, 1))
    with pytest.raises(Unread, match="not a file"):
        next(texts_of(Path("/dev/zero"), 1))


def test_a_file_without_permission_is_not_read(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "no", str(path))

    monkeypatch.setattr(reading_module, "regular", refuse)
    with pytest.raises(Unread, match="no permission"):
        next(texts_of(tmp_path / "a.txt", 1))


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyError, OSError, AssertionError])
def test_whatever_a_parser_raises_is_damage(tmp_path, monkeypatch, error):
    def fail(data, name):
        raise error("inside")

    monkeypatch.setitem(READERS, ".md", fail)
    assert why_unread(tmp_path, "a.md", b"text") == "damaged"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Mistake])
def test_what_is_no_fault_of_a_file_is_not_swallowed(tmp_path, monkeypatch, error):
    def fail(data, name):
        raise error("inside")

    monkeypatch.setitem(READERS, ".md", fail)
    with pytest.raises(error):
        texts_in(tmp_path, "a.md", b"text")


def test_a_missing_package_is_told(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] in ("pypdf", "selectolax"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Unread, match="no reader"):
        read_pdf(b"%PDF-1.4", "a.pdf")
    with pytest.raises(Mistake, match=r"pip install 'foltr\[device\]'"):
        texts_in(tmp_path, "a.html", b"<p>x")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve €".encode(), "naïve €"),
        ("\ufeffnaïve €".encode(), "naïve €"),
        ("\ufeffnaïve €".encode("utf-16-le"), "naïve €"),
        ("\ufeffnaïve €".encode("utf-16-be"), "naïve €"),
        ("\ufeffnaïve €".encode("utf-32-le"), "naïve €"),
        ("naïve €".encode("cp1252"), "naïve €"),
        (b"\x81\x8d", "\ufffd\ufffd"),
        ("naïve ".encode() * 20 + b"\xff", "naïve " * 20 + "\ufffd"),
        (b"\xff\xfe\x00\xd8a\x00", "\ufffda"),
    ],
)
def test_text_is_decoded(data, text):
    assert decoded(data) == text


def test_a_long_text_in_utf_16_is_not_taken_for_a_program(tmp_path):
    text = text_in(tmp_path, "a.txt", ("\ufeff" + "words " * 5000).encode("utf-16-le"))
    assert text.body.count("words") == 5000


def test_control_characters_are_spaces_and_null_bytes_are_removed(tmp_path):
    text = text_in(tmp_path, "a.txt", b"a\x00b\x01c\x1bd\re\r\nf\x0cg\th\x7fi" + "\x85j".encode())
    assert text.body == "ab c d\ne\nf\ng\th i j"


def test_a_name_that_is_not_utf8_is_a_title_all_the_same(tmp_path):
    assert_read_text_is_sound(text_in(tmp_path, os.fsdecode(b"caf\xe9\n.txt"), b"x"))


def test_a_line_of_ten_million_characters_is_read_up_to_the_limit(tmp_path):
    for name in ("a.txt", "a.py", "a.c", "a.rst", "a.tex", "a.js", "a.sh"):
        text = text_in(tmp_path, name, b"a b=(" * 2_000_000)
        assert text.cut and len(text.body) == MOST_CHARACTERS
    wide = text_in(tmp_path, "a.txt", "€".encode() * 2_000_000)
    assert wide.cut and wide.body == "€" * MOST_CHARACTERS


@pytest.mark.parametrize(
    ("name", "code", "headings"),
    [
        ("a.py", "class A:\n    async def b(self):\n  x = define(3)\n", ["A", "b"]),
        (
            "a.c",
            "static int\nmain(void)\n{\nint f(int a) {\n  return g(1);\n}\nint h(void);",
            ["f"],
        ),
        ("a.cpp", "class A {\n};\nvoid A::run(int x) {\nstd::vector<int> make() {", ["A", "make"]),
        ("A.java", "public class A {\n  private static int f(int x) {\n    g(x);", ["A", "f"]),
        (
            "a.js",
            "export function f() {}\nconst g = async (x) => 1\nclass H {}\nf(1)",
            ["f", "g", "H"],
        ),
        ("a.go", "func (s *S) Run(x int) {\ntype T struct {\nfunc f() {", ["Run", "T", "f"]),
        ("a.rs", "pub(crate) fn f() {}\nstruct S;\n  pub async fn g() {}", ["f", "S", "g"]),
        ("a.rb", "module M\n  def self.f\n  def g?\n", ["M", "f", "g"]),
        ("a.sh", "f() {\nfunction g {\n}\n", ["f", "g"]),
        (
            "a.sql",
            "CREATE TABLE IF NOT EXISTS a.b (x int);\ncreate or replace view v",
            ["a.b", "v"],
        ),
        ("a.el", "(defun my-f (x)\n  (g x))", ["my-f"]),
        ("a.tex", "\\section{One}\n\\subsection*{Two} text", ["One", "Two"]),
        ("a.org", "* One\n** Two\ntext * no", ["One", "Two"]),
        ("a.adoc", "= One\n\n== Two\ntext", ["One", "Two"]),
        ("a.rst", "One\n===\n\ntext\n\nTwo\n---\n* item\n", ["One", "Two"]),
        ("a.json", '{"def f": 1}', []),
    ],
)
def test_headings_are_what_source_code_and_markup_define(name, code, headings):
    text = read_plain(code.encode(), name)
    assert text.headings.split("\n") == (headings or [""])
    assert text.body == code.strip()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["a.txt", "a.html", "a.md", "a.eml", "a.pdf", "a.mbox", "a.py", "a", "cur/a"]),
    st.binary(max_size=300),
    st.sampled_from([b"", b"%PDF-1.4\n", b"From a 10:00 2024\nA: b\n", b"<html>", b"\xff\xfe"]),
)
@example("a.txt", b"AGE-SECRET-KEY-1", b"")
@example("a.mbox", b"\nPuTTY-User-Key-File-2", b"From a 10:00 2024\nA: b\n")
def test_nothing_but_unread_comes_out_of_any_bytes(tmp_path, name, data, begin):
    try:
        for text in texts_in(tmp_path, name, begin + data):
            assert_read_text_is_sound(text)
    except Unread as error:
        assert error.reason in ("binary", "empty", "damaged", "key")
        assert error.reason != "key" or holds_key(begin + data)


KEY = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIEpAIBAAKCAQEA" * 4 + b"\n"


@pytest.mark.parametrize("before", [b"", b"word " * 2000])
def test_a_file_with_a_private_key_anywhere_is_not_read(tmp_path, before):
    assert why_unread(tmp_path, "a.txt", before + KEY) == "key"
    assert why_unread(tmp_path, "a.txt", before + b"AGE-SECRET-KEY-1" + b"Q" * 58) == "key"


def test_a_manual_that_shows_how_a_key_begins_is_read(tmp_path):
    text = b"word " * 2000 + b"It begins with -----BEGIN RSA PRIVATE KEY----- and ends."
    assert "It begins with" in texts_in(tmp_path, "a.txt", text)[0].body


def test_a_trap_for_the_search_for_keys_is_harmless(tmp_path):
    """A pattern that tries all ways to divide these would take hours."""
    begun = b"-----BEGIN PRIVATE KEY-----"
    for trap in (b"\n" + b"a: " * 2000, b"\n" + b"a: b\n" * 2000, b" " * 5000 + b"A " * 5000):
        text = b"word " * 2000 + (begun + trap) * 20
        assert texts_in(tmp_path, "a.txt", text)
    fields = b"\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,00\r\n\r\n"
    assert why_unread(tmp_path, "a.txt", b"word " * 2000 + begun + fields + b"Q" * 64) == "key"
