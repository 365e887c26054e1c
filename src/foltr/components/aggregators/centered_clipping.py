"""Centred clipping around the direction of the last round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort, Memory
from foltr.core.cohorts import in_order
from foltr.core.errors import require
from foltr.core.kinds import Remembering
from foltr.core.seeds import Stream
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class CenteredClipping(Remembering):
    """Average the updates after clipping their distance from the last round's direction.

        v <- v + sum_i (u_i - v) min(1, radius / |u_i - v|) / n

    is repeated `iterations` times, starting from the last round's v (0 in the first round). m
    malicious clients of n move v by at most iterations x m / n x radius in a round, whatever they
    send. An update with a number that is not finite has no effect. Client weights are ignored. n
    equal updates need not give that update: v reaches it only after several rounds if it is far
    away. The proof in the paper assumes clients that send a momentum of their updates.

    Fields
        radius: L2 distance at which a deviation is clipped (> 0). Choose it near the usual
            distance of an honest update from the direction: 0.1 to 0.3 for PDGD(lr=0.1,
            sessions=5) on MQ2008
        iterations: clipping steps per round (>= 1)

    Reference: Karimireddy, He & Jaggi, ICML 2021 (arXiv:2012.10333)."""

    radius: float = 0.2
    iterations: int = 1

    keeps_agreement = False

    def __post_init__(self) -> None:
        require(self.radius > 0.0, f"radius must be > 0, got {self.radius}")
        require(self.iterations >= 1, f"iterations must be >= 1, got {self.iterations}")

    def init(self, dim: int) -> Memory:
        return (np.zeros(dim),)

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        (v,), updates = memory, in_order(cohort).updates
        for _ in range(self.iterations):
            away = updates - v
            lengths = np.sqrt(np.einsum("nd,nd->n", away, away))
            finite = np.isfinite(lengths)
            if not finite.all():  # an update with NaN or infinity has no effect
                away, lengths = (
                    np.where(finite[:, None], away, 0.0),
                    np.where(finite, lengths, 0.0),
                )
            shrink = self.radius / np.maximum(lengths, self.radius)
            v = v + np.einsum("n,nd->d", shrink, away) / len(updates)
        return v, (v,)
