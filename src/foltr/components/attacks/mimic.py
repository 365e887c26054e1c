"""Mimic: malicious clients copy one honest client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import alike, mean
from foltr.core import Array, Ask, Cohort
from foltr.core.cohorts import lengths
from foltr.core.kinds import ChangesMessages
from foltr.core.seeds import Stream
from foltr.core.spec import attack

STEPS = 20  # of the power iteration; enough to order the clients


@attack
@dataclass(frozen=True)
class Mimic(ChangesMessages):
    """Send copies of one honest client's update, so that this client counts several times.

        u_t from every malicious client
        t = lowest id, or argmax_i |v . (u_i - mean_j u_j)|   over honest i, j

    It does harm where clients hold different data: the rule over-represents the copied client, and
    no message is an outlier. v is the first principal direction of the honest updates of this
    round (power iteration from the longest u_i - mean). The paper computes v over the rounds of a
    warm-up and then keeps its choice; an attack here has no memory.

    Fields
        target: 'fixed' copies the honest participant with the lowest client id, 'outermost' the
            one farthest out along v

    Reference: Karimireddy, He & Jaggi, ICLR 2022, section 3.2 (arXiv:2006.09365)."""

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
