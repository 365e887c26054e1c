"""A search: from a query to candidates with their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.device.candidates import Slot, candidates, slots_of
from foltr.device.features import Candidates, raw_features, scaled
from foltr.device.index import Document, Forward, Index
from foltr.device.query import Query
from foltr.device.tokens import id_of


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
