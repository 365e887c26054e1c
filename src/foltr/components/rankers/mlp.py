"""The neural ranker with one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.scoring import Layer
from foltr.core.seeds import Stream
from foltr.core.spec import ranker


@ranker
@dataclass(frozen=True)
class MLP:
    """Score documents by a network with one hidden layer: score = v . a(W x + b).

    The parameters are flattened as [W | b | v], with W (hidden, f) row by row. There is no output
    bias: a constant does not change a ranking.

    Fields
        hidden: hidden units (1 .. 10^5)
        activation: a: 'sigmoid', 'relu' or 'tanh'
        scale: standard deviation of the initial parameters (>= 0), or None for 1 / fan-in as
            published: 1 / f for W and b, 1 / hidden for v. With 0 all start at zero, from where a
            gradient learner does not move but an evolution strategy does

    Reference: Oosterhuis & de Rijke, CIKM 2018."""

    hidden: int = 64
    activation: Literal["sigmoid", "relu", "tanh"] = "sigmoid"
    scale: float | None = None

    def __post_init__(self) -> None:
        require(1 <= self.hidden <= 10**5, f"hidden must be in 1 .. 10^5, got {self.hidden}")
        require(self.scale is None or self.scale >= 0.0, f"scale must be >= 0, got {self.scale}")

    @property
    def head(self) -> int:
        return self.hidden

    def init(self, features: int, rng: Stream) -> Array:
        first, last = (
            (1.0 / features, 1.0 / self.hidden) if self.scale is None else (self.scale, self.scale)
        )
        sd = np.repeat([first, first, last], [features * self.hidden, self.hidden, self.hidden])
        return (sd * rng.normals(len(sd))).astype(np.float32)

    def _split(self, params: Array) -> tuple[Array, Array, Array]:
        h = self.hidden
        return params[: -2 * h].reshape(h, -1), params[-2 * h : -h], params[-h:]

    def _activate(self, z: Array) -> Array:
        if self.activation == "sigmoid":
            return 0.5 + 0.5 * np.tanh(0.5 * z)  # 1 / (1 + e^-z) without overflow
        return np.maximum(z, 0.0) if self.activation == "relu" else np.tanh(z)

    def _slope(self, a: Array) -> Array:
        """The derivative of the activation, computed from its value."""
        if self.activation == "sigmoid":
            return a * (1.0 - a)
        return (a > 0.0).astype(a.dtype) if self.activation == "relu" else 1.0 - a * a

    def scores(self, params: Array, docs: Array) -> Array:
        w, b, v = self._split(params)
        return self._activate(docs @ w.T + b) @ v

    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        w, b, v = self._split(params)
        used = np.flatnonzero(dscores)  # only shown documents have a weight
        docs, dscores = docs[used], dscores[used]
        a = self._activate(docs @ w.T + b)  # (m, hidden)
        back = dscores[:, None] * self._slope(a) * v  # (m, hidden)
        return np.concatenate([(back.T @ docs).ravel(), back.sum(axis=0), dscores @ a])

    def layers(self, params: Array) -> tuple[Layer, ...]:
        w, b, v = self._split(params)
        return Layer(w, b, self.activation), Layer(v[None], np.zeros(1, np.float32))
