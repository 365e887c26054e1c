"""How unlikely luck must be before a test of draws fails. Seeds are fixed, so that no test fails
by chance; these bounds keep one from failing when a change alters which numbers are drawn."""

import math

from scipy import stats

RARE = 1e-7  # the p-value below which a test fails: ten of them are below 1e-6 together


def plausible(counts, draws, share):
    """Whether counts among so many draws can be those of this share (binomial): it is denied to a
    true one with probability 1e-8."""
    low, high = stats.binom.interval(1.0 - 1e-8, draws, share)
    return bool(((low <= counts) & (counts <= high)).all())


def most_of_chance(searches):
    """The largest mean AUC of so many searches, each with at least one click in its ten documents,
    that a guess without information may have: one click of ten gives a standard deviation of .32,
    several give less."""
    return 0.5 + float(stats.norm.isf(RARE)) * 0.32 / math.sqrt(searches)
