"""Type 2: who owns which grades, and how their documents are dealt."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chance import plausible
from foltr.components.partitions.by_label import ByLabel
from foltr.components.partitions.iid import IID
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.metrics import ideal_dcg
from tiny_data import blocks, copies_nothing, documents, made, query_of, tiny

SEEDS = st.integers(0, 2**63 - 1)


def dealt(data, clients, seed=1, **fields):
    return ByLabel(**fields).population(data, Cascade(), clients, 5, seed)


def grades_of(population, client):
    return frozenset(population.held(client)[1].tolist())


@st.composite
def deals(draw):
    """Data, how many labels a client has, and a number of clients that both allow."""
    data = draw(tiny(least=12))
    labels = draw(st.integers(1, data.grades))
    ways = len(list(combinations(range(data.grades), labels)))
    times = draw(st.integers(1, 2 if ways < 10 else 1))
    return data, labels, ways * times, ways


@given(deals(), SEEDS)
def test_every_document_is_dealt_once_and_equally_to_those_who_own_its_label(case, seed):
    data, labels, clients, ways = case
    p = dealt(data, clients, seed, labels=labels)
    everything = sorted(row for c in range(clients) for row in documents(p, c))
    assert everything == list(range(data.documents))
    owned = [grades_of(p, c) for c in range(clients)]
    # each grade has documents enough for all its owners
    assert all(len(grades) == labels for grades in owned)
    assert len(set(owned)) == ways and all(
        owned.count(grades) == clients // ways for grades in owned
    )
    for grade in range(data.grades):
        sizes = [int((p.held(c)[1] == grade).sum()) for c in range(clients) if grade in owned[c]]
        assert max(sizes) - min(sizes) <= 1 and sum(sizes) == (data.labels[0] == grade).sum()
    assert copies_nothing(p, data) and p.clients == clients and (p.sessions == 5).all()


@given(deals(), SEEDS)
def test_a_block_is_what_a_client_holds_of_one_query(case, seed):
    data, labels, clients, _ = case
    p = dealt(data, clients, seed, labels=labels)
    for c in range(clients):
        queries = [query_of(data, rows) for rows, _ in blocks(p, c)]
        assert (
            len(queries)
            == len(set(queries))
            == len({query_of(data, [row]) for row in documents(p, c)})
        )
        ideals = p.ideals[p.first[c] : p.last[c]]
        for (_, labels_held), ideal in zip(blocks(p, c), ideals, strict=True):
            assert ideal == ideal_dcg(labels_held, np.array([0, len(labels_held)]))[0]


@given(deals(), SEEDS)
def test_copies_give_each_owner_all(case, seed):
    data, labels, clients, _ = case
    p = dealt(data, clients, seed, labels=labels, deal="copies")
    for c in range(clients):
        assert (
            documents(p, c)
            == np.flatnonzero(np.isin(data.labels[0], list(grades_of(p, c)))).tolist()
        )


@given(deals(), SEEDS)
def test_the_twin_holds_everything(case, seed):
    data, labels, clients, _ = case
    twin = dealt(data, clients, seed, labels=labels, iid=True)
    plain = IID().population(data, Cascade(), clients, 5, seed)
    for name in (
        "rows",
        "starts",
        "stops",
        "labelling",
        "ideals",
        "first",
        "last",
        "models",
        "sessions",
    ):
        np.testing.assert_array_equal(getattr(twin, name), getattr(plain, name))


def test_seeds_shuffle_both_the_documents_and_who_owns_what():
    data = made([[0] * 20 + [1] * 20 + [2] * 20], [20, 20, 20], 3)
    many = [dealt(data, 3, seed, labels=2) for seed in range(60)]
    # 3! ways to hand out the combinations
    assert len({tuple(grades_of(p, c) for c in range(3)) for p in many}) == 6
    assert len({tuple(documents(p, 0)) for p in many}) == 60
    np.testing.assert_array_equal(dealt(data, 3, 7, labels=2).rows, many[7].rows)


def test_a_document_can_go_to_any_of_its_owners():
    """Five documents for four owners: the first of them gets two, so it has a given one in two of
    five deals."""
    data, counts = made([[0] * 5 + [1] * 4], [9], 2), np.zeros(4)
    for seed in range(2000):
        p = dealt(data, 8, seed)
        owners = [c for c in range(8) if grades_of(p, c) == {0}]
        counts[[0 in documents(p, c) for c in owners].index(True)] += 1
    assert plausible(counts, 2000, np.array([2, 1, 1, 1]) / 5)


@pytest.mark.parametrize(
    ("grades", "labels", "ways"),
    [(5, 1, 5), (5, 2, 10), (3, 1, 3), (3, 2, 3), (2, 1, 2), (3, 3, 1)],
)
def test_clients_must_be_a_multiple_of_the_combinations(grades, labels, ways):
    data = made([np.arange(40 * grades) % grades], [20] * 2 * grades, grades)
    assert dealt(data, 2 * ways, labels=labels).clients == 2 * ways
    if ways > 1:
        for iid in (False, True):
            with pytest.raises(
                Mistake,
                match=f"{labels} of {grades} labels can be chosen in {ways} ways.*got {ways + 1}",
            ):
                dealt(data, ways + 1, labels=labels, iid=iid)


def test_what_cannot_be_dealt_is_refused():
    data = made([[0, 0, 0, 1, 1]], [2, 3], 3)
    with pytest.raises(
        Mistake, match=r"no document is left for client \d, which owns the labels \(2,\)"
    ):
        dealt(data, 3)
    with pytest.raises(Mistake, match="4 labels for each client, and the data has 3"):
        dealt(data, 3, labels=4)
    with pytest.raises(Mistake, match="ByLabel: a client needs at least one label, got 0"):
        ByLabel(labels=0)
