"""Confidence intervals of means, probabilities and AUC."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foltr.core import Array


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    count: int

    def plain(self) -> dict[str, float | int | None]:
        named = {"mean": self.mean, "low": self.low, "high": self.high}
        return {
            **{name: None if math.isnan(x) else round(x, 6) for name, x in named.items()},
            "count": self.count,
        }


def mean_of(values: Array, sure: float = 0.95) -> Estimate:
    """The mean of values in [0, 1], one per query, NaN where undefined, with an interval by
    Student's t.

    If all values are equal, which would give an interval of no width, it is Wilson's interval for
    shares (JASA 22, 1927)."""
    from scipy.special import ndtri, stdtrit

    known = values[~np.isnan(values)]
    n = len(known)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean, spread = float(known.mean()), float(known.std(ddof=1)) if n > 1 else 0.0
    if spread > 1e-12:
        half = float(stdtrit(n - 1, 0.5 + sure / 2)) * spread / math.sqrt(n)
        return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), n)
    z = float(ndtri(0.5 + sure / 2))
    middle, half = (
        mean + z * z / (2 * n),
        z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n)),
    )
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    return Estimate(mean, min(mean, max(0.0, low)), max(mean, min(1.0, high)), n)


def lower(hits: Array, n: int, miss: float) -> Array:
    """The lower bound of a probability after `hits` of n, by Clopper and Pearson (Biometrika 26,
    1934): the true one is lower with probability <= `miss`."""
    from scipy.special import betaincinv

    hits = np.asarray(hits, float)
    return np.where(
        hits > 0, betaincinv(np.maximum(hits, 1), n - np.maximum(hits, 1) + 1, miss), 0.0
    )


def upper(hits: Array, n: int, miss: float) -> Array:
    """The upper bound of a probability after `hits` of n, by Clopper and Pearson."""
    return 1.0 - lower(n - np.asarray(hits, float), n, miss)


def area(ones: Array, zeros: Array) -> float:
    """The AUC: the probability that one of `ones` scores higher than one of `zeros`, ties counting
    half."""
    if not len(ones) or not len(zeros):
        return math.nan
    ordered = np.sort(zeros)
    below, most = np.searchsorted(ordered, ones, "left"), np.searchsorted(ordered, ones, "right")
    return float((below + most).mean() / (2 * len(zeros)))


def area_interval(ones: Array, zeros: Array, sure: float = 0.95) -> Estimate:
    """The AUC over independent trials, with the standard error of Hanley and McNeil (Radiology
    143, 1982)."""
    from scipy.special import ndtri

    a, m, n = area(ones, zeros), len(ones), len(zeros)
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + (m - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (m * n)
    half = float(ndtri(0.5 + sure / 2)) * math.sqrt(max(variance, 0.0))
    if half == 0.0:  # no errors: a margin of 3 / n (rule of three)
        half = 3.0 / min(m, n)
    return Estimate(a, max(0.0, a - half), min(1.0, a + half), m + n)
