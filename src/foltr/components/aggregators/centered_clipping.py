"""Centred clipping (Karimireddy, He & Jaggi, ICML 2021; arXiv:2012.10333)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import in_order
from foltr.core import Array, Cohort, Memory
from foltr.errors import require
from foltr.kinds import Remembering
from foltr.seeds import Stream
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class CenteredClipping(Remembering):
    """Go on from the last round's direction, towards each client by no more than `radius`.

    v <- v + sum_i (u_i - v) min(1, radius / |u_i - v|) / n, `iterations` times, from the last
    round's v. In one round m of n clients move it by `iterations` x m / n x `radius` at most,
    whatever they send. Choose `radius` about as large as the distance of honest updates from the
    direction: 0.1 to 0.3 for PDGD(lr=0.1, sessions=5) on MQ2008. (The paper's proof is for clients
    that send a momentum of their updates, which keeps that small.) Clients that agree on something
    farther away get there only after some rounds: agreement is not kept. Weights do not matter.
    """

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
            if not finite.all():  # who sends no numbers moves nothing
                away, lengths = (
                    np.where(finite[:, None], away, 0.0),
                    np.where(finite, lengths, 0.0),
                )
            shrink = self.radius / np.maximum(lengths, self.radius)
            v = v + np.einsum("n,nd->d", shrink, away) / len(updates)
        return v, (v,)
