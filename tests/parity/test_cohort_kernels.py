"""What robust rules compute, compiled and by definition (`foltr.core.cohorts`)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from foltr.core import cohorts
from foltr.core.compiled import using
from foltr.core.seeds import stream
from foltr.kernels.cohorts import LANES, SAMPLE, smallest_first
from property_settings import examples

SHAPES = [(1, 3), (2, 1), (10, 46), (LANES, 4), (LANES + 1, 5), (3 * LANES - 1, 7), (100, 136)]


def by_definition(function, *arguments):
    with using({}):
        return function(*arguments)


def drawn(n, d, kind="plain", dtype=np.float32):
    u = stream(1, "updates", n, d).normals(n * d).reshape(n, d)
    if kind == "ties":
        u = np.round(u)  # many equal distances, some equal rows
    elif kind == "shouting":
        u[:: max(2, n // 3)] *= 1e12
    elif kind == "close":
        u = 1e4 + 1e-2 * u
    elif kind == "broken":
        u[n // 2, 0], u[-1] = np.nan, np.inf
    return u.astype(dtype)


KINDS = pytest.mark.parametrize("kind", ["plain", "ties", "shouting", "close", "broken"])
ROUNDING = dict(rtol=1e-10, atol=1e-30)


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_distances(n, d, dtype, kind):
    u = drawn(n, d, kind, dtype)
    apart = cohorts.distances(u)
    np.testing.assert_allclose(apart, by_definition(cohorts.distances, u), **ROUNDING)
    assert (apart == apart.T).all() and (np.diag(apart) == 0.0).all()
    if kind != "broken":
        np.testing.assert_allclose(apart, cdist(u.astype(float), u.astype(float)), **ROUNDING)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_a_distance_has_the_same_bits_wherever_it_stands(n, d):
    """So that the order in which messages arrive cannot change anything."""
    u, order = drawn(n, d), np.argsort(stream(2).words(n))
    assert (
        cohorts.distances(u)[np.ix_(order, order)].tobytes()
        == cohorts.distances(u[order]).tobytes()
    )


def test_updates_in_any_layout():
    u = drawn(12, 9)
    for same in (np.asfortranarray(u), np.repeat(u, 2, axis=1)[:, ::2], u[::-1][::-1]):
        assert cohorts.distances(same).tobytes() == cohorts.distances(u).tobytes()
    whole = np.round(u).astype(np.int64)
    np.testing.assert_allclose(
        cohorts.distances(whole), by_definition(cohorts.distances, whole), **ROUNDING
    )


@KINDS
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_krum_scores(n, d, squared, kind):
    u = drawn(n, d, kind)
    apart = cohorts.distances(u)
    for nearest in {0, min(1, n - 1), n // 3, max(0, n - 4), n - 1}:
        expected = by_definition(cohorts.krum_scores, apart, nearest, squared)
        np.testing.assert_allclose(
            cohorts.krum_scores_of(u, nearest, squared), expected, **ROUNDING
        )


@given(
    st.lists(st.floats(0, 1e300) | st.sampled_from([0.0, 1.0, np.inf]), min_size=1, max_size=200),
    st.data(),
)
@examples(200)
def test_selection(values, data):
    v, k = np.array(values), data.draw(st.integers(0, len(values) - 1))
    smallest_first(v, len(v), k, np.empty(SAMPLE))
    assert sorted(v) == sorted(values)
    assert v[k] == sorted(values)[k] and (v[:k] <= v[k]).all() and (v[k:] >= v[k]).all()


@pytest.mark.parametrize("shape", ["up", "down", "organ", "equal", "two values"])
def test_selection_of_what_is_sorted_already(shape):
    n = 5000
    up = np.arange(n, dtype=float)
    v = {
        "up": up,
        "down": up[::-1],
        "organ": np.minimum(up, up[::-1]),
        "equal": 0 * up,
        "two values": up % 2,
    }[shape]
    for k in (0, 17, n // 2, n - 1):
        got = v.copy()
        smallest_first(got, n, k, np.empty(SAMPLE))
        assert got[k] == np.sort(v)[k]


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "m"), [(3, 0), (7, 1), (10, 1), (11, 2), (60, 3), (60, 14), (100, 10)]
)
def test_bulyan_chooses_the_same(n, m, dtype, kind):
    u = drawn(n, 6, kind, dtype)  # ties are of whole numbers, whose sums are exact in any order
    rows = cohorts.bulyan_rows(u, m, n - 2 * m)
    np.testing.assert_array_equal(rows, by_definition(cohorts.bulyan_rows, u, m, n - 2 * m))


@KINDS
@pytest.mark.parametrize(("n", "count"), [(1, 1), (5, 3), (6, 2), (41, 17), (100, 100)])
def test_means_around_medians(n, count, kind):
    if kind == "broken":  # two clients of at least seven, and never all of them
        n, count = max(n, 7), min(count, max(n, 7) - 3)
    u = drawn(n, 9, kind)
    np.testing.assert_allclose(
        cohorts.mean_around_median(u, count),
        by_definition(cohorts.mean_around_median, u, count),
        **ROUNDING,
    )


@KINDS
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 5), (10, 46), (101, 7)])
def test_means_have_the_same_bits(n, d, kind):
    u, weights = drawn(n, d, kind), 1.0 + np.arange(n) % 3 / 7
    mean = cohorts.weighted_mean(u, weights)
    np.testing.assert_array_equal(mean, by_definition(cohorts.weighted_mean, u, weights))


@KINDS
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 5), (10, 46), (101, 7)])
def test_weiszfeld(n, d, kind):
    if kind == "broken" and n < 10:
        return  # half of the clients
    u, weights = drawn(n, d, kind), 1.0 + np.arange(n) % 3
    for iterations in (1, 5, 60):
        got = cohorts.weiszfeld(u, weights, 1e-6, iterations)
        expected = by_definition(cohorts.weiszfeld, u, weights, 1e-6, iterations)
        np.testing.assert_allclose(
            got, expected, rtol=1e-6, atol=1e-5 if kind == "shouting" else 1e-8
        )


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 6)), min_size=1, max_size=30))
def test_weighted_medians(pairs):
    """A weight of w is w times weight 1."""
    values, weights = np.array(pairs).T
    columns = np.stack([values, -values, values % 3], axis=1).astype(np.float32)
    expected = np.median(np.repeat(columns.astype(float), weights, axis=0), axis=0)
    assert cohorts.weighted_median(columns, weights.astype(float)).tolist() == expected.tolist()
    assert (
        cohorts.weighted_median(columns, np.full(len(values), 0.1)).tolist()
        == cohorts.median(columns).tolist()
    )


def test_a_weighted_median_of_what_is_no_number():
    columns = np.array([[np.nan, np.inf], [1, -np.inf], [2, 5]])
    assert cohorts.weighted_median(columns, np.array([2.0, 1.0, 2.0])).tolist() == [2, 5]


@pytest.mark.parametrize(("n", "d"), [(10, 46), (10, 136), (100, 136), (200, 20)])
def test_who_stands_out_among_equals(n, d):
    """Where no direction stands out the first one is found late: the search must not stop
    before."""
    for i in range(40):
        u = 0.1 * stream(i, "gaussian", n, d).normals(n * d).reshape(n, d).astype(np.float32)
        got, expected = (
            cohorts.outlier_scores(u, stream(i)),
            by_definition(cohorts.outlier_scores, u, stream(i)),
        )
        assert got.argmax() == expected.argmax()
        np.testing.assert_allclose(got, expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize(("n", "d"), [(3, 2), (10, 46), (50, 7)])
def test_outliers_by_conjugate_gradients_and_by_singular_values(n, d):
    u = drawn(n, d, dtype=np.float64)
    u += 30.0 * stream(9).normals(n)[:, None] * stream(8).normals(d)  # one direction stands out
    got, expected = (
        cohorts.outlier_scores(u, stream(3)),
        by_definition(cohorts.outlier_scores, u, stream(3)),
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert cohorts.outlier_scores(np.ones((4, 3)), stream(3)).tolist() == [0.0] * 4


@KINDS
@pytest.mark.parametrize(("n", "keep"), [(1, 1), (4, 3), (10, 6), (40, 1), (40, 33), (100, 100)])
def test_means_of_nearest(n, keep, kind):
    u, weights = drawn(n, 8, kind), 1.0 + np.arange(n) % 4
    got = cohorts.means_of_nearest(u, weights, keep)
    with np.errstate(invalid="ignore"):
        expected = by_definition(cohorts.means_of_nearest, u, weights, keep)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
