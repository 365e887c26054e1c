"""Ranking SVM, solved by an interior-point method."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.spec import baseline
from foltr.core.world.dataset import Dataset
from foltr.core.world.protocols import Ranked

STEPS = 200  # most interior-point steps; about 20 are needed
GAP = 1e-8  # largest relative difference between the objective and its lower bound


@baseline
@dataclass(frozen=True)
class RankingSVM:
    """Train a linear ranker with a pairwise hinge loss on the labels.

        min over w of 1/2 |w|^2 + C / n sum_{(i, j)} max(0, 1 - w . (x_i - x_j))

    over all pairs of documents of one query with label_i > label_j. n counts all queries, also
    those without a pair. Queries with more pairs have more influence. `svm_rank_learn -c C`
    minimises the same (its default loss, the number of swapped pairs), and so does SVMlight in
    ranking mode with C / n.

    Fields
        C: weight of the loss against the margin (0 < C <= 10^9)

    Reference: Joachims, KDD 2002; the objective is that of SVMrank: Joachims, KDD 2006."""

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
    """The features minus those of the first document of the query, (N, f): equal differences,
    smaller numbers."""  # (N, f)
    docs = data.features.astype(np.float64)
    return docs - docs[np.repeat(data.offsets[:-1], np.diff(data.offsets))]


@dataclass(frozen=True)
class Pairs:
    """Pairs of documents of one query, as a matrix P: each row has +1 at `better` and -1 at
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
        """P s: the score difference of each pair."""  # (N,) -> (n,)
        return scores[self.better] - scores[self.worse]

    def collected(self, weights: Array) -> Array:
        """P' v: the sum of pair weights at each document."""  # (n,) -> (N,)
        n = self.documents
        return np.bincount(self.better, weights, n) - np.bincount(self.worse, weights, n)

    def moments(self, docs: Array, weights: Array) -> Array:
        """X' P' diag(v) P X, where P' diag(v) P is the Laplacian of the graph of pairs."""
        # (N, f), (n,) -> (f, f)
        from scipy.sparse import csr_array

        n = self.documents
        degrees = np.bincount(self.better, weights, n) + np.bincount(self.worse, weights, n)
        starts = np.searchsorted(self.better, np.arange(n + 1))
        across = docs.T @ (csr_array((weights, self.worse, starts), shape=(n, n)) @ docs)
        return docs.T @ (degrees[:, None] * docs) - across - across.T


def widest_margin(docs: Array, pairs: Pairs, c: float) -> tuple[Array, float]:
    """Minimise 1/2 |w|^2 + c sum max(0, 1 - P X w); returns w (f,) and a bound of its relative
    error.

    The optimum has multipliers 0 <= a <= c of the pairs with w = X' P' a, and P X w - 1 = z - xi
    with z, xi >= 0, a z = 0 and (c - a) xi = 0. Every a in [0, c] bounds the minimum from below by
    sum a - 1/2 |X' P' a|^2."""  # (N, f) -> (f,)
    n, w = len(pairs.better), np.zeros(docs.shape[1])
    a, left, z, xi = np.full(n, c / 2), np.full(n, c / 2), np.ones(n), np.full(n, 2.0)
    for step in range(STEPS + 1):
        margins, pulled = pairs.differences(docs @ w), docs.T @ pairs.collected(a)
        value = 0.5 * w @ w + c * np.maximum(0.0, 1.0 - margins).sum()
        gap = float(1.0 - (a.sum() - 0.5 * pulled @ pulled) / value)
        if gap <= GAP or step == STEPS:
            break
        try:
            with np.errstate(all="ignore"):  # NaN and infinity end the loop
                w, a, left, z, xi = _closer(docs, pairs, (w, a, left, z, xi), margins, pulled)
        except np.linalg.LinAlgError:
            break
    return w, gap


def _closer(
    docs: Array, pairs: Pairs, here: tuple[Array, ...], margins: Array, pulled: Array
) -> tuple[Array, ...]:
    """One primal-dual interior-point step: Mehrotra's predictor and corrector, for SVMs of few
    features as in Ferris & Munson (SIAM J. Optim. 2002). Coordinate descent, as in liblinear,
    converges slowly with large C or raw features. `left` is c - a, stored apart so that it never
    rounds to 0."""
    w, a, left, z, xi = here
    off, weights = margins - 1.0 + xi - z, 1.0 / (xi / left + z / a)  # (n,) each
    inverse = _inverted(np.eye(len(w)) + pairs.moments(docs, weights))

    def newton(to_z: Array, to_xi: Array) -> tuple[Array, ...]:
        """Steps of w, a, z and xi that change a z by `to_z` and (c - a) xi by `to_xi`, to first
        order."""
        right = to_z / a - to_xi / left - off
        dw = inverse @ (docs.T @ pairs.collected(weights * right) + pulled - w)
        da = weights * (right - pairs.differences(docs @ dw))
        return dw, da, (to_z - z * da) / a, (to_xi + xi * da) / left

    _, da, dz, dxi = newton(-a * z, -left * xi)  # predictor: the full Newton step
    t = _farthest((a, da), (left, -da), (z, dz), (xi, dxi))
    now = (a * z + left * xi).sum()
    then = ((a + t * da) * (z + t * dz) + (left - t * da) * (xi + t * dxi)).sum()
    aim = (then / now) ** 3 * now / (2 * len(a))
    dw, da, dz, dxi = newton(aim - a * z - da * dz, aim - left * xi + da * dxi)
    t = 0.995 * _farthest((a, da), (left, -da), (z, dz), (xi, dxi))
    return w + t * dw, a + t * da, left - t * da, z + t * dz, xi + t * dxi


def _inverted(matrix: Array) -> Array:
    """The inverse of a symmetric matrix whose scales may differ widely and whose rows may be
    dependent."""
    scale = 1.0 / np.sqrt(np.maximum(1.0, np.diag(matrix)))
    return (
        scale[:, None]
        * np.linalg.pinv(scale[:, None] * matrix * scale, rcond=1e-14, hermitian=True)
        * scale
    )


def _farthest(*moves: tuple[Array, Array]) -> float:
    """The largest step length, at most 1, that leaves all of the positive numbers non-negative."""
    return float(min(1.0, *(1.0 / max(1e-300, np.max(-step / value)) for value, step in moves)))
