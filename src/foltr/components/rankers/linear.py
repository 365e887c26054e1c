"""The linear ranker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.scoring import Layer
from foltr.core.seeds import Stream
from foltr.core.spec import added, ranker


@ranker
@dataclass(frozen=True)
class Linear:
    """Score documents by a linear function: score = w . x.

    There is no bias: a constant does not change a ranking.

    Fields
        start: the first weights, in the order of the features; weights beyond them are 0. None
            starts at 0. (10.0,) starts with the ranking by the first feature"""

    start: tuple[float, ...] | None = added()

    head = 0

    def __post_init__(self) -> None:
        none = "start has no weights: give one number per feature, or None to start at 0"
        require(self.start is None or len(self.start) > 0, none)

    def init(self, features: int, rng: Stream) -> Array:
        weights, given = np.zeros(features, np.float32), self.start or ()
        many = f"Linear.start has {len(given)} weights, and there are {features} features"
        require(len(given) <= features, f"{many}: give one per feature, or fewer")
        weights[: len(given)] = given
        return weights

    def scores(self, params: Array, docs: Array) -> Array:
        return docs @ params

    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        return dscores @ docs

    def layers(self, params: Array) -> tuple[Layer, ...]:
        return (Layer(params[None], np.zeros(1, np.float32)),)
