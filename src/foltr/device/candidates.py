"""Which documents are ranked for a query: about a hundred of them, found by FTS5.

Documents that have all words come first, then those with words in their title or headings, then
those with the rarest words anywhere. A query of frequent words alone would make FTS5 score most
documents, so the last step leaves frequent words out where there are others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.device.index import Forward, Index
from foltr.device.query import Query, Word
from foltr.device.tokens import id_of

ALL, NAMED, RARE = 60, 40, 120  # most candidates after each step
EXPANSIONS = 8  # terms that a word's beginning stands for
SHORTEST = 4  # letters of a stem that an incomplete word is longer than
FREQUENT = 0.1  # share of all documents: a term in more is left out of the last step
WEIGHTS = "bm25(words, 4.0, 2.0, 1.0)"  # of title, headings and body
LEAST = 200  # documents: no term is frequent in a smaller index


@dataclass(frozen=True, eq=False)
class Slot:
    """A word of the query as the index knows it: the terms that it stands for."""

    terms: tuple[str, ...]  # the word's own first
    ids: Array  # (terms,) uint32
    frequencies: Array  # (3, 2) documents and occurrences in title, headings, body
    times: int = 1  # occurrences in the query

    @property
    def documents(self) -> int:
        """About how many documents have it."""
        return int(self.frequencies[:, 0].max())

    @property
    def expression(self) -> str:
        return _any(self.terms)


def slots_of(index: Index, query: Query) -> tuple[Slot, ...]:
    """The words of a query that say something, each once."""
    return tuple(_slot(index, *each) for each in Counter(query.telling).items())


def _slot(index: Index, word: Word, times: int) -> Slot:
    terms: tuple[str, ...] = (word.term,)
    if word.begin:
        more = index.beginning(word.begin, EXPANSIONS) or _stem_of(index, word)
        terms = (word.term, *(term for term in more if term != word.term))
    ids = np.array([id_of(term) for term in terms], np.uint32)
    counts = [index.frequencies(term) for term in terms]
    return Slot(terms, ids, np.sum(counts, axis=0), times)


def _stem_of(index: Index, word: Word) -> list[str]:
    """The longest term that an incomplete word begins with. No term begins with "configurat",
    because the term of "configuration" is "configur"."""
    if index.frequencies(word.term).any():
        return []
    begins = [word.begin[:n] for n in range(len(word.begin) - 1, SHORTEST - 1, -1)]
    return [term for term in begins if index.frequencies(term).any()][:1]


def numbered(slots: Sequence[Slot]) -> tuple[Array, Array]:
    """The ids of all terms of the slots, and the number of each one's slot, from 1. The own words
    of slots come last: if a term is in several slots, it counts for the one whose word it is."""
    others, own = [slot.ids[1:] for slot in slots], [slot.ids[0] for slot in slots]
    numbers = np.arange(1, len(slots) + 1, dtype=np.uint8)
    more = np.repeat(numbers, [len(slot.ids) - 1 for slot in slots])
    ids = np.concatenate([*others, np.array(own, np.uint32)])
    return ids, np.concatenate([more, numbers])


def slots_in(doc: Forward, ids: Array, numbers: Array) -> Array:
    """Which slot each token of a document is: (n,), 0 for none. `ids` and `numbers` are those of
    `numbered`."""
    if not len(doc.terms):
        return np.zeros(0, np.uint8)
    at = doc.terms.searchsorted(ids)
    known = doc.terms.take(at, mode="clip") == ids
    table = np.zeros(len(doc.terms), np.uint8)
    table[at[known]] = numbers[known]
    return table[doc.tokens]


def candidates(index: Index, query: Query, slots: Sequence[Slot]) -> list[int]:
    """The documents to rank, at most `RARE`, in the order in which they were found."""
    if not slots:
        return []
    found: dict[int, None] = {}
    must = [_phrase(phrase) for phrase in query.phrases]
    every = " AND ".join([*must, *(slot.expression for slot in slots)])
    found |= dict.fromkeys(index.matching(every, query.filter, WEIGHTS, ALL))
    among = " AND ".join([*must, ""])
    if len(slots) > 1 or not found:
        either = _any([term for slot in slots for term in slot.terms])
        named = f"{among}{{title headings}} : {either}"
        found |= dict.fromkeys(index.matching(named, query.filter, WEIGHTS, NAMED))
        most = max(LEAST, FREQUENT * index.statistics().documents)
        rare = [slot for slot in slots if slot.documents <= most]
        rare = rare or [min(slots, key=lambda slot: slot.documents)]
        often = [term for slot in rare for term in slot.terms * slot.times]
        other = among + _any(often)  # BM25 counts a repeated word again
        found |= dict.fromkeys(index.matching(other, query.filter, WEIGHTS, RARE))
    return list(found)[:RARE]


def _quoted(term: str) -> str:
    return f'"{term}"'  # a term has letters, digits and marks only


def _any(terms: Sequence[str]) -> str:
    return f"({' OR '.join(map(_quoted, terms))})"


def _phrase(terms: Sequence[str]) -> str:
    return f'"{" ".join(terms)}"'
