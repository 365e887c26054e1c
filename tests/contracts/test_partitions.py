"""What every partition must be true of. A new file is tested here without being mentioned."""

from dataclasses import fields

import numpy as np
import pytest
from plain_things import each

from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import partitions
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.population import Population, SimulatedUser

TABLES = ("rows", "starts", "stops", "labelling", "ideals", "first", "last", "models", "sessions")
FEATURES, GRADES, QUERIES, SESSIONS = 4, 3, 40, 5


def data_of(labellings: int) -> Dataset:
    """Enough of everything: each query has ten documents and a user."""
    rng = np.random.default_rng(3)
    storage = np.zeros((10 * QUERIES, padded(FEATURES)), np.float32)
    storage[:, :FEATURES] = rng.random((10 * QUERIES, FEATURES), np.float32)
    labels = rng.integers(0, GRADES, (labellings, 10 * QUERIES)).astype(np.int8)
    names, users = np.arange(QUERIES).astype("S"), np.arange(QUERIES) % 6
    return Dataset(
        storage,
        FEATURES,
        labels,
        np.arange(0, 10 * QUERIES + 1, 10),
        GRADES,
        names,
        "made",
        users=users,
    )


def data_for(thing) -> Dataset:
    """Judged once; three times for who refuses that."""
    try:
        thing.population(data_of(1), Cascade(), 3, SESSIONS, 1)
    except Mistake:
        return data_of(3)
    return data_of(1)


def population_of(thing, clients=3, seed=1, sessions=SESSIONS) -> Population:
    return thing.population(data_for(thing), Cascade(), clients, sessions, seed)


def twin(cls):
    """With clients that are all alike, where that is a choice."""
    return (
        [(f"iid-{cls.__name__}", {"iid": True})]
        if "iid" in {field.name for field in fields(cls)}
        else []
    )


EVERY = each(partitions)


@EVERY
def test_a_partition_is_tables_over_the_data_as_it_is(thing):
    data = data_for(thing)
    before = data.labels.copy(), data.storage.copy()
    data.labels.setflags(write=False)
    data.storage.setflags(write=False)
    p = thing.population(data, Cascade(), 3, SESSIONS, 1)
    # no document is copied
    assert p.data.storage is data.storage and p.data.offsets is data.offsets
    assert p.clients == 3 and p.rows.dtype == np.int32
    for name in TABLES:
        assert name in ("rows", "ideals") or getattr(p, name).dtype == np.int64, name
    np.testing.assert_array_equal(before[0], data.labels)
    np.testing.assert_array_equal(before[1], data.storage)


@EVERY
def test_the_same_seed_gives_the_same_tables(thing):
    for name in TABLES:
        np.testing.assert_array_equal(
            getattr(population_of(thing), name), getattr(population_of(thing), name)
        )


@EVERY
def test_a_block_holds_each_of_its_documents_once_and_all_are_of_one_query(thing):
    p = population_of(thing)
    for start, stop in zip(p.starts, p.stops, strict=True):
        rows = p.rows[start:stop]
        assert len(set(rows.tolist())) == len(rows) and len(set((rows // 10).tolist())) == 1


@EVERY
def test_ideals_are_those_of_what_a_client_holds(thing):
    p = population_of(thing)
    for c in range(len(p.first)):
        _, labels, offsets = p.held(c)
        for at, ideal in enumerate(p.ideals[p.first[c] : p.last[c]]):
            best = np.sort(labels[offsets[at] : offsets[at + 1]])[::-1][:10]
            expected = sum(
                (2.0 ** float(g) - 1.0) / np.log2(rank + 1) for rank, g in enumerate(best, 1)
            )
            assert ideal == pytest.approx(expected, rel=1e-12)


@EVERY
def test_nobody_searches_more_than_the_most(thing):
    for sessions in (1, 4, 12):
        p = population_of(thing, sessions=sessions)
        assert p.sessions[:3].max() <= thing.most_sessions(sessions)


@EVERY
def test_every_client_can_search(thing):
    p = population_of(thing)
    for c in range(len(p.first)):
        user = SimulatedUser(p, c, stream(1, "user", c, 0))
        docs, ranking, clicks = user.session(lambda docs: np.arange(min(10, len(docs))))
        assert docs.shape[1] == FEATURES and len(ranking) == len(clicks) <= 10


@each(partitions, lambda thing: getattr(thing, "iid", False), variants=twin)
def test_in_the_twin_all_clients_are_alike(thing):
    p = population_of(thing)
    rows, labels, offsets = p.held(0)
    for c in range(1, p.clients):
        for one, other in zip((rows, labels, offsets), p.held(c), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.sort(p.models[c]), np.sort(p.models[0]))
        assert p.sessions[c] == p.sessions[0]
