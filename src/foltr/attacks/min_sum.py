"""Min-Sum (Shejwalkar & Houmansadr, NDSS 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array, Cohort
from foltr.crafting import alike, away, lengths, mean, others
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class MinSum(ChangesMessages):
    """Every malicious client sends mu + gamma p, in all as close to the known updates as the outermost of these is.

    gamma = max { g : sum_i |mu + g p - u_i|^2 <= max_i sum_j |u_i - u_j|^2 }, with u_i, mu and p as in `MinMax`. mu is
    the mean of the k known updates, so sum_i |x - u_i|^2 = sum_i |mu - u_i|^2 + k |x - mu|^2 for every x, and what the
    paper searches for is gamma = max_i |u_i - mu| / |p|.
    Knows no rule. A single known update leaves no room: it is sent as it is.
    """

    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = self.knowledge == "own" and m == 1
        return ("MinSum is void: a single malicious client that knows one update sends it as it is",) if alone else ()

    def craft(self, cohort: Cohort, malicious: Array, params: Array, rng: Stream) -> Array:
        known = cohort.updates[malicious] if self.knowledge == "own" else others(cohort, malicious)
        mu = mean(known)
        p = away(known, mu, self.direction)
        length = np.sqrt(np.square(p).sum())
        gamma = lengths(known - mu).max() / length if length > 0.0 else 0.0
        return alike(mu + gamma * p, int(malicious.sum()))
