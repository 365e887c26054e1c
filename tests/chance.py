"""Bounds for tests of random draws. Seeds are fixed, so that no test fails by chance. If a
change alters which numbers are drawn, a correct program fails one with probability below 1e-6."""

import math

from scipy import stats

BINOMIAL_P = 1e-8  # of `plausible`
RARE = 1e-7  # the p-value below which a test fails: ten of them are below 1e-6 together


def plausible(counts, draws, share):
    """Whether counts of so many draws fit a binomial share. A true share is rejected with
    probability BINOMIAL_P."""
    low, high = stats.binom.interval(1.0 - BINOMIAL_P, draws, share)
    return bool(((low <= counts) & (counts <= high)).all())


def max_auc_by_chance(searches):
    """The largest mean AUC of so many searches, each with at least one click in its ten documents,
    that a guess without information may have: one click of ten gives a standard deviation of .32,
    several give less."""
    return 0.5 + float(stats.norm.isf(RARE)) * 0.32 / math.sqrt(searches)
