"""The linear ranker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.scoring.layers import Layer
from foltr.seeds import Stream
from foltr.spec import ranker


@ranker
@dataclass(frozen=True)
class Linear:
    """Score documents by a linear function: score = w . x.

    w starts at 0. There is no bias: a constant does not change a ranking."""

    head = 0

    def init(self, features: int, rng: Stream) -> Array:
        return np.zeros(features, np.float32)

    def scores(self, params: Array, docs: Array) -> Array:
        return docs @ params

    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        return dscores @ docs

    def layers(self, params: Array) -> tuple[Layer, ...]:
        return (Layer(params[None], np.zeros(1, np.float32)),)
