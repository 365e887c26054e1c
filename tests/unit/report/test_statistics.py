"""The paired t-test against scipy's, and the bootstrap against everything that can be drawn."""

import math
import subprocess
import sys
from inspect import signature
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from chance import plausible
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.report import statistics
from foltr.report.statistics import (
    bonferroni,
    bootstrap_interval,
    expanded_interval,
    expanded_level,
    half_width,
    mean_and_sd,
    paired_t,
    two_tailed,
)

values = st.floats(-1.0, 1.0, allow_subnormal=False)
samples = st.integers(2, 40).flatmap(
    lambda n: st.tuples(*[st.lists(values, min_size=n, max_size=n)] * 2)
)


def random_pairs(n, shift, seed=0):
    rng = np.random.default_rng([n, seed])
    return rng.normal(0.5 + shift, 0.05, n), rng.normal(0.5, 0.05, n)


@pytest.mark.parametrize("n", [3, 5, 25, 300])
@pytest.mark.parametrize("shift", [0.0, 1e-9, 0.01, 0.05, 1.0, 100.0])
def test_as_scipy(n, shift):
    a, b = random_pairs(n, shift)
    ours, theirs = paired_t(a, b), stats.ttest_rel(a, b)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-12, abs=0.0)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.interval == pytest.approx(tuple(theirs.confidence_interval(0.95)), rel=1e-12)
    assert ours.effect == pytest.approx(theirs.statistic / math.sqrt(n), rel=1e-12)
    assert (ours.n, ours.difference, ours.sd) == (
        n,
        pytest.approx((a - b).mean()),
        pytest.approx((a - b).std(ddof=1)),
    )


@given(samples)
def test_as_scipy_whatever_the_values(pair):
    a, b = map(np.array, pair)
    assume((a - b).std() > 1e-3)  # below, scipy warns that it is not accurate
    ours, theirs = paired_t(a, b), stats.ttest_rel(a, b)
    # for n = 2 scipy itself is that far off: see the golden test
    close = 1e-12 if len(a) > 2 else 1e-9
    assert ours.p == pytest.approx(theirs.pvalue, rel=0.0, abs=close)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-12, abs=1e-12)


@given(st.integers(2, 400), st.floats(0.0, 1e6))
def test_tails_as_scipy(df, t):
    assert two_tailed(t, df) == pytest.approx(2.0 * stats.t.sf(t, df), rel=1e-12, abs=0.0)
    assert two_tailed(-t, df) == two_tailed(t, df)


@given(samples)
def test_a_difference_has_a_sign_and_its_p_has_none(pair):
    a, b = map(np.array, pair)
    one, other = paired_t(a, b), paired_t(b, a)
    assert (one.p, one.difference, one.t, one.effect) == (
        other.p,
        -other.difference,
        -other.t,
        -other.effect,
    )
    assert one.interval == (-other.interval[1], -other.interval[0])
    assert 0.0 <= one.p <= 1.0 and not any(
        map(math.isnan, [*one.interval, one.p, one.t, one.effect, one.sd])
    )
    assert one.interval[0] <= one.difference <= one.interval[1]


@given(samples, st.sampled_from([-900, -500, -60, 60, 500, 1000]))
def test_units_do_not_matter(pair, exponent):
    """Squares of 2^1000 overflow, squares of 2^-900 vanish: neither may reach p."""
    a, b = (np.where(np.abs(part := np.array(side)) < 1e-6, 0.0, part) for side in pair)
    plain, scaled = paired_t(a, b), paired_t(np.ldexp(a, exponent), np.ldexp(b, exponent))
    assert (plain.t, plain.p, plain.effect) == (scaled.t, scaled.p, scaled.effect)
    assert math.ldexp(plain.sd, exponent) == scaled.sd


@pytest.mark.parametrize("c", [0.1, -0.3, 1e-300, 1 / 3])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_all_differences_equal(n, c):
    """Their sum, divided by n, is not always c to the last bit; a test must not take the rest for
    a spread."""
    test = paired_t(np.full(n, c), np.zeros(n))
    assert (test.difference, test.sd, test.p, test.interval) == (c, 0.0, 0.0, (c, c))
    assert test.t == test.effect == math.copysign(math.inf, c)


def test_no_difference_at_all():
    a, _ = random_pairs(10, 0.0)
    test = paired_t(a, a)
    assert (test.difference, test.sd, test.t, test.p, test.effect, test.interval) == (
        0,
        0,
        0,
        1,
        0,
        (0, 0),
    )


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1.0, 2.0], [1.0], r"cannot pair values of shape \(2,\) with \(1,\)"),
        ([[1.0, 2.0]], [[1.0, 3.0]], "cannot pair"),
        ([1.0], [2.0], "needs two pairs or more, got 1"),
        ([], [], "needs two pairs or more, got 0"),
        ([1.0, math.nan], [1.0, 2.0], "not finite"),
        ([1.0, 2.0], [1.0, math.inf], "not finite"),
        ([1e308, 0.0], [-1e308, 0.0], "differences that are not finite"),
    ],
)
def test_what_cannot_be_tested(a, b, message):
    with pytest.raises(Mistake, match=message):
        paired_t(np.array(a), np.array(b))


def test_bonferroni():
    assert bonferroni(0.01, 3) == 0.03 and bonferroni(0.5, 3) == 1.0 and bonferroni(0.0, 9) == 0.0


def test_mean_and_sd():
    assert mean_and_sd(np.array([1.0, 2.0, 6.0])) == (3.0, math.sqrt(7.0))
    mean, sd = mean_and_sd(np.array([0.3]))
    assert mean == 0.3 and math.isnan(sd)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize(
    "sample", [[0.0, 1.0, 5.0], [0.1, 0.2, 0.4, 0.8], [1.0, 1.0, 2.0, 7.0, 7.5]]
)
def test_bootstrap_as_all_samples(sample, level):
    """Each end is the quantile that it should be among the means of every sample that can be
    drawn."""
    means = np.array([np.mean(drawn) for drawn in product(sample, repeat=len(sample))])
    shares = ((1 - level) / 2, (1 + level) / 2)
    for end, share in zip(bootstrap_interval(np.array(sample), level=level), shares, strict=True):
        noise = 6.0 * math.sqrt(share * (1 - share) / 10_000)
        assert np.abs(means - end).min() < 1e-12  # it can be drawn
        assert np.mean(means < end - 1e-12) - noise < share < np.mean(means < end + 1e-12) + noise


def test_bootstrap_of_three_values():
    """Of the 27 samples of 0, 1, 5 one has the mean 0 and one the mean 5, so 3.7 % lie at either
    end: 95 % is all."""
    assert bootstrap_interval(np.array([0.0, 1.0, 5.0])) == (0.0, 5.0)
    # 4 of 27 are 1/3 or less, 4 are 11/3 or more
    low, high = bootstrap_interval(np.array([0.0, 1.0, 5.0]), level=0.8)
    assert (low, high) == pytest.approx((1 / 3, 11 / 3))


def test_bootstrap_as_scipy_in_distribution():
    """Over samples and seeds the ends of both scatter around the same places."""
    named = signature(stats.bootstrap).parameters
    draws, gaps = "rng" if "rng" in named else "random_state", []  # before SciPy 1.15
    for seed in range(12):
        sample = np.random.default_rng(seed).exponential(size=25)
        theirs = stats.bootstrap(
            (sample,), np.mean, method="percentile", n_resamples=100_000, **{draws: seed}
        )
        ours = bootstrap_interval(sample, seed, resamples=100_000)
        gaps.append((np.array(ours) - theirs.confidence_interval) / (sample.std() / 5.0))
    # in standard errors of the mean; a difference of ends from 100,000 samples has an sd of .015
    gaps = np.array(gaps)
    assert np.abs(gaps).max() < 0.11 and np.abs(gaps.mean(axis=0)).max() < 0.03


def test_bootstrap_covers_the_mean_about_as_often_as_it_says():
    """93.7 %; of 1,000 samples that has a standard error of .8 %."""
    samples = np.random.default_rng(5).normal(3.0, 1.0, (1000, 30))
    inside = [
        low <= 3.0 <= high
        for low, high in (bootstrap_interval(s, resamples=1000) for s in samples)
    ]
    assert 0.88 <= np.mean(inside) <= 0.98


def normals(address, studies, n):
    """Standard normal values by address, as Box and Muller have it."""
    draws = stream(7, address)
    radius, angle = draws.uniforms(studies * n), draws.uniforms(studies * n)
    return (np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * math.pi * angle)).reshape(studies, n)


@pytest.mark.parametrize(("n", "plain", "expanded"), [(5, 0.839, 0.923), (10, 0.902, 0.944)])
def test_expanded_intervals_cover_the_mean_of_few_values_more_often(n, plain, expanded):
    """A percentile interval of few values covers it too rarely: in this share of 12,000 other
    studies."""
    samples = normals(f"coverage {n}", 600, n)
    covered = [
        sum(low <= 0.0 <= high for low, high in map(interval, samples))
        for interval in (bootstrap_interval, expanded_interval)
    ]
    assert plausible(covered[0], 600, plain) and plausible(covered[1], 600, expanded)
    assert covered[1] > covered[0]


def test_expanded_interval():
    sample = random_pairs(9, 0.0)[0]
    assert expanded_interval(sample, seed=3) == bootstrap_interval(sample, 3, expanded_level(9))
    for n in range(1, 5):
        assert all(map(math.isnan, expanded_interval(sample[:n])))  # too few to tell
    assert expanded_interval(np.full(7, 0.1)) == (0.1, 0.1)
    assert 0.95 < expanded_level(10_000) < 0.9502 < expanded_level(30) < expanded_level(5) < 1.0
    with pytest.raises(Mistake, match="two values or more"):
        expanded_level(1)


def test_bootstrap_draws_have_an_address(monkeypatch):
    sample = random_pairs(40, 0.0)[0]
    once = bootstrap_interval(sample, seed=3)
    assert bootstrap_interval(sample, seed=3) == once != bootstrap_interval(sample, seed=4)
    monkeypatch.setattr(statistics, "PER_BLOCK", 777)
    assert bootstrap_interval(sample, seed=3) == once  # however many are held at a time


def test_bootstrap_of_equal_values():
    assert bootstrap_interval(np.full(7, 0.1)) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("sample", "more", "message"),
    [
        ([1.0], {}, "two values or more"),
        ([[1.0, 2.0]], {}, "two values or more"),
        ([1.0, math.nan], {}, "not finite"),
        ([1.0, 2.0], {"level": 1.0}, "level must be in"),
        ([1.0, 2.0], {"resamples": 0}, "resamples >= 1"),
    ],
)
def test_what_cannot_be_resampled(sample, more, message):
    with pytest.raises(Mistake, match=message):
        bootstrap_interval(np.array(sample), **more)


def test_half_width_is_of_a_t_interval():
    sample = random_pairs(9, 0.0)[0]
    low, high = stats.t.interval(0.95, 8, sample.mean(), stats.sem(sample))
    assert half_width(float(sample.std(ddof=1)), 9) == pytest.approx((high - low) / 2, rel=1e-12)


def test_scipy_stats_is_not_imported():
    """It takes three seconds."""
    code = (
        "import sys, numpy as np\nfrom foltr.report.statistics import *\n"
        "from foltr.report import matrix, figures\n"
        "from foltr.report.tables import csv_table, latex_table, screen_table\n"
        "early = [m for m in ('scipy', 'matplotlib', 'numba') if m in sys.modules]\n"
        "paired_t(np.array([1., 2., 4.]), np.zeros(3)); bootstrap_interval(np.array([1., 2.]))\n"
        "print(early, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
