"""Data sets of a few documents, and what a population says of them in plain words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from foltr.core.world.dataset import Dataset, padded

FEATURES = 3


def made(labels, lengths, grades, users=None) -> Dataset:
    """`labels` is a row per labelling; document i has the features i, i + 0.25 and i + 0.5."""
    labels = np.array(labels, np.int8)
    storage = np.zeros((labels.shape[1], padded(FEATURES)), np.float32)
    storage[:, :FEATURES] = np.arange(labels.shape[1])[:, None] + np.array([0.0, 0.25, 0.5])
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    names = np.arange(len(lengths)).astype("S")
    return Dataset(storage, FEATURES, labels, offsets, grades, names, content="tiny", users=users)


@st.composite
def tiny(draw, grades=(2, 3, 5), labellings=(1, 1), least=1, queries=8):
    """Any labels; at least `least` documents of each grade in every labelling."""
    g = draw(st.sampled_from(grades))
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=queries))
    while sum(lengths) < g * least:
        lengths.append(g * least)
    n, rows = sum(lengths), draw(st.integers(*labellings))
    rest = st.lists(st.integers(0, g - 1), min_size=n - g * least, max_size=n - g * least)
    labels = [
        draw(st.permutations([*np.repeat(np.arange(g), least).tolist(), *draw(rest)]))
        for _ in range(rows)
    ]
    return made(labels, lengths, g)


def blocks(population, client):
    """(documents, labels as the client judges them) of each of its blocks."""
    rows, labels, offsets = population.held(client)
    return [(rows[a:b], labels[a:b]) for a, b in pairwise(offsets)]


def documents(population, client):
    return population.held(client)[0].tolist()


def query_of(data, documents):
    """The one query of some documents."""
    queries = np.unique(np.searchsorted(data.offsets, documents, side="right") - 1)
    assert len(queries) == 1
    return int(queries[0])


def copies_nothing(population, data):
    return np.shares_memory(population.data.storage, data.storage)
