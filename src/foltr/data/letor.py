"""The reader of LETOR (SVMlight) text: `label qid:Q 1:v 2:v ... #comment`, one document per line.

The text is read in blocks of whole lines (`text_files.py`). Several threads parse the blocks
(`kernels/letor.py`). The results are pieces of whole queries in the order of the file, so a file
may be larger than memory."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.world.dataset import padded
from foltr.data.text_files import blocks, lines

LARGEST = 16 << 20  # most numbers in the storage of one piece
HARD = 1 << 12  # most numbers that a kernel leaves to Python at a time
MOST_FEATURES = 100_000
MOST_GRADES = 128  # labels are int8


@dataclass(frozen=True)
class Reading:
    """How a text is to be read."""

    sparse: bool = False  # absent features are zeros instead of an error
    features: int | None = None  # None: as many as the text has
    grades: int | None = None  # None: any label below 128
    clip: bool = False  # numbers beyond float32 become its largest instead of an error


@dataclass(frozen=True)
class Shape:
    """The facts that must be known before blocks can be parsed independently."""

    width: int
    base: int  # the number of the first feature: 0 or 1


@dataclass(frozen=True)
class Piece:
    """Consecutive documents; `starts` are the rows at which a query begins, the first of them
    0."""

    storage: Array  # (n, w) float32
    labels: Array  # (n,) int8
    starts: Array  # (q,) int64
    query_ids: Array  # (q,) bytes
    document_ids: Array  # (n,) bytes, empty where unknown


PLAIN = Reading()


def read(path: Path, reading: Reading = PLAIN, threads: int | None = None) -> Iterator[Piece]:
    """The documents of a LETOR file in pieces of whole queries; errors name the file and the
    line."""
    from foltr.kernels import check_compiles

    check_compiles(f"reading {path}")
    shape = shape_of(path, reading)
    pieces = _whole_queries(_parsed(path, reading, shape, threads or min(4, os.cpu_count() or 1)))
    seen: list[Array] = []
    for piece in pieces:
        seen.append(piece.query_ids)
        yield piece
    if not seen:
        raise Mistake(
            f"{path}, line 1: no line with a document in it; a LETOR line is `label qid:Q 1:v 2:v"
            " ...`"
        )
    queries = np.concatenate(seen)
    if len(np.unique(queries)) < len(queries):
        raise scattered_query(path, queries)


def arrays(path: Path, reading: Reading = PLAIN, threads: int | None = None) -> Piece:
    """A whole file in memory, as one piece."""
    width = padded(shape_of(path, reading).width)
    line = sum(len(word) + 1 for word in _first_document(path)) or 1
    # memory that is not written is not allocated
    storage = np.empty((path.stat().st_size // line * 5 // 4, width), np.float32)
    rows, starts, parts = 0, [], []
    for piece in read(path, reading, threads):
        if rows + len(piece.labels) > len(storage):
            storage = np.concatenate(
                [storage[:rows], np.empty((rows + len(piece.labels), width), np.float32)]
            )
        storage[rows : rows + len(piece.labels)] = piece.storage
        starts.append(piece.starts + rows)
        rows += len(piece.labels)
        parts.append((piece.labels, piece.query_ids, piece.document_ids))
    labels, query_ids, document_ids = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Piece(storage[:rows], labels, np.concatenate(starts), query_ids, document_ids)


def shape_of(path: Path, reading: Reading) -> Shape:
    """The number of features and the first feature's number, from the first document.

    Features count from 0 if the first feature of the first document is 0, else from 1. A dense
    text has as many features as that document."""
    first = _first_document(path)[2:]
    base = (
        0
        if first and first[0].partition(b":")[0].strip(b"0") == b"" and first[0][:1] == b"0"
        else 1
    )
    if reading.features is not None:
        return Shape(reading.features, base)
    if not reading.sparse:
        return Shape(max(1, len(first)), base)
    from foltr.kernels.letor import largest_index

    last = max(
        (largest_index(np.frombuffer(block, np.uint8)) for block in blocks(path)), default=0
    )
    if last - base >= MOST_FEATURES:
        raise too_many_features(path, MOST_FEATURES + base - 1, MOST_FEATURES)
    return Shape(max(1, last + 1 - base), base)


def _first_document(path: Path) -> list[bytes]:
    """The words of the first line that is not empty, without comments."""
    for block in blocks(path):
        place = 0
        while place < len(block):
            end = block.index(b"\n", place)
            if words := block[place:end].partition(b"#")[0].split():
                return words
            place = end + 1
    return []


def _parsed(path: Path, reading: Reading, shape: Shape, threads: int) -> Iterator[Piece]:
    """The pieces of all blocks in order; at most `threads` blocks are parsed at a time."""
    waiting: deque[Future[list[Piece]]] = deque()
    line = 1
    with ThreadPoolExecutor(threads) as pool:
        for block in blocks(path):
            waiting.append(pool.submit(_parse_block, path, block, line, reading, shape))
            line += block.count(b"\n")
            if len(waiting) > threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def _parse_block(
    path: Path, block: bytes, line: int, reading: Reading, shape: Shape
) -> list[Piece]:
    from foltr.kernels import letor as kernels

    text, grades = np.frombuffer(block, np.uint8), reading.grades or MOST_GRADES
    rows = max(1, min(block.count(b"\n"), LARGEST // max(1, shape.width)))
    pieces, place, code = [], 0, kernels.FULL
    while code == kernels.FULL:
        storage, labels = (
            np.zeros((rows, padded(shape.width)), np.float32),
            np.empty(rows, np.int8),
        )
        starts, query_at, document_at = (
            np.empty(rows, int),
            np.empty((rows, 2), int),
            np.empty((rows, 2), int),
        )
        hard = np.empty((shape.width + HARD, 3), int)
        n, q, hards, code, place = kernels.parse_lines(
            text, place, grades, shape.width, shape.base, reading.sparse,
            storage, labels, starts, query_at, document_at, hard,
        )  # fmt: skip
        for row, column, at in hard[:hards]:
            storage[row, column] = number(path, block, line, int(at), reading.clip)
        if code not in (kernels.FINE, kernels.FULL):
            raise bad_line(path, block, line, place, code, shape.width, shape.base, grades)
        if n:
            ids = _gather(text, query_at[:q]), _gather(text, document_at[:n])
            pieces.append(Piece(storage[:n], labels[:n], starts[:q], *ids))
    return pieces


def _gather(text: Array, places: Array) -> Array:
    """The words at places (n, 2) of a text, as fixed-width bytes."""  # (n,)
    from foltr.kernels.letor import gather

    longest = max(1, int((places[:, 1] - places[:, 0]).max()))
    words = np.empty((len(places), longest), np.uint8)
    gather(text, places, words)
    return words.view(f"S{longest}")[:, 0]


def _whole_queries(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces that end at the border of a query: the last query of each piece waits for the next
    piece. Only queries that were split are copied."""
    waiting: list[Piece] = []
    for piece in pieces:
        rows = len(piece.labels)
        if waiting and waiting[-1].query_ids[-1] == piece.query_ids[0]:
            end = int(piece.starts[1]) if len(piece.starts) > 1 else rows
            waiting.append(_cut(piece, 0, end))
            if end == rows:
                continue
            piece, rows = _cut(piece, end, rows), rows - end
        if waiting:
            yield _joined(waiting)
        last = int(piece.starts[-1])
        if last:
            yield _cut(piece, 0, last)
        waiting = [_cut(piece, last, rows)]
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Piece]) -> Piece:
    """One piece from the parts of one query."""
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        np.concatenate([p.storage for p in pieces]),
        np.concatenate([p.labels for p in pieces]),
        pieces[0].starts,
        pieces[0].query_ids,
        np.concatenate([p.document_ids for p in pieces]),
    )


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    """Rows start .. stop of a piece, both at the border of a query."""
    queries = (piece.starts >= start) & (piece.starts < stop)
    return Piece(
        piece.storage[start:stop],
        piece.labels[start:stop],
        piece.starts[queries] - start,
        piece.query_ids[queries],
        piece.document_ids[start:stop],
    )


# Error messages for LETOR text: file, line, what is wrong, and what to do.

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
