"""A Little Is Enough: a small shift, hidden in the spread of honest updates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

from foltr.components.attacks._crafting import alike, mean, spread
from foltr.core import Array, Ask, Cohort
from foltr.core.errors import require
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream
from foltr.core.spec import attack


@attack
@dataclass(frozen=True)
class LittleIsEnough(HasKnowledge):
    """Send the mean update shifted by z standard deviations in each coordinate.

        mu - z sigma

    mu and sigma (dividing by the number of updates) are taken over the known updates. By default z
    is the largest shift at which enough honest clients are expected to lie farther out, so that
    the malicious clients have a majority with them: with s = floor(n / 2 + 1) - m supporters,
        z = Phi^-1((n - m - s) / (n - m)),   or Phi^-1((n - s) / n)
    with variant='all'.
    For n = 10 and m = 1, 2, 3, 4 that is -.14, 0, .18, .43 (or 0, .25, .52, .84). A single client
    with own knowledge has sigma = 0 and sends its honest update, as do all malicious clients in a
    round in which no z exists.

    Fields
        z: shift in standard deviations, or None for the value above
        knowledge: 'own' (updates of malicious clients before the attack) or 'all' (those of all n
            clients)
        variant: 'honest' counts quantiles over the n - m honest clients, 'all' over all n

    Reference: Baruch, Baruch & Goldberg, NeurIPS 2019 (arXiv:1902.06156); in federated ranking:
    Wang & Zuccon, ICTIR 2023."""

    z: float | None = None
    knowledge: Literal["own", "all"] = "own"
    variant: Literal["honest", "all"] = "honest"

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        z = self.coefficient(n, m)
        hidden = (
            f"LittleIsEnough has no z for {m} malicious clients of {n}: take at most {n // 2}"
            " malicious of at least 3, or give z"
        )
        require(z is not None, hidden)
        if self.knowledge == "own" and m == 1:
            return (
                (
                    "LittleIsEnough has no effect: a single malicious client knows one update,"
                    " which has no spread"
                ),
            )
        if z == 0.0:
            return (
                (
                    f"LittleIsEnough sends only the mean of the updates it knows: z is 0 for {m}"
                    f" malicious clients of {n}"
                ),
            )
        return (
            (f"LittleIsEnough adds the spread instead of subtracting it: z is {z:.2g}",)
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
    """The paper's z for m malicious of n clients, or None where there is none."""
    s = n // 2 + 1 - m  # honest clients needed for a majority
    quantile = ((n - m - s) / (n - m) if m < n else 1.0) if variant == "honest" else (n - s) / n
    return NormalDist().inv_cdf(quantile) if 0.0 < quantile < 1.0 else None
