"""Ranking SVM (Joachims, KDD 2002), with the objective of SVMrank (Joachims, KDD 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.spec import baseline
from foltr.world.dataset import Dataset
from foltr.world.protocols import Ranked

STEPS = 200  # about 20 are needed
GAP = 1e-8  # between the objective and a lower bound of it, as a part of the objective


@baseline
@dataclass(frozen=True)
class RankingSVM:
    """The linear ranker with the widest margin between documents of one query that have different
    labels.

    min over w of 1/2 w . w + C / n sum_{i over j} max(0, 1 - w . (x_i - x_j)), over all pairs of
    documents of a query with label_i > label_j; n is the number of all queries, also of those
    without such a pair. That is what `svm_rank_learn -c C` minimises (its default loss, the total
    number of swapped pairs), and SVMlight in ranking mode with C / n. Large queries weigh more, by
    their pairs."""

    C: float = 1000.0

    def __post_init__(self) -> None:
        require(0.0 < self.C <= 1e9, f"C must be in (0, 10^9], got {self.C}")

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked:
        docs, pairs = within_queries(data), Pairs.of(data)
        none = (
            "no training query has two documents with different labels: there is nothing to learn"
            " from"
        )
        require(len(pairs.better) > 0, none)
        w, gap = widest_margin(docs, pairs, self.C / data.queries)
        way_out = "normalize the features, or take a smaller C"
        require(
            gap <= GAP,
            f"no optimum found (it may be off by {gap:.1e} of the objective): {way_out}",
        )
        return Ranked(lambda documents: documents @ w, w)


def within_queries(data: Dataset) -> Array:
    """Documents as seen from the first one of their query: the same differences, in smaller
    numbers."""  # (N, f)
    docs = data.features.astype(np.float64)
    return docs - docs[np.repeat(data.offsets[:-1], np.diff(data.offsets))]


@dataclass(frozen=True)
class Pairs:
    """Two documents of a query each: a matrix P with a row per pair, +1 at `better` and -1 at
    `worse`."""

    better: Array  # (n,) int64, ascending
    worse: Array  # (n,) int64
    documents: int  # N

    @classmethod
    def of(cls, data: Dataset) -> Pairs:
        better, worse = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, stop in pairwise(data.offsets):
            labels = data.labels[0, start:stop]
            i, j = np.nonzero(labels[:, None] > labels)
            better.append(start + i)
            worse.append(start + j)
        return cls(np.concatenate(better), np.concatenate(worse), data.documents)

    def differences(self, scores: Array) -> Array:
        """P s"""  # (N,) -> (n,)
        return scores[self.better] - scores[self.worse]

    def collected(self, weights: Array) -> Array:
        """P' v"""  # (n,) -> (N,)
        n = self.documents
        return np.bincount(self.better, weights, n) - np.bincount(self.worse, weights, n)

    def moments(self, docs: Array, weights: Array) -> Array:
        """X' P' diag(v) P X: a graph's Laplacian between its documents."""
        # (N, f), (n,) -> (f, f)
        from scipy.sparse import csr_array

        n = self.documents
        degrees = np.bincount(self.better, weights, n) + np.bincount(self.worse, weights, n)
        starts = np.searchsorted(self.better, np.arange(n + 1))
        across = docs.T @ (csr_array((weights, self.worse, starts), shape=(n, n)) @ docs)
        return docs.T @ (degrees[:, None] * docs) - across - across.T


def widest_margin(docs: Array, pairs: Pairs, c: float) -> tuple[Array, float]:
    """w and how far it may be from the optimum of min 1/2 w . w + c sum max(0, 1 - P X w), as a
    part of its value.

    The optimum has multipliers 0 <= a <= c of the pairs with w = X' P' a, and P X w - 1 = z - xi
    with z, xi >= 0, a z = 0 and (c - a) xi = 0. Any such a bounds the objective from below by sum
    a - 1/2 |X' P' a|^2."""  # (N, f) -> (f,)
    n, w = len(pairs.better), np.zeros(docs.shape[1])
    a, left, z, xi = np.full(n, c / 2), np.full(n, c / 2), np.ones(n), np.full(n, 2.0)
    for step in range(STEPS + 1):
        margins, pulled = pairs.differences(docs @ w), docs.T @ pairs.collected(a)
        value = 0.5 * w @ w + c * np.maximum(0.0, 1.0 - margins).sum()
        gap = float(1.0 - (a.sum() - 0.5 * pulled @ pulled) / value)
        if gap <= GAP or step == STEPS:
            break
        try:
            with np.errstate(all="ignore"):  # what is no longer finite ends it
                w, a, left, z, xi = _closer(docs, pairs, (w, a, left, z, xi), margins, pulled)
        except np.linalg.LinAlgError:
            break
    return w, gap


def _closer(
    docs: Array, pairs: Pairs, here: tuple[Array, ...], margins: Array, pulled: Array
) -> tuple[Array, ...]:
    """One step of a primal-dual interior-point method: Mehrotra's predictor and corrector, for
    low-dimensional SVMs as in Ferris & Munson (SIAM J. Optim. 2002). Coordinate descent, as in
    liblinear, crawls with large C or raw features. `left` is c - a, but never 0 by rounding."""
    w, a, left, z, xi = here
    off, weights = margins - 1.0 + xi - z, 1.0 / (xi / left + z / a)  # (n,) each
    inverse = _inverted(np.eye(len(w)) + pairs.moments(docs, weights))

    def newton(to_z: Array, to_xi: Array) -> tuple[Array, ...]:
        """Steps of w, a, z and xi that, to first order, add `to_z` to a z and `to_xi` to (c - a)
        xi."""
        right = to_z / a - to_xi / left - off
        dw = inverse @ (docs.T @ pairs.collected(weights * right) + pulled - w)
        da = weights * (right - pairs.differences(docs @ dw))
        return dw, da, (to_z - z * da) / a, (to_xi + xi * da) / left

    _, da, dz, dxi = newton(-a * z, -left * xi)  # straight to the optimum: how far could one go?
    t = _farthest((a, da), (left, -da), (z, dz), (xi, dxi))
    now = (a * z + left * xi).sum()
    then = ((a + t * da) * (z + t * dz) + (left - t * da) * (xi + t * dxi)).sum()
    aim = (then / now) ** 3 * now / (2 * len(a))
    dw, da, dz, dxi = newton(aim - a * z - da * dz, aim - left * xi + da * dxi)
    t = 0.995 * _farthest((a, da), (left, -da), (z, dz), (xi, dxi))
    return w + t * dw, a + t * da, left - t * da, z + t * dz, xi + t * dxi


def _inverted(matrix: Array) -> Array:
    """Of features whose scales may differ by many orders of magnitude, and of which some may be
    others' copies."""
    scale = 1.0 / np.sqrt(np.maximum(1.0, np.diag(matrix)))
    return (
        scale[:, None]
        * np.linalg.pinv(scale[:, None] * matrix * scale, rcond=1e-14, hermitian=True)
        * scale
    )


def _farthest(*moves: tuple[Array, Array]) -> float:
    """The longest part of a step, at most all of it, after which each of the positive numbers is
    not negative."""
    return float(min(1.0, *(1.0 / max(1e-300, np.max(-step / value)) for value, step in moves)))
