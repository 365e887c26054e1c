"""Error messages for LETOR text: file, line, what is wrong, and what to do."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from foltr.core import Array
from foltr.data.text_files import lines
from foltr.errors import Mistake

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WORD = re.compile(rb"[^ \t\r\n#]*")


def wrong(path: Path, line: int, what: str) -> Mistake:
    return Mistake(f"{path}, line {line}: {what}")


def _line(block: bytes, first: int, place: int) -> int:
    return first + block.count(b"\n", 0, place)


def _word(block: bytes, place: int) -> str:
    """The word at a place, in printable form."""
    word = WORD.match(block, place)
    assert word is not None  # the pattern also matches an empty word
    return ascii(word[0][:40].decode("latin-1")) + ("..." if len(word[0]) > 40 else "")


def number(path: Path, block: bytes, first: int, place: int, clip: bool) -> np.float32:
    """The number at a place, as Python reads it; raises unless it is finite in float32 (see
    `clip`)."""
    word = WORD.match(block, place)
    if word is None or not NUMBER.fullmatch(word[0]):
        what = (
            f"{_word(block, place)} is not a finite number; replace it, or leave the document out"
        )
        raise wrong(path, _line(block, first, place), what)
    value = float(word[0])
    with np.errstate(over="ignore"):
        near = np.float32(value)
    if np.isfinite(near):
        return near
    if clip:
        return np.float32(math.copysign(float(np.finfo(np.float32).max), value))
    what = (
        f"{_word(block, place)} is beyond float32 (3.4e38); clip=True takes its largest number"
        " instead"
    )
    raise wrong(path, _line(block, first, place), what)


def bad_line(
    path: Path, block: bytes, first: int, place: int, code: int, width: int, base: int, grades: int
) -> Mistake:
    """The error of a line that a kernel refused with `code` at `place`."""
    from foltr.kernels import letor as kernels

    word = _word(block, place)
    last = width + base - 1
    what = {
        kernels.LABEL: f"starts with {word}, not with a label 0, 1, 2, ...; is this LETOR text?",
        kernels.GRADE: (
            f"label {word} is not one of the {grades} grades 0 .. {grades - 1}; grades=... sets"
            " how many"
        ),
        kernels.NO_QID: (
            f"expected qid:... after the label, found {word}; a LETOR line is `label qid:Q 1:v 2:v"
            " ...`"
        ),
        kernels.EMPTY_QID: (
            "the query id after qid: is empty or holds a control character; give each query a name"
        ),
        kernels.LONG_ID: f"an id of more than {kernels.LONGEST_ID} bytes, {word}; shorten it",
        kernels.FEATURE: f"expected feature:value, found {word}; write e.g. {base}:0.5",
        kernels.ZERO: (
            "feature 0, but the first line starts with a later one, so features count from 1; "
            "let the first line start with feature 0 if they count from 0"
        ),
        kernels.ORDER: f"feature out of order or twice, at {word}; sort each line by feature",
        kernels.GAP: (
            f"a feature is missing before {word}; sparse=True if absent features are zeros"
        ),
        kernels.BEYOND: (
            f"{word}, but features end at {last} (as given, or on the first line); features=..."
            " sets how many, sparse=True finds the last"
        ),
        kernels.SHORT: (
            f"does not hold all features {base} .. {last}; sparse=True if absent features are"
            " zeros"
        ),
    }
    return wrong(path, _line(block, first, place), what[code])


def too_many_features(path: Path, last: int, most: int) -> Mistake:
    """The error of a sparse text with a feature index above `last`, the largest supported one:
    usually a hash or an id."""
    for line, text in enumerate(lines(path), 1):
        words = re.split(rb"[ \t\r\n]+", text.partition(b"#")[0].lstrip(b" \t\r"))
        for index in (re.match(rb"0*(\d+):", word) for word in words[2:]):
            if index is not None and (len(index[1]) > 12 or int(index[1]) > last):
                what = f"feature {index[1][:20].decode()}, but at most {most} are supported"
                return wrong(path, line, f"{what}; is that an id?")
    return wrong(path, 1, f"a feature is beyond the {most} that are supported")


def line_of(path: Path, document: int) -> int:
    """The line of a document, or of the last one; slow, for error messages only."""
    found = [
        line
        for line, text in enumerate(lines(path), 1)
        if text.partition(b"#")[0].strip(b" \t\r\n")
    ]
    return found[min(document, len(found) - 1)]


def scattered_query(path: Path, queries: Array) -> Mistake:
    """The error of a query whose lines are not consecutive; `queries` has one id per run of equal
    ids."""
    _, first = np.unique(queries, return_index=True)
    again = int(np.setdiff1d(np.arange(len(queries)), first)[0])
    runs, last = -1, b""
    for line, text in enumerate(lines(path), 1):
        words = text.partition(b"#")[0].split(None, 2)
        if len(words) > 1 and words[1] != last:
            runs, last = runs + 1, words[1]
        if runs == again:
            name = last.decode("latin-1")
            return wrong(
                path,
                line,
                f"{name!a} again, after other queries; let a query's lines stand together",
            )
    return wrong(path, 1, "the lines of a query do not stand together")
