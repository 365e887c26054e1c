"""Arithmetic on the updates of a round that robust rules and attacks share.

Slow functions are compiled; `by_definition` has their plain definitions under the same names, and
`tests/parity` compares the two. An update with NaN or infinity is infinitely far from every other
update."""

from __future__ import annotations

from functools import cache
from math import isqrt
from types import ModuleType, SimpleNamespace

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.errors import Mistake, require
from foltr.core.seeds import Stream
from foltr.core.system.process import machine_memory

STEPS = 1000  # most iterations for the principal direction

# The definition of `Gated` (aggregators/_gating.py) and its kernel share these.
WEIGHT, SQUARES, ENERGY, SCORE = range(4)  # columns of tallies
# Share of the overall mean square that is added to that of each coordinate, so that a coordinate
# that is almost always 0 has little influence.
FLOOR = 0.01


@cache
def compiled() -> ModuleType:
    """The kernels: numba is loaded when one is first needed, not with the package. It is cached,
    because an import in each function would cost a third of a short mean."""
    from foltr.kernels import cohorts

    return cohorts


def rows(updates: Array) -> Array:
    """Updates as kernels read them: contiguous, float32 or float64, read-only (one compiled
    version)."""
    kept = updates if updates.dtype.char in "fd" else updates.astype(np.float64)
    view = np.ascontiguousarray(kept).view()
    view.flags.writeable = False
    return view


def in_order(cohort: Cohort) -> Cohort:
    """The cohort sorted by client id, so that results do not depend on the order of arrival and
    ties go to the lower id."""
    later, earlier = cohort.clients[1:], cohort.clients[:-1]
    return (
        cohort
        if (later > earlier).all()
        else cohort.only(np.argsort(cohort.clients, kind="stable"))
    )


def ranked(scores: Array) -> Array:
    """Rows from the lowest score to the highest; ties go to the earlier row."""
    return np.argsort(scores, kind="stable")


def weighted_mean(updates: Array, weights: Array) -> Array:
    """sum_i weights[i] updates[i] / sum_i weights[i]: (n, d), (n,) -> (d,) float64."""
    mean: Array = compiled().weighted_mean(updates, weights)
    return mean


def sorted_columns(updates: Array) -> Array:
    """Each coordinate of the updates (n, d) in ascending order, NaN last."""
    return np.sort(updates, axis=0)


def distances(updates: Array) -> Array:
    """The Euclidean distances |u_i - u_j| of all updates (n, d): (n, n) float64, symmetric, 0 on
    the diagonal."""
    apart = np.empty((len(updates), len(updates)))
    compiled().distances(rows(updates), False, apart)
    return apart


def check_pairs(component: object, n: int, bytes_per_pair: int = 8) -> None:
    """Refuses to compare all pairs of n updates where that needs more memory than there is."""
    needed, there = bytes_per_pair * n * n, machine_memory()
    if there is not None and needed > there:
        raise Mistake(
            f"{component!r} compares every pair of {n:,} updates: n^2 distances need"
            f" {_gigabytes(needed)} of memory, and this machine has {_gigabytes(there)}. At most"
            f" {isqrt(there // bytes_per_pair):,} updates fit: lower clients or participation, or"
            " take a component that does not compare pairs"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e9:.1f} GB"


def krum_scores(apart: Array, nearest: int, squared: bool = False) -> Array:
    """For each row of distances (n, n), the sum of the `nearest` smallest distances to others, or
    of their squares: (n,)."""
    require(0 <= nearest < len(apart), f"nearest must be in 0 .. {len(apart) - 1}, got {nearest}")
    scores = np.empty(len(apart))
    compiled().krum_scores(np.ascontiguousarray(apart), nearest, squared, scores)
    return scores


def krum_scores_of(updates: Array, nearest: int, squared: bool = False) -> Array:
    """`krum_scores` from the updates (n, d), in one call."""
    require(
        0 <= nearest < len(updates), f"nearest must be in 0 .. {len(updates) - 1}, got {nearest}"
    )
    scores = np.empty(len(updates))
    compiled().krum_scores_of(rows(updates), nearest, squared, scores)
    return scores


def bulyan_rows(updates: Array, malicious: int, count: int) -> Array:
    """`count` rows in the order in which Bulyan selects them: (count,).

    Each time it selects, among the r rows left, the one with the lowest sum of squared distances
    to its max(1, r - malicious - 2) nearest."""
    apart, chosen = np.empty((len(updates), len(updates))), np.empty(count, np.int64)
    compiled().distances(rows(updates), True, apart)
    compiled().bulyan_rows(apart, np.argsort(apart, axis=1), malicious, chosen)
    return chosen


def mean_around_median(updates: Array, count: int) -> Array:
    """For each coordinate, the mean of the `count` values nearest to its median: (d,). Of two
    equally near values the lower one is used."""
    mean = np.empty(updates.shape[1])
    compiled().mean_around_median(rows(sorted_columns(updates)), count, mean)
    return mean


def weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    """The geometric median by smoothed Weiszfeld steps: (d,).

    z <- sum_i b_i u_i / sum_i b_i with b_i = weights[i] / max(smoothing, |u_i - z|), from the
    weighted median of each coordinate, until a step is no longer than smoothing / 1000 or
    `iterations` are made."""
    z = weighted_median(updates, weights)
    compiled().weiszfeld(rows(updates), rows(weights), smoothing, iterations, z)
    return z


def median(updates: Array) -> Array:
    """The median of each coordinate; for an even number of rows the mean of the middle two: (d,)
    float64."""
    ordered, n = sorted_columns(updates), len(updates)
    return (ordered[(n - 1) // 2].astype(np.float64) + ordered[n // 2]) / 2.0


def weighted_median(updates: Array, weights: Array) -> Array:
    """The weighted median of each coordinate: (d,) float64.

    It is the lowest value x with at least half of the weight on values <= x; if that is exactly
    half, the mean of x and the next value. With equal weights it equals `median`."""
    if (weights == weights[0]).all():
        return median(updates)
    (n, d), ordered, half = updates.shape, sorted_columns(updates), weights.sum() / 2.0
    every, first, last = np.arange(d), np.zeros(d, np.int64), np.full(d, n - 1)
    while (first < last).any():  # bisection is faster than sorting with weights
        at = (first + last) // 2
        enough = np.einsum("n,nd->d", weights, updates <= ordered[at, every]) >= half
        first, last = np.where(enough, first, np.minimum(at + 1, last)), np.where(enough, at, last)
    low = ordered[first, every]
    upto = updates <= low
    following = ordered[np.minimum(upto.sum(axis=0), n - 1), every]
    high = np.where(np.einsum("n,nd->d", weights, upto) > half, low, following)
    return (low.astype(np.float64) + high) / 2.0


def outlier_scores(updates: Array, rng: Stream) -> Array:
    """(v . (u_i - c))^2 with the mean c of the updates and their first principal direction v:
    (n,). It avoids LAPACK, whose bits may depend on the number of threads."""
    from foltr.kernels import cohorts as outliers

    centred, scores = updates - updates.mean(axis=0, dtype=np.float64), np.empty(len(updates))
    start = rng.uniforms(updates.shape[1]) - 0.5
    outliers.outlier_scores(rows(centred), start, STEPS, scores)
    return scores


def means_of_nearest(updates: Array, weights: Array, keep: int) -> Array:
    """For each update, the weighted mean of the `keep` nearest to it, itself included: (n, d)
    float64. Ties go to the earlier row."""
    means = np.empty(updates.shape)
    compiled().means_of_nearest(rows(updates), rows(weights), keep, means)
    return means


def lengths(rows: Array) -> Array:
    """The L2 norm of each row: (n, d) -> (n,) float64."""
    norms: Array = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return norms


def cosine(one: Array, other: Array) -> float | None:
    """The cosine of the angle between two vectors; None if one of them is 0."""
    sizes = float(np.sqrt(np.square(one).sum() * np.square(other).sum()))
    return float((one * other).sum()) / sizes if sizes else None


def _weighted_mean(updates: Array, weights: Array) -> Array:
    return np.einsum("n,nd->d", weights, updates) / weights.sum()


def _squares(updates: Array) -> Array:
    with np.errstate(invalid="ignore"):
        squares = np.square(updates[:, None].astype(np.float64) - updates[None]).sum(axis=2)
    squares[np.isnan(squares)] = np.inf
    np.fill_diagonal(squares, 0.0)
    return squares


def _distances(updates: Array) -> Array:
    return np.sqrt(_squares(updates))


def _krum_scores(apart: Array, nearest: int, squared: bool = False) -> Array:
    others = [np.delete(row, i) for i, row in enumerate(apart**2 if squared else apart)]
    return np.array([np.sort(row)[:nearest].sum() for row in others])


def _bulyan_rows(updates: Array, malicious: int, count: int) -> Array:
    squares, left, chosen = _squares(updates), np.arange(len(updates)), np.empty(count, np.int64)
    for i in range(count):
        scores = _krum_scores(squares[np.ix_(left, left)], max(1, len(left) - malicious - 2))
        chosen[i] = left[scores.argmin()]
        left = np.delete(left, scores.argmin())
    return chosen


def _mean_around_median(updates: Array, count: int) -> Array:
    ordered = np.sort(updates, axis=0).astype(np.float64)
    near = np.argsort(np.abs(ordered - median(updates)), axis=0, kind="stable")[:count]
    return np.take_along_axis(ordered, near, axis=0).mean(axis=0)


def _weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    z, before = weighted_median(updates, weights), None
    while iterations and (before is None or np.linalg.norm(z - before) > 1e-3 * smoothing):
        pull = weights / np.maximum(smoothing, np.linalg.norm(updates - z, axis=1))
        z, before, iterations = (
            (pull[:, None] * updates).sum(axis=0) / pull.sum(),
            z,
            iterations - 1,
        )
    return z


def _outlier_scores(updates: Array, rng: Stream) -> Array:
    centred = updates.astype(np.float64) - updates.mean(axis=0, dtype=np.float64)
    return (centred @ np.linalg.svd(centred)[2][0]) ** 2


def _means_of_nearest(updates: Array, weights: Array, keep: int) -> Array:
    near = np.argsort(_distances(updates), axis=1, kind="stable")[:, :keep]
    return np.stack(
        [np.average(updates[row].astype(np.float64), axis=0, weights=weights[row]) for row in near]
    )


by_definition = SimpleNamespace(
    weighted_mean=_weighted_mean,
    distances=_distances,
    krum_scores=_krum_scores,
    bulyan_rows=_bulyan_rows,
    mean_around_median=_mean_around_median,
    weiszfeld=_weiszfeld,
    outlier_scores=_outlier_scores,
    means_of_nearest=_means_of_nearest,
)
