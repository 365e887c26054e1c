"""Which documents are ranked for a query: about a hundred of them, found by FTS5.

Documents that have all words come first, then those with words in their title or headings, then
those with the rarest words anywhere. A query of frequent words alone would make FTS5 score most
documents, so the last step leaves frequent words out where there are others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foltr.core import Array
from foltr.device.index import Document, Forward, Index, Statistics
from foltr.device.query import Query, Word
from foltr.device.tokens import id_of, tokens_of

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
    must = [f'"{" ".join(phrase)}"' for phrase in query.phrases]
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


def _any(terms: Sequence[str]) -> str:
    return "(" + " OR ".join(f'"{term}"' for term in terms) + ")"  # a term has no quotes


# The features of a document for a query: what the ranker sees. They are computed from the
# forward index, on the device.

VERSION = 1
K1, B = 1.2, 0.75  # of BM25
MU = (10.0, 50.0, 1000.0)  # Dirichlet mu for title, headings, and title with body
MIX = 0.3  # weight of the collection in a mixed language model
NEAR = 3  # tokens within which two words of the query are neighbours
EARLY = 100  # tokens at the beginning of the body
DAY = 86_400.0  # seconds
TITLE, HEADINGS, BODY, TEXT = range(4)  # TEXT is title and body; a body has its headings in it

# for the people who see why a document has its rank; the formulas are below
ABOUT = {
    "bm25": "how well title and body match, by BM25: the ranking of a new device",
    "bm25_title": "how well the title matches, by BM25",
    "bm25_headings": "how well the headings match, by BM25",
    "bm25_body": "how well the body matches, by BM25",
    "tfidf_title": "how often the words are in the title; rare words count more",
    "tfidf_headings": "how often the words are in the headings; rare words count more",
    "tfidf_body": "how often the words are in the body; rare words count more",
    "language_title": "query likelihood of the title (language model, Dirichlet smoothing)",
    "language_headings": "query likelihood of the headings (Dirichlet smoothing)",
    "language_text": "query likelihood of title and body (Dirichlet smoothing)",
    "mixed_text": "query likelihood of title and body (Jelinek-Mercer smoothing)",
    "cover_title": "share of the query's words in the title",
    "cover_headings": "share of the query's words in the headings",
    "cover_text": "share of the query's words in title or body",
    "idf_title": "share of the query's words in the title; rare words count more",
    "idf_headings": "share of the query's words in the headings; rare words count more",
    "idf_text": "share of the query's words in title or body; rare words count more",
    "run_title": "longest part of the query that is in the title word for word",
    "run_headings": "longest part of the query that is in the headings word for word",
    "run_body": "longest part of the query that is in the body word for word",
    "neighbours_title": "neighbours in the query are near each other in the title",
    "neighbours_headings": "neighbours in the query are near each other in the headings",
    "neighbours_body": "neighbours in the query are near each other in the body",
    "closeness": "how often different words of the query are close together in the body",
    "nearest": "how near the two closest different words of the query are in the body",
    "title_share": "share of the title's words that are in the query",
    "headings_share": "share of the headings' words that are in the query",
    "body_share": "share of the body's words that are in the query",
    "title_equal": "the title is the query",
    "title_begins": "the title begins with the query",
    "first": "how early the body has a word of the query",
    "early": "share of the query's words in the first 100 words of the body",
    "name": "share of the query's words in the name of the file",
    "path": "share of the query's words in the names of its folders",
    "depth": "number of folders around the file",
    "length": "length of the document",
    "title_length": "length of the title",
    "recent": "how recent the document is",
}
NAMES = tuple(f"{name} v{VERSION}" for name in ABOUT)


class Hits(NamedTuple):
    """Where words of the query occur: one row per occurrence, by document and place."""

    doc: Array
    place: Array  # tokens from the beginning of the document
    slot: Array
    field: Array


@dataclass(frozen=True, eq=False)
class Candidates:
    """What features are computed from."""

    slots: Sequence[Slot]
    query: Array  # ids of all words of the query, in order (uint32)
    docs: Sequence[Forward]
    about: Sequence[Document]
    statistics: Statistics
    now: float | None = None  # seconds since 1970; None for the present


def raw_features(found: Candidates) -> Array:
    """The features of all candidates before scaling: (m, f) float64."""
    m, s = len(found.docs), len(found.slots)
    if not m or not s:
        return np.zeros((m, len(NAMES)))
    hits = _hits(found)
    lengths = _with_text(np.stack([doc.lengths for doc in found.docs]).astype(float))  # (m, 4)
    counts = _counts(hits, m, s)  # (m, 4, s)
    n = max(found.statistics.documents, 1)
    table = np.stack([slot.frequencies for slot in found.slots])  # (s, 3, 2)
    either = np.maximum(table[:, [TITLE], 0], table[:, [BODY], 0])  # about how many have a term
    documents = np.minimum(np.concatenate([table[:, :, 0], either], axis=1), n).T
    times = np.array([slot.times for slot in found.slots], float)
    idf = times * np.log1p((n - documents + 0.5) / (documents + 0.5))  # (4, s)
    means = np.array(found.statistics.lengths)
    means = np.maximum(np.append(means, means[TITLE] + means[BODY]), 1.0)
    there = counts > 0
    cover = there.mean(axis=2)
    weight = idf[TEXT] / max(idf[TEXT].sum(), 1e-9)
    columns = {f"bm25{end}": _bm25(counts[:, f], lengths[:, f], means[f], idf[f]) for end, f in (
        ("", TEXT), ("_title", TITLE), ("_headings", HEADINGS), ("_body", BODY),
    )}  # fmt: skip
    chance = _chances(table, n, means)  # (4, s)
    for name, f in (("title", TITLE), ("headings", HEADINGS), ("body", BODY)):
        columns[f"tfidf_{name}"] = np.log1p(counts[:, f]) @ idf[f]
        columns[f"{name}_share"] = counts[:, f].sum(axis=1) / np.maximum(lengths[:, f], 1)
    for name, f, mu in (("title", TITLE, 0), ("headings", HEADINGS, 1), ("text", TEXT, 2)):
        smooth = (counts[:, f] + MU[mu] * chance[f]) / (lengths[:, f] + MU[mu])[:, None]
        columns[f"language_{name}"] = np.log(smooth) @ times
        columns[f"cover_{name}"] = cover[:, f]
        columns[f"idf_{name}"] = there[:, f] @ weight
    share = counts[:, TEXT] / np.maximum(lengths[:, TEXT], 1)[:, None]
    columns["mixed_text"] = np.log1p((1.0 - MIX) / MIX * share / chance[TEXT]) @ times
    columns |= _together(hits, m, s, idf[TEXT])
    columns |= _beginnings(found, hits, m, s, lengths)
    columns |= _of_files(found)
    columns["length"] = np.log1p(lengths[:, TEXT])
    columns["title_length"] = np.log1p(lengths[:, TITLE])
    return np.stack([columns[name] for name in ABOUT], axis=1)


def scaled(raw: Array) -> Array:
    """Features from 0 to 1 over the candidates of a query: (m, f) float32."""
    if not len(raw):
        return raw.astype(np.float32)
    low, high = raw.min(axis=0), raw.max(axis=0)
    width = high - low
    constant = ~(width > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
    found = (raw - low) / np.where(constant, 1.0, width)
    found[:, constant] = 0.0
    return found.astype(np.float32)


def _hits(found: Candidates) -> Hits:
    ids, numbers = numbered(found.slots)
    places, slots = [], []
    for doc in found.docs:
        which = slots_in(doc, ids, numbers)
        (place,) = which.nonzero()
        places.append(place)
        slots.append(which[place])
    holder = np.repeat(np.arange(len(places)), [len(each) for each in places])
    place, slot = np.concatenate(places), np.concatenate(slots).astype(np.int64) - 1
    ends = np.cumsum([doc.lengths[:2] for doc in found.docs], axis=1, dtype=np.int64)
    field = (place >= ends[holder, 0]).astype(np.int64) + (place >= ends[holder, 1])
    return Hits(holder, place, slot, field)


def _with_text(fields: Array) -> Array:
    """Numbers of title, headings and body (m, 3, ...), and of title with body: (m, 4, ...)."""
    return np.concatenate([fields, fields[:, [TITLE]] + fields[:, [BODY]]], axis=1)


def _counts(hits: Hits, m: int, s: int) -> Array:
    flat = (hits.doc * 3 + hits.field) * s + hits.slot
    return _with_text(np.bincount(flat, minlength=m * 3 * s).reshape(m, 3, s).astype(float))


def _bm25(counts: Array, lengths: Array, mean: float, idf: Array) -> Array:
    norm = K1 * (1.0 - B + B * lengths / mean)
    return (counts * (K1 + 1.0) / (counts + norm[:, None])) @ idf


def _chances(table: Array, n: int, means: Array) -> Array:
    """The share of each term in all fields of the collection: (4, s)."""
    return (_with_text(table[:, :, 1]).T + 0.5) / (n * means[:, None] + 1.0)


def _together(hits: Hits, m: int, s: int, idf: Array) -> dict[str, Array]:
    """How near the words of the query are to each other."""
    same = (hits.doc[1:] == hits.doc[:-1]) & (hits.field[1:] == hits.field[:-1])
    apart = (hits.place[1:] - hits.place[:-1]).astype(float)
    ordered = same & (hits.slot[1:] == hits.slot[:-1] + 1)
    doc, field, slot = hits.doc[:-1], hits.field[:-1], hits.slot[:-1]
    columns = {}
    runs = _runs(hits, ordered & (apart == 1.0))
    near = ordered & (apart <= NEAR)
    for name, f in (("title", TITLE), ("headings", HEADINGS), ("body", BODY)):
        longest, inside = np.zeros(m), hits.field == f
        np.maximum.at(longest, hits.doc[inside], runs[inside])
        columns[f"run_{name}"] = longest / s
        pairs = np.zeros((m, s), bool)
        pairs[doc[near & (field == f)], slot[near & (field == f)]] = True
        columns[f"neighbours_{name}"] = pairs.sum(axis=1) / max(s - 1, 1)
    other = same & (field == BODY) & (hits.slot[1:] != hits.slot[:-1])
    smaller = np.minimum(idf[hits.slot[1:]], idf[hits.slot[:-1]])
    close = np.bincount(doc[other], smaller[other] / apart[other] ** 2, minlength=m)
    nearest = np.zeros(m)
    np.maximum.at(nearest, doc[other], 1.0 / apart[other])
    return columns | {"closeness": np.log1p(close), "nearest": nearest}


def _runs(hits: Hits, joined: Array) -> Array:
    """The length of the run of adjacent words that ends at each hit."""
    n = len(hits.doc)
    begins = np.ones(n, bool)
    begins[1:] = ~joined
    start = np.maximum.accumulate(np.where(begins, np.arange(n), 0)) if n else np.zeros(0, int)
    return np.arange(n) - start + 1.0


def _beginnings(found: Candidates, hits: Hits, m: int, s: int, lengths: Array) -> dict[str, Array]:
    """What is at the beginning of title and body."""
    body = hits.field == BODY
    place = hits.place - (lengths[hits.doc, TITLE] + lengths[hits.doc, HEADINGS])
    first = np.full(m, np.inf)
    np.minimum.at(first, hits.doc[body], place[body])
    early = np.zeros((m, s), bool)
    soon = body & (place < EARLY)
    early[hits.doc[soon], hits.slot[soon]] = True
    equal, begins, q = np.zeros(m), np.zeros(m), len(found.query)
    for d, doc in enumerate(found.docs):
        title = int(doc.lengths[TITLE])
        maybe = 0 < q <= title and doc.terms[doc.tokens[0]] == found.query[0]
        if maybe and np.array_equal(doc.terms[doc.tokens[:q]], found.query):
            begins[d], equal[d] = 1.0, float(title == q)
    with np.errstate(divide="ignore"):
        sooner = 1.0 / (1.0 + np.log1p(first))
    return {
        "first": sooner, "early": early.mean(axis=1), "title_equal": equal, "title_begins": begins,
    }  # fmt: skip


def _of_files(found: Candidates) -> dict[str, Array]:
    """What name, folders and date say."""
    now = time.time() if found.now is None else found.now
    paths = [document.path for document in found.about]
    folders, _, names = zip(*(path.rpartition("/") for path in paths), strict=True)
    days = [max(now - document.date, 0.0) / DAY for document in found.about]
    return {
        "name": _share_in(names, found.slots),
        "path": _share_in(folders, found.slots),
        "depth": np.array([path.count("/") for path in paths], float),
        "recent": -np.log1p(days),
    }


def _share_in(names: Sequence[str], slots: Sequence[Slot]) -> Array:
    """The share of slots that are in each name. All names are one text here, because finding the
    tokens of a hundred short texts takes longer."""
    tokens = tokens_of("\n".join(names))
    ends = np.cumsum([len(name) + 1 for name in names])
    which, ids = np.searchsorted(ends, tokens.starts, side="right"), tokens.ids
    there = np.zeros((len(names), len(slots)), bool)
    for s, slot in enumerate(slots):
        there[which[np.isin(ids, slot.ids)], s] = True
    return there.mean(axis=1)


# A search: from a query to candidates with their features.


@dataclass(frozen=True, eq=False)
class Search:
    """The candidates of a query, with their features: what a ranker orders."""

    query: Query
    slots: tuple[Slot, ...]
    documents: tuple[Document, ...]
    forward: tuple[Forward, ...]  # their terms
    features: Array  # (m, f) float32, 0 .. 1


def search(index: Index, query: Query, now: float | None = None) -> Search:
    """Find and describe the candidates of a query. `now` is for tests."""
    slots = slots_of(index, query)
    ids = candidates(index, query, slots)
    docs = index.forward(ids)
    known = index.documents(doc.id for doc in docs)
    docs = [doc for doc in docs if doc.id in known]
    about = tuple(known[doc.id] for doc in docs)
    words = np.array([id_of(term) for term in query.terms], np.uint32)
    found = Candidates(slots, words, docs, about, index.statistics(), now)
    return Search(query, slots, about, tuple(docs), scaled(raw_features(found)))
