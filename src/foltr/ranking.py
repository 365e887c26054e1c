"""From scores to a list. Both policies draw by address, and their compiled twins draw the same
numbers."""

from __future__ import annotations

import numpy as np

from foltr.core import Array, Ranker
from foltr.errors import require
from foltr.seeds import Stream

# beyond this range of scores the lightest documents' masses leave float32, so keys are compared in
# logs
WIDE = 80.0


def scored(ranker: Ranker, params: Array, docs: Array) -> Array:
    """A ranker's scores, surely one per document: what follows trusts that."""
    scores = ranker.scores(params, docs)
    given = (
        f"{type(ranker).__name__}.scores gave shape {np.shape(scores)} for {len(docs)} documents"
    )
    require(np.shape(scores) == (len(docs),), given)
    return scores  # (m,)


def plackett_luce(scores: Array, k: int, rng: Stream) -> Array:
    """Sample k documents without replacement, each next one with probability e^s / sum of e^s over
    those left.

    By inverse CDF *with* replacement: a repeat removes the mass of everything taken so far and
    draws again, which is the same distribution for about k draws. Where the scores' range exceeds
    WIDE: the k largest of s + Gumbel noise."""
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
            mass[i] = 0.0  # the CDF still holds it, so it can be hit again
        else:
            cdf = np.cumsum(mass)
    return np.array(taken)


def best_first(scores: Array, k: int, rng: Stream) -> Array:
    """The k highest scores in order; ties at random (a zero ranker is all ties, and file order
    leaks labels)."""
    return np.lexsort((rng.words(len(scores)), -_finite(scores)))[:k]


def _finite(scores: Array) -> Array:
    if not np.isfinite(scores).all():
        raise FloatingPointError("the scores are not finite")
    return scores
