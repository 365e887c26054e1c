"""The reader against a plain one: same numbers to the last bit, or a mistake on the same line;
never a crash."""

import re
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from plain_reader import Wrong, plain_read

from foltr.core.errors import Mistake
from foltr.data import letor, text_files
from foltr.data.letor import Reading, arrays
from property_settings import examples

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.floats(-3e38, 3e38).map(repr),
    st.integers(0, 10**20).map(str),
    st.tuples(st.integers(0, 10**19), st.integers(-60, 15)).map(lambda t: f"{t[0]}e{t[1]}"),
    st.integers(2**23, 2**26).map(lambda n: f"{n}.5"),
    st.floats(2**-149, 2.0**127, width=32).map(
        lambda x: repr((float(x) + float(np.nextafter(np.float32(x), 0))) / 2)
    ),
    st.sampled_from(
        [
            "-0",
            "+.5",
            "5.",
            "0e99999",
            "1e-99999",
            "000000000000000000000000.25",
            "3.4028235677973366e38",
        ]
    ),
)


@st.composite
def texts(draw):
    """Valid dense text, with its oddities."""
    width, lines = draw(st.integers(1, 4)), []
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 3))):
            values = "".join(
                f"{draw(st.sampled_from([' ', '  ', chr(9)]))}{i}:{draw(numbers)}"
                for i in range(1, width + 1)
            )
            comment = draw(st.sampled_from(["", " # docid = D-7 x", "#docid=a", " #x 5:6", " "]))
            lines.append(f"{draw(st.integers(0, 4))} qid:{query}{values}{comment}")
    return draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(lines).encode() + draw(
        st.sampled_from([b"", b"\n"])
    )


@st.composite
def mutated(draw):
    text = bytearray(draw(texts()))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        what = draw(
            st.sampled_from(
                [
                    *(bytes([b]) for b in b" \t\r\n#:.-+e0139qd\x00\x0b\xff"),
                    b"nan",
                    b" 3:1",
                    b"\n1 qid:0",
                    b"\r1 qid:0",
                ]
            )
        )
        text[at : at + draw(st.integers(0, 2))] = what
    return bytes(text)


def compared(text, **options):
    """Read both ways, with tiny blocks and tables too, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.txt"
        path.write_bytes(text)
        try:
            expected, line = plain_read(text, **options), None
        except Wrong as wrong:
            expected, line = None, wrong.args[0]
        for block, largest, hard in ((1 << 20, 1 << 20, 1 << 12), (80, 12, 2), (16, 2, 0)):
            small = patch.multiple(letor, LARGEST=largest, HARD=hard)
            with small, patch.object(text_files, "BLOCK", block):
                if expected is None:
                    with pytest.raises(Mistake) as caught:
                        arrays(path, Reading(**options), threads=2)
                    assert re.match(refusal(path, text, line), str(caught.value))
                else:
                    same(arrays(path, Reading(**options), threads=2), expected)


def refusal(path, text, line):
    """A pattern of how the message begins."""
    for mark, kind in text_files.OTHERS.items():
        if text.startswith(mark):
            return re.escape(f"{path} is {kind}")
    if text.startswith(text_files.GZIP):
        return re.escape(f"{path} is damaged: it cannot be unpacked by gzip (")
    return re.escape(f"{path}, line ") + (f"{line}: " if line else r"\d+: ")


def same(found, expected):
    features, labels, queries, names = expected
    assert found.storage[:, : features.shape[1]].tobytes() == features.tobytes()
    assert found.labels.tolist() == labels and found.document_ids.tolist() == names
    lengths = np.diff([*found.starts, len(labels)])
    assert np.repeat(found.query_ids, lengths).tolist() == queries


@examples(80)
@given(texts())
def test_valid_text_is_read_to_the_last_bit(text):
    compared(text)


@examples(150)
@given(mutated(), st.booleans(), st.booleans())
def test_damaged_text_is_read_like_the_plain_reader_or_refused_on_the_same_line(
    text, sparse, clip
):
    compared(text, sparse=sparse, clip=clip)


def with_every_mark(test):
    """Add examples that begin like a packed file or UTF-16."""
    for mark in (text_files.GZIP, *text_files.OTHERS):
        test = example(text=mark, sparse=False)(test)
        test = example(text=mark + b"\x08\x1f 1 qid:1 1:1\n", sparse=True)(test)
    return test


@examples(100)
@given(text=st.binary(max_size=200), sparse=st.booleans())
@with_every_mark
def test_any_bytes_are_read_or_refused(text, sparse):
    compared(text, sparse=sparse)


@pytest.mark.parametrize("line", [b"110000:1 qid:1 1:1", b"1 110000:1 1:1", b"1 qid:9:8 1:1"])
def test_a_label_or_a_query_is_not_taken_for_a_feature(line):
    """The first wrong line is named, not a later one with a large number at its beginning."""
    compared(b"0 qid:1 1:x\n" + line, sparse=True)


@pytest.mark.parametrize("index", ["100001", "110000", "9" * 30, "9" * 6000])
def test_a_feature_that_is_an_id_is_named_with_its_line(tmp_path, index):
    path = tmp_path / "some.txt"
    path.write_text(f"0 qid:1 1:1\n0 qid:1:{index}:2 1:1\n0 qid:2 {index}:1\n")
    with pytest.raises(Mistake, match=rf"line 3: feature {index[:20]}, but at most 100000"):
        arrays(path, Reading(sparse=True))
