"""The base of `MinMax` and `MinSum`: a step from the mean of known updates, within a distance
limit."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from foltr.components.attacks._crafting import alike, away, known, mean
from foltr.core import Array, Ask, Cohort
from foltr.kinds import HasKnowledge
from foltr.seeds import Stream


@dataclass(frozen=True)
class AlongADirection(HasKnowledge):
    """Every malicious client sends mu + gamma p. Subclasses write `reach`, which computes
    gamma."""

    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"

    @abstractmethod
    def reach(self, known: Array, mu: Array, p: Array) -> float:
        """gamma, from the known updates (k, d), their mean mu (d,) and the direction p (d,)."""

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone, name = self.knowledge == "own" and m == 1, type(self).__name__
        return (
            (f"{name} has no effect: a single malicious client sends the one update it knows",)
            if alone
            else ()
        )

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        updates = known(cohort, malicious, self.knowledge)
        mu = mean(updates)
        p = away(updates, mu, self.direction)
        return alike(mu + self.reach(updates, mu, p) * p, int(malicious.sum()))
