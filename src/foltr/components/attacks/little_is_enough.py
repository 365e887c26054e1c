"""A Little Is Enough (Baruch, Baruch & Goldberg, NeurIPS 2019; arXiv:1902.06156; thesis 5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

from foltr.components.attacks._crafting import alike, mean, spread
from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class LittleIsEnough(ChangesMessages):
    """Every malicious client sends mu - z sigma: wrong in each coordinate, but inside the crowd.

    mu and sigma (as of a population) are those of the m updates that malicious clients would
    honestly send, or of all n with `knowledge='all'`. `z=None` takes the largest z at which enough
    honest clients are expected farther out to give the malicious a majority: with s = floor(n / 2
    + 1) - m of them, z = Phi^-1((n - m - s) / (n - m)), or with `variant='all'` Phi^-1((n - s) /
    n). For n = 10 that is -.14, 0, .18, .43 (0, .25, .52, .84) with m = 1, 2, 3, 4.

    A single update has sigma = 0: alone and with its own knowledge, a client sends its honest
    update. So do all in a round in which no z hides them."""

    z: float | None = None
    knowledge: Literal["own", "all"] = "own"
    variant: Literal["honest", "all"] = "honest"

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        z = self.coefficient(n, m)
        hidden = (
            f"no z hides {m} malicious clients of {n}: at most {n // 2} of at least 3, or give z"
        )
        require(z is not None, hidden)
        if self.knowledge == "own" and m == 1:
            return (
                (
                    "LittleIsEnough is void: the one update that a single malicious client knows"
                    " has no spread"
                ),
            )
        if z == 0.0:
            return (
                (
                    f"LittleIsEnough sends only the mean of what it knows: z is 0 for {m}"
                    f" malicious clients of {n}"
                ),
            )
        return (
            (f"LittleIsEnough adds spread instead of taking it away: z is {z:.2g}",)
            if z and z < 0.0
            else ()
        )

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own = cohort.updates[malicious]
        z = self.coefficient(len(cohort), len(own))
        if z is None:
            return own
        known = own if self.knowledge == "own" else cohort.updates
        mu = mean(known)
        return alike(mu - z * spread(known, mu), len(own))

    def coefficient(self, n: int, m: int) -> float | None:
        return _hiding(n, m, self.variant) if self.z is None else self.z


@cache
def _hiding(n: int, m: int, variant: str) -> float | None:
    """z of the paper, where there is one."""
    s = n // 2 + 1 - m  # honest clients that are to be farther out
    quantile = ((n - m - s) / (n - m) if m < n else 1.0) if variant == "honest" else (n - s) / n
    return NormalDist().inv_cdf(quantile) if 0.0 < quantile < 1.0 else None
