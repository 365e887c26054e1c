"""Arithmetic on the updates of a round that robust rules and attacks share. Whatever takes long is
compiled; its plain definition is found in `by_definition` under the same name, and `tests/parity`
compares the two.

An update that is no number (NaN or infinite) is infinitely far from every other one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np

from foltr.core import Array, Cohort
from foltr.errors import require
from foltr.seeds import Stream

STEPS = 1000  # at most, from a random direction to the top singular one


@cache
def compiled(name: str = "cohorts") -> ModuleType:
    """The kernels of that name: numba is loaded when one is first needed, not with the package."""
    return import_module(f"foltr.kernels.{name}")


def rows(updates: Array) -> Array:
    """Updates as kernels read them: side by side in memory, float32 or float64, read-only (one
    compiled version)."""
    kept = updates if updates.dtype.char in "fd" else updates.astype(np.float64)
    view = np.ascontiguousarray(kept).view()
    view.flags.writeable = False
    return view


def in_order(cohort: Cohort) -> Cohort:
    """The cohort by client ids: what is computed of it has the same bits in whatever order
    messages arrived, and ties go to the lower id."""
    later, earlier = cohort.clients[1:], cohort.clients[:-1]
    return (
        cohort
        if (later > earlier).all()
        else cohort.only(np.argsort(cohort.clients, kind="stable"))
    )


def ranked(scores: Array) -> Array:
    """Rows from the lowest score to the highest; of equal scores the earlier row first."""
    return np.argsort(scores, kind="stable")


def weighted_mean(updates: Array, weights: Array) -> Array:
    """sum_i weights[i] updates[i] / sum_i weights[i], as FedAvg takes it: (n, d), (n,) -> (d,)
    float64."""
    mean: Array = compiled().weighted_mean(updates, weights)
    return mean


def sorted_columns(updates: Array) -> Array:
    """Each coordinate of the updates (n, d) in ascending order, NaN last. NumPy's own sort is the
    fastest there is."""
    return np.sort(updates, axis=0)


def distances(updates: Array) -> Array:
    """|u_i - u_j|, Euclidean, between all updates (n, d): (n, n) float64, symmetric, 0 on the
    diagonal."""
    apart = np.empty((len(updates), len(updates)))
    compiled().distances(rows(updates), False, apart)
    return apart


def krum_scores(apart: Array, nearest: int, squared: bool = False) -> Array:
    """Of each row of distances (n, n) the sum of the `nearest` smallest ones to others, or of
    their squares: (n,)."""
    require(0 <= nearest < len(apart), f"nearest must be in 0 .. {len(apart) - 1}, got {nearest}")
    scores = np.empty(len(apart))
    compiled().krum_scores(np.ascontiguousarray(apart), nearest, squared, scores)
    return scores


def krum_scores_of(updates: Array, nearest: int, squared: bool = False) -> Array:
    """The same from the updates (n, d), in one call."""
    require(
        0 <= nearest < len(updates), f"nearest must be in 0 .. {len(updates) - 1}, got {nearest}"
    )
    scores = np.empty(len(updates))
    compiled().krum_scores_of(rows(updates), nearest, squared, scores)
    return scores


def bulyan_rows(updates: Array, malicious: int, count: int) -> Array:
    """`count` rows in the order in which Krum chooses them, each time among those that are left:
    the lowest sum of squared distances to the r - malicious - 2 nearest of the r that are left,
    but to at least one. (count,)"""
    apart, chosen = np.empty((len(updates), len(updates))), np.empty(count, np.int64)
    compiled().distances(rows(updates), True, apart)
    compiled().bulyan_rows(apart, np.argsort(apart, axis=1), malicious, chosen)
    return chosen


def mean_around_median(updates: Array, count: int) -> Array:
    """Of each coordinate the mean of the `count` values nearest to its median; of equally near
    ones the lower: (d,)."""
    mean = np.empty(updates.shape[1])
    compiled().mean_around_median(rows(sorted_columns(updates)), count, mean)
    return mean


def weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    """z <- sum_i b_i u_i / sum_i b_i with b_i = weights[i] / max(smoothing, |u_i - z|), from the
    weighted median of each coordinate, until a step is no longer than a thousandth of `smoothing`
    or for so many `iterations`: (d,)."""
    z = weighted_middle(updates, weights)
    compiled().weiszfeld(rows(updates), rows(weights), smoothing, iterations, z)
    return z


def middle(updates: Array) -> Array:
    """The coordinate-wise median; of an even number the mean of the two in the middle: (d,)
    float64."""
    ordered, n = sorted_columns(updates), len(updates)
    return (ordered[(n - 1) // 2].astype(np.float64) + ordered[n // 2]) / 2.0


def weighted_middle(updates: Array, weights: Array) -> Array:
    """The weighted median of each coordinate: the lowest value x with at least half of the weight
    on values <= x; where that is exactly half, the mean of x and the next value. With equal
    weights it is `middle`. (d,) float64."""
    if (weights == weights[0]).all():
        return middle(updates)
    (n, d), ordered, half = updates.shape, sorted_columns(updates), weights.sum() / 2.0
    every, first, last = np.arange(d), np.zeros(d, np.int64), np.full(d, n - 1)
    while (first < last).any():  # bisections take less time than sorting with weights
        at = (first + last) // 2
        enough = np.einsum("n,nd->d", weights, updates <= ordered[at, every]) >= half
        first, last = np.where(enough, first, np.minimum(at + 1, last)), np.where(enough, at, last)
    low = ordered[first, every]
    upto = updates <= low
    following = ordered[np.minimum(upto.sum(axis=0), n - 1), every]
    high = np.where(np.einsum("n,nd->d", weights, upto) > half, low, following)
    return (low.astype(np.float64) + high) / 2.0


def outlier_scores(updates: Array, rng: Stream) -> Array:
    """<u_i - c, v>^2 with the mean c and the direction v in which the updates vary most: (n,). No
    LAPACK: its bits may depend on the number of threads."""
    centred, scores = updates - updates.mean(axis=0, dtype=np.float64), np.empty(len(updates))
    start = rng.uniforms(updates.shape[1]) - 0.5
    compiled("outliers").outlier_scores(rows(centred), start, STEPS, scores)
    return scores


def means_of_nearest(updates: Array, weights: Array, keep: int) -> Array:
    """Of each update the weighted mean of the `keep` nearest to it, itself among them: (n, d)
    float64. Of equally far ones the earlier count."""
    means = np.empty(updates.shape)
    compiled().means_of_nearest(rows(updates), rows(weights), keep, means)
    return means


def lengths(rows: Array) -> Array:
    """The L2 norm of each row: (n, d) -> (n,) float64"""
    norms: Array = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return norms


def cosine(one: Array, other: Array) -> float | None:
    """Of the angle between two vectors; None where one of them is 0."""
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
    near = np.argsort(np.abs(ordered - middle(updates)), axis=0, kind="stable")[:count]
    return np.take_along_axis(ordered, near, axis=0).mean(axis=0)


def _weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    z, before = weighted_middle(updates, weights), None
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
