"""The reader of LETOR (SVMlight) text: `label qid:Q 1:v 2:v ... #comment`, one document per line.

The text is read in blocks of whole lines (`text_files.py`). Several threads parse the blocks
(`kernels/letor.py`). The results are pieces of whole queries in the order of the file, so a file
may be larger than memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr.core import Array
from foltr.data import letor_errors
from foltr.data.text_files import blocks
from foltr.errors import Mistake
from foltr.world.dataset import padded

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
        raise letor_errors.scattered_query(path, queries)


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
        raise letor_errors.too_many_features(path, MOST_FEATURES + base - 1, MOST_FEATURES)
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
            storage[row, column] = letor_errors.number(path, block, line, int(at), reading.clip)
        if code not in (kernels.FINE, kernels.FULL):
            raise letor_errors.bad_line(
                path, block, line, place, code, shape.width, shape.base, grades
            )
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
