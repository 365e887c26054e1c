"""Factorisation machines (Rendle, ICDM 2010): the ranker of docs/howto/ranker.md."""

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.seeds import Stream
from foltr.core.spec import ranker


@ranker
@dataclass(frozen=True)
class FactorizationMachine:
    """score = w . x + sum over i < j of (v_i . v_j) x_i x_j, with v_i of `factors` numbers.

    Parameters are [V | w], V (factors, f) row by row; V starts from N(0, sd = `scale`), w from
    zero.

    Fields
        factors: numbers in each v_i (1 .. 1000)
        scale: standard deviation of the first V (> 0)"""

    factors: int = 4
    scale: float = 0.1

    head = 0  # no output layer of its own

    def __post_init__(self) -> None:
        require(1 <= self.factors <= 1000, f"factors must be in 1 .. 1000, got {self.factors}")
        require(self.scale > 0.0, f"scale must be > 0, got {self.scale}")

    def init(self, features: int, rng: Stream) -> Array:
        v = self.scale * rng.normals(self.factors * features)
        return np.concatenate([v, np.zeros(features)]).astype(np.float32)

    def _split(self, params: Array) -> tuple[Array, Array]:
        rows = params.reshape(self.factors + 1, -1)
        return rows[:-1], rows[-1]

    def scores(self, params: Array, docs: Array) -> Array:
        v, w = self._split(params)
        pairs = np.square(docs @ v.T) - np.square(docs) @ np.square(v).T  # (m, factors)
        return docs @ w + np.float32(0.5) * pairs.sum(axis=1)

    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        v, _ = self._split(params)
        to_v = (dscores[:, None] * (docs @ v.T)).T @ docs - v * (dscores @ np.square(docs))
        return np.concatenate([to_v.ravel(), dscores @ docs])
