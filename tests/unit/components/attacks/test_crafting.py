"""The search for a message that Krum picks: compiled against plain, and what it finds against the
rules themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import asked_of
from foltr.components.aggregators.krum import Krum, MultiKrum
from foltr.components.attacks._crafting import away
from foltr.components.attacks.fang import LEAST, FangKrum, FangMultiKrum, picked
from foltr.core import Cohort
from foltr.core import cohorts as plain
from foltr.core.seeds import stream
from foltr.simulation.engines.twins import KERNELS
from property_settings import examples

pytestmark = pytest.mark.usefixtures("both_ways")

by_kernel = KERNELS[picked]
SEEDS = st.integers(0, 2**40)
squares = pytest.mark.parametrize("squared", [False, True])


def normals(seed, n, d, shift=0.0):
    return (stream(seed, "updates").normals(n * d).reshape(n, d) + shift).astype(np.float32)


# numbers on a line tie: two neighbours have equal sums of distances to the same others
DIMENSIONS = st.integers(2, 30)


def signs_of(updates):
    return -np.sign(updates.mean(axis=0, dtype=np.float64))


@squares
@given(
    seed=SEEDS,
    m=st.integers(1, 5),
    more=st.integers(2, 8),
    d=DIMENSIONS,
    shift=st.floats(-2.0, 2.0),
)
@examples(60)
def test_full_knowledge_finds_what_the_definition_finds(squared, seed, m, more, d, shift):
    n = 2 * m + more
    honest = normals(seed, n - m, d, shift)
    for kept in (1, n - m):
        args = honest, signs_of(honest), m, m, n - m - 2, kept, squared, None
        (scale, copies), (expected, as_many) = by_kernel(*args), picked(*args)
        assert scale == pytest.approx(expected, rel=1e-6) and copies == as_many


@squares
@given(
    seed=SEEDS,
    m=st.integers(1, 9),
    d=DIMENSIONS,
    shift=st.floats(-2.0, 2.0),
    start=st.floats(0.01, 10.0),
)
@examples(60)
def test_own_knowledge_finds_what_the_definition_finds(squared, seed, m, d, shift, start):
    own, nearest = normals(seed, m, d, shift), max(1, m - 2)
    for kept in (1, m):
        args = own, signs_of(own), 1, nearest + 1, nearest, kept, squared, start
        assert by_kernel(*args) == picked(*args)
        assert picked(*args)[1] > 0  # there always are enough copies


@squares
@given(
    seed=SEEDS,
    m=st.integers(1, 4),
    d=st.integers(1, 20),
    untouched=st.integers(0, 20),
    factor=st.floats(1.001, 100.0),
)
@examples(60)
def test_beyond_the_bound_nothing_is_picked(squared, seed, m, d, untouched, factor):
    """The theorem of Fang et al. for Krum, and its twin for squares: r from (n - 2m - 1) r^2.
    Columns that nobody changes, where s_j = 0, do not count."""
    n = 10
    honest = np.concatenate(
        [normals(seed, n - m, d), np.zeros((n - m, untouched), np.float32)], axis=1
    )
    signs, scored = signs_of(honest), plain.krum_scores
    assert np.count_nonzero(signs) == d
    r = scored(np.sqrt(plain.squared_distances(honest)), n - m - 2, squared).min() / (
        n - 2 * m - 1
    )
    longest = np.sqrt(np.square(honest, dtype=float).sum(axis=1)).max()
    bound = ((math.sqrt(r) if squared else r) + longest) / math.sqrt(d)
    for search in (by_kernel, picked):  # begin there
        halvings = math.log2(bound / search(honest, signs, m, m, n - m - 2, 1, squared, None)[0])
        assert halvings == pytest.approx(round(halvings), abs=1e-6) and halvings > -1e-6
    crafted = np.tile(factor * bound * signs, (m, 1))
    scores = scored(
        np.sqrt(plain.squared_distances(np.concatenate([honest, crafted]))), n - m - 2, squared
    )
    assert scores[: n - m].min() < scores[n - m]


def round_of(seed, n, m, d, shift):
    rng = stream(seed, "who")
    malicious = np.zeros(n, bool)
    malicious[rng.sample(n, m)] = True
    return Cohort(np.arange(n), normals(seed, n, d, shift), np.ones(n)), malicious


@squares
@given(seed=SEEDS, m=st.integers(1, 4), d=st.integers(2, 46), shift=st.floats(-0.3, 0.3))
@examples(60)
def test_krum_follows_the_crafted_update(squared, seed, m, d, shift):
    """Unless the search has given up."""
    c, malicious = round_of(seed, 10, m, d, shift)
    crafted = FangKrum(knowledge="all", squared=squared).craft(
        c, malicious, asked_of(9, np.zeros(d, np.float32)), stream(1, "a")
    )
    assert (crafted == crafted[0]).all()
    updates = c.updates.copy()
    updates[malicious] = crafted
    direction = Krum(malicious=m, squared=squared).combine(c.sending(updates))
    if np.abs(crafted).max() >= LEAST:
        np.testing.assert_array_equal(direction, crafted[0])


@given(seed=SEEDS, m=st.integers(1, 4), d=st.integers(2, 46), shift=st.floats(-0.3, 0.3))
@examples(60)
def test_multi_krum_averages_all_crafted_updates(seed, m, d, shift):
    c, malicious = round_of(seed, 10, m, d, shift)
    crafted = FangMultiKrum(knowledge="all").craft(
        c, malicious, asked_of(9, np.zeros(d, np.float32)), stream(1, "a")
    )
    if np.abs(crafted).max() < LEAST:
        return
    updates = c.updates.copy()
    updates[malicious] = crafted
    seen = c.sending(updates)
    scores = plain.krum_scores(np.sqrt(plain.squared_distances(updates)), 10 - m - 2)
    best = np.argsort(scores, kind="stable")[: 10 - m]
    assert set(np.flatnonzero(malicious)) <= set(best)
    np.testing.assert_allclose(
        MultiKrum(malicious=m).combine(seen), updates[best].mean(axis=0, dtype=float), atol=1e-6
    )


def test_updates_that_agree_or_are_nothing_end_the_search():
    for value in (0.0, 1.0):
        same = np.full((7, 4), value, np.float32)
        scale, copies = picked(same, signs_of(same), 3, 3, 5, 1, False, None)
        # honest ones are nearer to each other: nothing to gain
        assert copies == 0 and 0.0 <= scale < LEAST
    zeros = np.zeros((3, 4), np.float32)
    assert picked(zeros, signs_of(zeros), 1, 2, 1, 1, False, 0.0) == (0.0, 0)


def test_many_clients():
    honest = normals(3, 190, 8, 0.1)
    args = honest, signs_of(honest), 10, 10, 188, 1, False, None
    (scale, copies), (expected, as_many) = by_kernel(*args), picked(*args)
    assert scale == pytest.approx(expected) and copies == as_many


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("std", (-1.0, -2.0)), ("sign", (1.0, -1.0)), ("unit", (0.6, -0.8))],
)
def test_where_to_push(direction, expected):
    updates = np.array([[-4.0, 6.0], [-2.0, 2.0]])
    np.testing.assert_allclose(away(updates, np.array([-3.0, 4.0]), direction), expected)
    assert not away(np.zeros((2, 2)), np.zeros(2), direction).any()
