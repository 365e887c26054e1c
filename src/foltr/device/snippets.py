"""The part of a document that answers a query best, with the words of the query marked.

The index stores where every 64th token of a body begins. So only the text around the chosen place
is split into tokens again, never the whole document."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foltr.core import Array
from foltr.device.candidates import Slot
from foltr.device.index import EVERY, Forward, Index
from foltr.device.tokens import tokens_of, unspaced

WINDOW = 40  # tokens of a snippet
BEFORE = 6  # tokens before the first match
MARKS = ("Mn", "Mc")  # accents and vowel signs
MOST = 400  # characters of a snippet


class Piece(NamedTuple):
    """A part of a text, and whether it is a word of the query."""

    text: str
    marked: bool


def snippet(index: Index, doc: Forward, slots: Sequence[Slot]) -> list[Piece]:
    """The best part of a document's body, or its beginning."""
    body, places = index.places(doc.id)
    place = best_place(doc, slots)
    first = max(place - BEFORE, 0)
    stored = min(first // EVERY, max(len(places) - 1, 0))
    begin = int(places[stored]) if len(places) else 0
    around = body[begin : begin + (EVERY + WINDOW) * 40]
    tokens = tokens_of(around)
    skip = first - stored * EVERY
    start = int(tokens.starts[skip]) if 0 < skip < len(tokens.starts) else 0
    last = min(skip + WINDOW, len(tokens.starts))
    end = int(tokens.starts[last]) if last < len(tokens.starts) else len(around)
    end = min(end, start + MOST)
    pieces = marked(around[start:end], slots)
    dots = [Piece("… ", False)] if begin + start > 0 else []
    more = [Piece(" …", False)] if begin + end < len(body) else []
    return [*dots, *pieces, *more]


def best_place(doc: Forward, slots: Sequence[Slot]) -> int:
    """The token of the body at which the window with most different words of the query begins."""
    title, headings, _ = doc.lengths.tolist()
    tokens = doc.tokens[title + headings :]
    table = np.zeros(len(doc.terms) + 1, np.uint8)
    for number, slot in enumerate(slots, 1):
        at = np.searchsorted(doc.terms, slot.ids)
        known = at < len(doc.terms)
        known[known] = doc.terms[at[known]] == slot.ids[known]
        table[at[known]] = number
    which = table[tokens]
    hits = np.flatnonzero(which)
    if not len(hits):
        return 0
    return int(hits[_best_window(hits, which[hits], slots)])


def _best_window(hits: Array, which: Array, slots: Sequence[Slot]) -> int:
    """Which hit begins the window with the rarest different words; the first of equals."""
    worth = [1.0 / (1.0 + np.log1p(slot.documents)) for slot in slots]
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
        end = _word_end(text, start)
        if start > at:
            pieces.append(Piece(text[at:start], False))
        if end > max(at, start):
            pieces.append(Piece(text[max(at, start) : end], True))
        at = max(at, end)
    pieces.append(Piece(text[at:], False))
    if single:
        pieces = [Piece(_single(each.text), each.marked) for each in pieces]
    return [each for each in pieces if each.text]


def _word_end(text: str, start: int) -> int:
    """Where a word ends that begins at `start`. A character of a script without spaces is a word
    of its own, and so is the next one."""
    if unspaced().match(text, start):
        return min(start + 2, len(text))
    end = start + 1
    while end < len(text) and (text[end].isalnum() or unicodedata.category(text[end]) in MARKS):
        end += 1
    return end


def _single(text: str) -> str:
    words = " ".join(text.split())
    left = " " if text[:1].isspace() else ""
    right = " " if text[-1:].isspace() and words else ""
    return f"{left}{words}{right}"
