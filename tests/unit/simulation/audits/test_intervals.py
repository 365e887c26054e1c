"""Confidence bounds against an oracle, and by what they must cover."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from chance import plausible
from foltr.simulation.audits.games import area, area_interval, lower, mean_of, upper


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (1, 1000), (512, 1000)])
@pytest.mark.parametrize("miss", [0.025, 0.0005])
def test_bounds_of_a_chance_are_clopper_and_pearsons(hits, n, miss):
    exact = binomtest(hits, n).proportion_ci(1 - 2 * miss, method="exact")
    assert lower(np.array([hits]), n, miss)[0] == pytest.approx(exact.low, abs=1e-9)
    assert upper(np.array([hits]), n, miss)[0] == pytest.approx(exact.high, abs=1e-9)


def test_area_is_the_known_auc_ties_counting_half():
    rng = np.random.default_rng(0)
    ones, zeros = rng.integers(0, 6, 40).astype(float), rng.integers(0, 5, 30).astype(float)
    known = roc_auc_score([1] * 40 + [0] * 30, np.concatenate([ones, zeros]))
    assert area(ones, zeros) == pytest.approx(known)
    assert np.isnan(area(ones, ones[:0]))


def test_intervals_cover_what_they_should():
    rng, covered, areas = np.random.default_rng(1), 0, 0
    for _ in range(400):
        found = mean_of(rng.beta(2, 1, 50))
        covered += found.low <= 2 / 3 <= found.high
        auc = area_interval(rng.normal(1.0, 1.0, 80), rng.normal(0.0, 1.0, 80))
        areas += auc.low <= 0.7602 <= auc.high  # Phi(1 / sqrt 2)
    assert plausible(covered, 400, 0.942) and plausible(areas, 400, 0.95)  # shares of 6,000 others


def test_a_mean_of_nothing_or_of_equal_values_pretends_nothing():
    none = mean_of(np.array([np.nan, np.nan]))
    assert none.count == 0 and np.isnan(none.mean) and none.plain()["mean"] is None
    sure = mean_of(np.ones(29))
    # Wilson, by hand: n/(n + z^2)
    assert sure.mean == sure.high == 1.0 and sure.low == pytest.approx(0.883, abs=1e-3)
    assert area_interval(np.ones(10), np.zeros(10)).low == pytest.approx(0.7)
