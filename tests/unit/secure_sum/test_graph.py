"""Who knows whom: regular, symmetric, and large enough by an independent count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from foltr.secure_sum.terms import CHANCE, COMPLETE, Graph, degree_and_quorum

rings = st.integers(5, 40).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.integers(1, (n - 2) // 2).map(lambda half: 2 * half),
        st.integers(0, 2**64 - 1),
    )
)


@given(rings)
def test_a_ring_is_regular_symmetric_and_has_one_point_per_holder(case):
    n, degree, seed = case
    graph = Graph(n, degree, degree // 2 + 2, seed)
    for i in range(n):
        around = graph.neighbours(i)
        assert len(set(around)) == degree and i not in around and around == sorted(around)
        assert all(i in graph.neighbours(other) for other in around)
        assert sorted(graph.point(i, holder) for holder in [i, *around]) == list(
            range(1, degree + 2)
        )


def test_the_complete_graph():
    graph = Graph(4, 3, 3, 99)
    assert graph.neighbours(2) == [0, 1, 3]
    assert [graph.point(2, holder) for holder in range(4)] == [1, 2, 3, 4]


@given(rings, st.data())
def test_survivors_around_are_counted_as_by_hand(case, data):
    n, degree, seed = case
    graph = Graph(n, degree, degree // 2 + 2, seed)
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    shared = alive | np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    around = [sum(alive[[i, *graph.neighbours(i)]]) for i in range(n)]
    assert graph.around(alive).tolist() == around
    # whose masks are in the sum
    masked = [i for i in range(n) if alive[i] or (shared[i] and around[i])]
    assert (
        graph.enough(alive, shared) == all(around[i] >= graph.quorum for i in masked)
        or not alive.any()
    )


def test_a_drop_out_needs_survivors_around_it_too():
    """Degree 8, quorum 6; seats 0, 1, 4 and 8 drop out. Every survivor has at most three of them
    around, but seat 4 has all four among its nine, so that five are left to put its mask key
    together."""
    graph = Graph(20, 8, 6, 11)
    alive = np.ones(20, bool)
    alive[graph.ring[[0, 1, 4, 8]]] = False
    around = graph.around(alive)
    assert around[alive].min() == 6 and around[graph.ring[4]] == 5
    assert graph.enough(alive, alive) and not graph.enough(alive, np.ones(20, bool))


@given(rings, st.data())
def test_what_is_released_never_fell_apart(case, data):
    """The survivors of a ring that may unmask are connected, by a search that knows nothing of
    rings."""
    n, degree, seed = case
    graph = Graph(n, degree, degree // 2 + 2, seed)
    alive = np.ones(n, bool)
    alive[sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n // 3)))] = False
    if graph.enough(alive, alive):
        reached, fresh = set(), {int(np.flatnonzero(alive)[0])}
        while fresh:
            reached |= fresh
            fresh = {
                other for i in fresh for other in graph.neighbours(i) if alive[other]
            } - reached
        assert reached == set(np.flatnonzero(alive).tolist())


@pytest.mark.parametrize("clients", [129, 200, 400, 1000, 10_000, 1_000_000])
@pytest.mark.parametrize("part", [0.51, 2 / 3, 0.9, 1.0])
def test_neighbourhoods_are_as_large_as_guaranteed(clients, part):
    """By SciPy's hypergeometric distribution; one step smaller, the guarantee is not kept."""
    threshold = int(np.ceil(part * clients))

    def chance(degree):
        quorum, bad = degree // 2 + 2, clients // 5 + clients - threshold
        bared = clients * hypergeom.sf(quorum - 1, clients - 1, clients // 5, degree)
        run = clients**2 / 2 * hypergeom.pmf(degree, clients, min(bad, clients), degree)
        return bared + run

    degree, quorum = degree_and_quorum(clients, threshold, complete=False)
    assert quorum == degree // 2 + 2
    assert chance(degree) <= CHANCE * (1 + 1e-5) and chance(degree - 2) > CHANCE * (1 - 1e-5)


def test_the_figures_of_the_docstring():
    assert [degree_and_quorum(n, -(-2 * n // 3), False) for n in (400, 1000, 10_000)] == [
        (90, 47),
        (112, 58),
        (140, 72),
    ]
    withheld = [
        400 * hypergeom.cdf(46, 399, 399 - int(400 * part), 90) for part in (1 / 5, 1 / 4, 1 / 3)
    ]
    assert withheld[0] < 2e-10 and withheld[1] < 1e-5 and withheld[2] < 0.2


def test_few_clients_and_the_consistency_step_know_everybody():
    assert degree_and_quorum(COMPLETE, 86, False) == (COMPLETE - 1, 86)
    assert degree_and_quorum(400, 267, True) == (399, 267)
    assert degree_and_quorum(2, 2, False) == (1, 2)
