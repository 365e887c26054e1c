"""Arithmetic on the updates of a round that robust rules and attacks share.

Slow functions are `replaceable`: compiled engines compute them by kernels, and `tests/parity`
compares the two. An update with NaN or infinity is infinitely far from every other update."""

from __future__ import annotations

from math import isqrt

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.compiled import replaceable
from foltr.core.errors import Mistake, require
from foltr.core.seeds import Stream
from foltr.core.system.process import machine_memory

# The definition of `Gated` (aggregators/gated.py) and its kernel share these.
WEIGHT, SQUARES, ENERGY, SCORE = range(4)  # columns of tallies
# Share of the overall mean square that is added to that of each coordinate, so that a coordinate
# that is almost always 0 has little influence.
FLOOR = 0.01


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


@replaceable
def weighted_mean(updates: Array, weights: Array) -> Array:
    """sum_i weights[i] updates[i] / sum_i weights[i]: (n, d), (n,) -> (d,) float64."""
    total, whole = np.zeros(updates.shape[1]), 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for row, weight in zip(updates, weights.tolist(), strict=True):  # in this order: same bits
            total += weight * row.astype(np.float64)
            whole += weight
        return total / whole


def sorted_columns(updates: Array) -> Array:
    """Each coordinate of the updates (n, d) in ascending order, NaN last."""
    return np.sort(updates, axis=0)


@replaceable
def distances(updates: Array) -> Array:
    """The Euclidean distances |u_i - u_j| of all updates (n, d): (n, n) float64, symmetric, 0 on
    the diagonal."""
    return np.sqrt(squared_distances(updates))


def squared_distances(updates: Array) -> Array:
    """The squares of `distances`."""
    numbers = np.ascontiguousarray(updates, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        squares = np.stack([np.square(numbers - row).sum(axis=1) for row in numbers])
    squares[np.isnan(squares)] = np.inf
    np.fill_diagonal(squares, 0.0)
    return squares


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
    check_nearest(nearest, len(apart))
    others = [np.delete(row, i) for i, row in enumerate(apart**2 if squared else apart)]
    return np.array([np.sort(row)[:nearest].sum() for row in others])


def check_nearest(nearest: int, n: int) -> None:
    require(0 <= nearest < n, f"nearest must be in 0 .. {n - 1}, got {nearest}")


@replaceable
def krum_scores_of(updates: Array, nearest: int, squared: bool = False) -> Array:
    """`krum_scores` from the updates (n, d), in one call."""
    return krum_scores(distances(updates), nearest, squared)


@replaceable
def bulyan_rows(updates: Array, malicious: int, count: int) -> Array:
    """`count` rows in the order in which Bulyan selects them: (count,).

    Each time it selects, among the r rows left, the one with the lowest sum of squared distances
    to its max(1, r - malicious - 2) nearest."""
    squares = squared_distances(updates)
    left, chosen = np.arange(len(updates)), np.empty(count, np.int64)
    for i in range(count):
        nearest = min(len(left) - 1, max(1, len(left) - malicious - 2))
        scores = krum_scores(squares[np.ix_(left, left)], nearest)
        chosen[i] = left[scores.argmin()]
        left = np.delete(left, scores.argmin())
    return chosen


@replaceable
def mean_around_median(updates: Array, count: int) -> Array:
    """For each coordinate, the mean of the `count` values nearest to its median: (d,). Of two
    equally near values the lower one is used."""
    ordered = sorted_columns(updates).astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(ordered - median(updates))
    near = np.argsort(apart, axis=0, kind="stable")[:count]
    return np.take_along_axis(ordered, near, axis=0).mean(axis=0)


@replaceable
def weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    """The geometric median by smoothed Weiszfeld steps: (d,).

    z <- sum_i b_i u_i / sum_i b_i with b_i = weights[i] / max(smoothing, |u_i - z|), from the
    weighted median of each coordinate, until a step is no longer than smoothing / 1000 or
    `iterations` are made."""
    z = weighted_median(updates, weights)
    finite = np.isfinite(updates).all(axis=1)  # others are infinitely far: they pull with weight 0
    updates, weights = updates[finite].astype(np.float64), weights[finite]
    for _ in range(iterations):
        pull = weights / np.maximum(smoothing, lengths(updates - z))
        before, z = z, (pull[:, None] * updates).sum(axis=0) / pull.sum()
        if np.linalg.norm(z - before) <= 1e-3 * smoothing:
            break
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


@replaceable
def outlier_scores(updates: Array, rng: Stream) -> Array:
    """(v . (u_i - c))^2 with the mean c of the updates and their first principal direction v:
    (n,). The kernel finds v from a random start, for which `rng` is."""
    centred = updates - updates.mean(axis=0, dtype=np.float64)
    return np.square(centred @ np.linalg.svd(centred, full_matrices=False)[2][0])


@replaceable
def means_of_nearest(updates: Array, weights: Array, keep: int) -> Array:
    """For each update, the weighted mean of the `keep` nearest to it, itself included: (n, d)
    float64. Ties go to the earlier row."""
    near = np.argsort(squared_distances(updates), axis=1, kind="stable")[:, :keep]
    return np.stack([weighted_mean(updates[row], weights[row]) for row in near])


def lengths(rows: Array) -> Array:
    """The L2 norm of each row: (n, d) -> (n,) float64."""
    norms: Array = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return norms


def cosine(one: Array, other: Array) -> float | None:
    """The cosine of the angle between two vectors; None if one of them is 0."""
    sizes = float(np.sqrt(np.square(one).sum() * np.square(other).sum()))
    return float((one * other).sum()) / sizes if sizes else None
