"""Text files of data: gzip, byte order marks and line ends, read alike or named."""

import gzip
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.sources.folder import Letor
from foltr.core.errors import Mistake
from foltr.data import text_files
from foltr.data import text_files as stamps
from foltr.data.letor import arrays
from foltr.data.text_files import BOM, blocks, lines

GOOD = (
    b"2 qid:10 1:0.5 2:-3 #docid = GX008-86 inc = 1\n0 qid:10 1:0 2:1e-3 # docid = clueweb09-x\n"
    b"1 qid:7 1:1 2:2\n"
)
text = st.binary(max_size=30).map(lambda made: made.replace(b"\r", b"").replace(b"\0", b"x"))


def written(folder, content, name="some.txt"):
    path = Path(folder) / name
    path.write_bytes(content)
    return path


def same(a, b):
    names = ("storage", "labels", "starts", "query_ids", "document_ids")
    assert all((getattr(a, name) == getattr(b, name)).all() for name in names)


@pytest.mark.parametrize(
    "other",
    [
        GOOD.replace(b"\n", b"\r"),
        GOOD.replace(b"\n", b"\r").rstrip(),
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\r\r\n"),
        BOM + GOOD,
        BOM + GOOD.replace(b"\n", b"\r"),
        gzip.compress(GOOD),
        gzip.compress(GOOD[:40]) + gzip.compress(GOOD[40:]),
        gzip.compress(BOM + GOOD.replace(b"\n", b"\r")),
    ],
    ids=["CR", "CR, no last", "CRLF", "CRCRLF", "BOM", "BOM, CR", "gzip", "2 gzip", "all"],
)
def test_every_document_is_read(tmp_path, other):
    same(arrays(written(tmp_path, GOOD)), arrays(written(tmp_path, other, "other")))


@given(
    st.lists(text.map(lambda made: made.replace(b"\n", b"")), min_size=1, max_size=8),
    st.integers(3, 40),
)
def test_lines_are_the_same_however_they_are_stored(given_lines, size):
    plain = b"".join(line + b"\n" for line in given_lines)
    stored = [plain, BOM + plain, gzip.compress(plain), plain.replace(b"\n", b"\r")]
    with tempfile.TemporaryDirectory() as folder, patch.object(text_files, "BLOCK", size):
        for content in stored:
            if content[:8].startswith(tuple(text_files.OTHERS)) or plain.startswith(
                (text_files.GZIP, BOM)
            ):
                continue
            path = written(folder, content)
            assert b"".join(blocks(path)) == plain
            assert [line[:-1] for line in lines(path)] == given_lines


def test_a_folder_of_compressed_files_is_the_same_data(tmp_path):
    for name in ("train.txt", "test.txt"):
        for folder, packed in (("plain", False), ("packed", True)):
            (tmp_path / folder).mkdir(exist_ok=True)
            content = gzip.compress(GOOD) if packed else GOOD
            written(tmp_path / folder, content, name + ".gz" * packed)
    plain, packed = (
        Letor(path=str(tmp_path / name)).load("train") for name in ("plain", "packed")
    )
    assert plain.content == packed.content and (plain.features == packed.features).all()


@pytest.mark.parametrize("begins", text_files.OTHERS)
def test_other_kinds_of_files_are_named(tmp_path, begins):
    path = written(tmp_path, begins + GOOD)
    for reader in (arrays, stamps.content):
        with pytest.raises(Mistake) as caught:
            reader(path)
        assert str(caught.value) == f"{path} is {text_files.OTHERS[begins]}"


def test_mixed_line_ends_that_would_hide_a_document_are_refused(tmp_path):
    path = written(tmp_path, GOOD + GOOD.replace(b"\n", b"\r").replace(b"qid:10", b"qid:11"))
    with pytest.raises(Mistake, match=r"line 4: a carriage return and then another document"):
        arrays(path)


@pytest.mark.parametrize("cut", [12, -9, -4])
def test_a_damaged_gzip_file_is_told(tmp_path, cut):
    path = written(tmp_path, gzip.compress(GOOD)[:cut], "some.gz")
    with pytest.raises(Mistake, match=r"some.gz is damaged: it cannot be unpacked"):
        arrays(path)


def test_a_gzip_file_with_other_bytes_behind_it_is_told(tmp_path):
    path = written(tmp_path, gzip.compress(GOOD) + b"more", "some.gz")
    with pytest.raises(Mistake, match="damaged"):
        arrays(path)


def test_a_small_file_cannot_fill_the_disk(tmp_path):
    path = written(tmp_path, gzip.compress(b"0 qid:1 1:0\n" * 500_000), "bomb.gz")
    with patch.object(text_files, "UNCHECKED", 1 << 20), pytest.raises(Mistake, match="200 times"):
        arrays(path)


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    path = written(tmp_path, b"0 qid:1 1:0\n" + b"x" * 5000)
    small = patch.multiple(text_files, LONGEST_LINE=1000, BLOCK=500)
    with small, pytest.raises(Mistake, match="line 2: more than 0 MB without a line end"):
        list(blocks(path))


def test_errors_name_the_line_of_the_unpacked_text(tmp_path):
    path = written(tmp_path, gzip.compress(GOOD.replace(b"\n", b"\r") + b"1 qid:10 1:0 2:1\r"))
    with pytest.raises(Mistake, match=r"line 4: .*again, after other queries"):
        arrays(path)
