"""The part of a document that answers a query best, with the words of the query marked.

The index stores where every 64th token of a body begins. So only the text around the chosen place
is split into tokens again, never the whole document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr.core import Array
from foltr.device.index import EVERY, Forward, Index
from foltr.device.query import Filter
from foltr.device.searching import Slot, numbered, slots_in
from foltr.device.tokens import id_of, token_end, tokens_of

WINDOW = 40  # tokens of a snippet
BEFORE = 6  # tokens before the first match
MOST = 400  # characters of a snippet
FARTHEST = 100_000  # characters that are looked at around a match


class Piece(NamedTuple):
    """A part of a text, and whether it is a word of the query."""

    text: str
    marked: bool


def snippet(index: Index, doc: Forward, slots: Sequence[Slot]) -> list[Piece]:
    """The best part of a document's body, or its beginning."""
    body, places = index.places(doc.id)
    place = best_place(doc, slots)
    stored = max(place - BEFORE, 0) // EVERY
    begin = int(places[stored]) if 0 < stored < len(places) else 0
    # the window is in the next 128 tokens
    beyond = int(places[stored + 2]) if stored + 2 < len(places) else len(body)
    around = body[begin : min(beyond, begin + FARTHEST)]
    start, end = _window(around, place - stored * EVERY)
    pieces = marked(around[start:end].strip(), slots)
    dots = [Piece("… ", False)] if begin + start > 0 else []
    more = [Piece(" …", False)] if body[begin + end : begin + end + FARTHEST].strip() else []
    return [*dots, *pieces, *more]


def _window(around: str, hit: int) -> tuple[int, int]:
    """Where the part to show begins and ends, for a match that is the token number `hit`. Words
    are whole, unless the match is too long itself."""
    starts = tokens_of(around).starts
    if hit >= len(starts):  # no token at all, or it is too far away
        return 0, min(len(around), MOST)
    at, first = int(starts[hit]), max(hit - BEFORE, 0)
    start = int(starts[first]) if first else 0
    if at - start > MOST // 2:
        start = int(starts[np.searchsorted(starts, at - MOST // 2)])
    last = first + WINDOW
    end = int(starts[last]) if last < len(starts) else len(around)
    if end - start > MOST:
        end = start + MOST
        cut = int(starts[np.searchsorted(starts, end) - 1])
        if cut > at and token_end(around, cut) > end:
            end = cut
    return start, end


def best_place(doc: Forward, slots: Sequence[Slot]) -> int:
    """The token of the body at which the window with most different words of the query begins."""
    title, headings, _ = doc.lengths.tolist()
    which = slots_in(doc, *numbered(slots))[title + headings :]
    hits = np.flatnonzero(which)
    if not len(hits):
        return 0
    return int(hits[_best_window(hits, which[hits], slots)])


def _best_window(hits: Array, which: Array, slots: Sequence[Slot]) -> int:
    """Which hit begins the window with the rarest different words; the first of equals."""
    worth = [1.0 / (1.0 + math.log1p(slot.documents)) for slot in slots]
    ends = np.searchsorted(hits, hits + (WINDOW - BEFORE))
    best, found = -1.0, 0
    seen: dict[int, int] = {}  # words in the window, and how often
    total, last = 0.0, 0
    kinds = (which.astype(np.int64) - 1).tolist()
    for first, end in enumerate(ends.tolist()):
        while last < end:
            seen[kinds[last]] = seen.get(kinds[last], 0) + 1
            total += worth[kinds[last]] if seen[kinds[last]] == 1 else 0.0
            last += 1
        value = total + 1e-3 * (end - first)
        if value > best + 1e-9:
            best, found = value, first
        seen[kinds[first]] -= 1
        total -= worth[kinds[first]] if seen[kinds[first]] == 0 else 0.0
    return found


def marked(text: str, slots: Sequence[Slot], single: bool = True) -> list[Piece]:
    """A text in pieces: words of the query, and what is between them. With `single`, white space
    is made single."""
    wanted = {id for slot in slots for id in slot.ids.tolist()}
    tokens = tokens_of(text)
    pieces, at = [], 0
    for id, start in zip(tokens.ids.tolist(), tokens.starts.tolist(), strict=True):
        if id not in wanted:
            continue
        end = token_end(text, start)
        if start > at:
            pieces.append(Piece(text[at:start], False))
        if end > max(at, start):
            pieces.append(Piece(text[max(at, start) : end], True))
        at = max(at, end)
    pieces.append(Piece(text[at:], False))
    if single:
        pieces = [Piece(_single(each.text), each.marked) for each in pieces]
    return [each for each in pieces if each.text]


def _single(text: str) -> str:
    words = " ".join(text.split())
    left = " " if text[:1].isspace() else ""
    right = " " if text[-1:].isspace() and words else ""
    return f"{left}{words}{right}"


# Words for a query that finds nothing: which of its words are in no document, and what may
# have been meant.

COMPARED = 3000  # terms, those of most documents first


def unknown_words(text: str, slots: Sequence[Slot]) -> list[str]:
    """The words of a query that no document has, as they were typed."""
    missing = {id for slot in slots if not slot.documents for id in slot.ids.tolist()}
    tokens = tokens_of(text)
    found = [
        _word_at(text, start)
        for id, start in zip(tokens.ids.tolist(), tokens.starts.tolist(), strict=True)
        if id in missing
    ]
    return list(dict.fromkeys(found))


def similar_word(index: Index, word: str) -> str | None:
    """A word of the documents that a misspelt word is like: at most a third of its letters are
    wrong, missing, too many, or in the wrong order."""
    terms = tokens_of(word).terms
    if not terms or len(terms[0]) < 3:
        return None
    own, most = terms[0], max(1, len(terms[0]) // 3)
    known = index.beginning(own[0], COMPARED)
    near = [term for term in known if abs(len(term) - len(own)) <= most]
    least, at = most + 1, 0
    for i, term in enumerate(near):
        edits = distance(own, term, least)
        if edits < least:
            least, at = edits, i
    return _as_written(index, near[at]) if least <= most else None


def distance(a: str, b: str, most: int) -> int:
    """The number of edits between two words: a letter more, less or another, or two exchanged
    (optimal string alignment). Exact only if it is less than `most`."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            least = min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        if min(row) >= most:  # no row that follows has less
            return most
        before, last = last, row
    return last[-1]


def _as_written(index: Index, term: str) -> str:
    """A term as a document has it; the index knows only its stem."""
    for document in index.matching(f'"{term}"', Filter(), "rank", 1):
        headings, body = index.texts(document)
        for text in (index.documents([document])[document].title, headings, body):
            tokens = tokens_of(text)
            places = (tokens.ids == id_of(term)).nonzero()[0]
            if len(places):
                return _word_at(text, int(tokens.starts[places[0]])).lower()
    return term


def _word_at(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[start : max(end, start + 1)]
