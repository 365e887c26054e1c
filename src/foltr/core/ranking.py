"""From scores to a list. The compiled twins of both policies draw the same random numbers."""

from __future__ import annotations

import numpy as np

from foltr.core import Array, Ranker
from foltr.core.guards import check_scores
from foltr.core.seeds import Stream

# range of scores beyond which the smallest masses underflow float32; keys are then compared as
# logarithms
WIDE = 80.0


def scored(ranker: Ranker, params: Array, docs: Array) -> Array:
    """The scores of a ranker; raises unless there is a finite one per document."""
    scores = ranker.scores(params, docs)
    check_scores(ranker, scores, params, docs)
    return scores  # (m,)


def plackett_luce(scores: Array, k: int, rng: Stream) -> Array:
    """Sample k documents without replacement, each with probability e^s / sum of e^s over those
    left.

    It samples by inverse CDF with replacement. A repeated document removes the mass of all
    documents taken so far, and the draw is repeated: the same distribution at about k draws. Where
    the range of the scores exceeds WIDE, it takes the k largest of s + Gumbel noise instead."""
    scores = _finite(scores).astype(np.float64)
    if scores.max() - scores.min() > WIDE:
        return best_first(scores - np.log(-np.log(rng.uniforms(len(scores)))), k, rng)
    mass = np.exp(scores - scores.max())
    cdf = np.cumsum(mass)
    taken: list[int] = []
    while len(taken) < k:
        i = int(np.searchsorted(cdf, rng.uniform() * cdf[-1], side="right"))
        if i < len(mass) and mass[i] > 0.0:
            taken.append(i)
            mass[i] = 0.0  # the CDF still includes it, so it can be drawn again
        else:
            cdf = np.cumsum(mass)
    return np.array(taken)


def best_first(scores: Array, k: int, rng: Stream) -> Array:
    """The k documents with the highest scores, in order. Ties are random: a zero ranker has only
    ties, and the order of the file would reveal labels."""
    return np.lexsort((rng.words(len(scores)), -_finite(scores)))[:k]


def _finite(scores: Array) -> Array:
    if not np.isfinite(scores).all():
        raise FloatingPointError("the scores are not finite")
    return scores
