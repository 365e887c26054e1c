"""The reader: what it accepts, and what it says of what it refuses."""

import re

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.data.letor import Reading, arrays

GOOD = (
    "2 qid:10 1:0.5 2:-3 #docid = GX008-86 inc = 1\n0 qid:10 1:0 2:1e-3 # docid = clueweb09-x\n1"
    " qid:7 1:1 2:2\n"
)


def test_reads_labels_queries_features_and_document_ids(write):
    found = arrays(write(GOOD))
    assert found.labels.tolist() == [2, 0, 1]
    assert found.starts.tolist() == [0, 2]
    assert found.query_ids.tolist() == [b"10", b"7"]
    assert found.document_ids.tolist() == [b"GX008-86", b"clueweb09-x", b""]
    np.testing.assert_array_equal(
        found.storage[:, :2], np.array([[0.5, -3], [0, 1e-3], [1, 2]], np.float32)
    )
    assert found.storage.shape == (3, 8) and not found.storage[:, 2:].any()


@pytest.mark.parametrize(
    "same",
    [
        GOOD.rstrip("\n"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace(" ", "\t"),
        "\n  \n# a comment\n" + GOOD.replace("\n", "\n\n#x\n"),
        GOOD.replace(" 1:", "  1:").replace(" #", "#").replace("2 qid", "2.0 qid"),
        GOOD.replace(" 2:", " 1:")
        .replace(" 1:", " 0:", 1)
        .replace("0 qid:10 1:0 1", "0 qid:10 0:0 1")
        .replace("1 qid:7 1:1 1", "1 qid:7 0:1 1"),
    ],
    ids=["no final newline", "CRLF", "tabs", "blank and comment lines", "spaces", "0-based"],
)
def test_reads_the_same_from_other_spellings(write, same):
    plain, other = arrays(write(GOOD)), arrays(write(same, "other.txt"))
    np.testing.assert_array_equal(plain.storage, other.storage)
    assert (
        plain.labels.tolist() == other.labels.tolist()
        and plain.query_ids.tolist() == other.query_ids.tolist()
    )


@pytest.mark.parametrize(
    ("bad", "line", "told"),
    [
        ("1 1:2\n", 1, "qid"),
        ("1 qid: 1:2\n", 1, "empty"),
        ("1 qid:1 1:2\n\n1 qid:1 2:3\n", 3, "sparse=True"),
        ("1 qid:1 1:2 2:3\n1 qid:1 2:3 1:1\n", 2, "missing before '2:3'"),
        ("1 qid:1 1:2 2:3\n1 qid:1 1:3 1:1\n", 2, "out of order or twice"),
        ("1 qid:1 1:2 2:3\n1 qid:1 1:3\n", 2, "sparse=True"),
        ("1 qid:1 1:2 2:3\n1 qid:1 1:3 2:4 3:1\n", 2, "features end at 2"),
        ("1 qid:1 1:2\n1 qid:1 0:2\n", 2, "count from 1"),
        ("1 qid:1 1:2 2:x\n", 1, "'x' is not a finite number"),
        ("1 qid:1 one:2\n", 1, "expected feature:value"),
        ("1 qid:1 1\n", 1, "expected feature:value"),
        ("1 qid:1\n", 1, "sparse=True"),
        ("-1 qid:1 1:2\n", 1, "not with a label"),
        ("1.5 qid:1 1:2\n", 1, "not with a label"),
        ("nan qid:1 1:2\n", 1, "not with a label"),
        ("128 qid:1 1:2\n", 1, "grades"),
        ("1 qid:1 1:2\n1 qid:2 1:2\n\n#\n1 qid:1 1:2\n", 5, "stand together"),
        ("1 qid:1 1:1e39\n", 1, "clip=True"),
        ("1 qid:" + "9" * 300 + " 1:2\n", 1, "shorten"),
        ("1 qid:1 1:2 #docid = " + "9" * 300 + "\n", 1, "shorten"),
        ("", 1, "no line with a document"),
        ("\n# only comments\n", 1, "no line with a document"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", 1, "is this LETOR text?"),
        (b"1 qid:1\x00 1:2\n", 1, "control character"),
        (b"1 qid:1 1:2\x00\n", 1, "not a finite number"),
    ],
)
def test_names_file_line_and_way_out(write, bad, line, told):
    path = write(bad)
    with pytest.raises(Mistake) as caught:
        arrays(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ") and told in str(caught.value)


@pytest.mark.parametrize(
    "number",
    [
        "nan",
        "inf",
        "-Infinity",
        "1e999",
        "1.2.3",
        "--1",
        "",
        "1e",
        ".",
        "+",
        "1_0",
        "0x1",
        "1,5",
        "1e5.0",
    ],
)
def test_refuses_what_is_no_finite_number(write, number):
    path = write(f"1 qid:1 1:3\n0 qid:1 1:{number}\n")
    with pytest.raises(Mistake, match=re.escape(f"{path}, line 2: ")):
        arrays(path)


def test_an_unreadable_path_is_a_mistake(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.txt"):
        with pytest.raises(Mistake, match="cannot read"):
            arrays(path)


def test_clips_only_when_asked(write):
    path = write("1 qid:1 1:1.79769313486e+308\n0 qid:1 1:-1e999\n")
    largest = np.finfo(np.float32).max
    assert arrays(path, Reading(clip=True)).storage[:, 0].tolist() == [largest, -largest]


def test_sparse_texts_have_zeros_where_nothing_stands(write):
    path = write("1 qid:1:99 2:5\n0 qid:1:99\n0 qid:2 3:7 #9:9\n")
    np.testing.assert_array_equal(
        arrays(path, Reading(sparse=True)).storage[:, :3], [[0, 5, 0], [0, 0, 0], [0, 0, 7]]
    )
    assert arrays(path, Reading(sparse=True, features=9)).storage.shape == (3, 16)
    with pytest.raises(Mistake, match="line 3: '3:7'"):
        arrays(path, Reading(sparse=True, features=2))
    with pytest.raises(Mistake, match="line 1: feature 999999999"):
        arrays(write("1 qid:1 999999999:1\n"), Reading(sparse=True))


def test_labels_stay_below_the_grades(write):
    path = write("2 qid:1 1:5\n3 qid:1 1:5\n")
    with pytest.raises(Mistake, match="line 2: label '3' is not one of the 3 grades"):
        arrays(path, Reading(grades=3))
