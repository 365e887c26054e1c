"""Mimic (Karimireddy, He & Jaggi, ICLR 2022, section 3.2; arXiv:2006.09365)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.cohorts import lengths
from foltr.components.attacks._crafting import alike, mean
from foltr.core import Array, Ask, Cohort
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack

STEPS = 20  # of the power iteration: it only has to tell clients apart


@attack
@dataclass(frozen=True)
class Mimic(ChangesMessages):
    """All malicious clients send what one honest client sends: nothing stands out, and that client
    counts m + 1 times.

    `target='fixed'` copies the honest client with the lowest number that takes part, in every
    round the same one if all take part: what it holds is learned, what others hold is not. It
    hurts where clients hold different data. `target='outermost'` copies the honest client i with
    the largest |v.(u_i - mean)| in this round, v being the first principal direction of honest
    updates (by power iteration from the longest u_i - mean). The paper takes v over the rounds of
    a warm-up and keeps its choice; an attack here has no memory."""

    target: Literal["fixed", "outermost"] = "fixed"

    overhears = True

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own = cohort.updates[malicious]
        if len(own) == len(cohort):
            return own
        honest = np.flatnonzero(~malicious)
        honest = honest[np.argsort(cohort.clients[honest])]
        i = 0 if self.target == "fixed" else _outermost(cohort.updates[honest])
        return alike(cohort.updates[honest[i]], len(own))


def _outermost(updates: Array) -> int:
    apart = updates - mean(updates)
    v = apart[lengths(apart).argmax()]
    for _ in range(STEPS):
        v = np.einsum("nd,n->d", apart, np.einsum("nd,d->n", apart, v))
        v /= max(np.sqrt(np.square(v).sum()), 1e-300)
    return int(np.abs(np.einsum("nd,d->n", apart, v)).argmax())
