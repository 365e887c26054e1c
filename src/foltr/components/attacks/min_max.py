"""Min-Max and Min-Sum: a shift of the mean update, limited by the distances between known
updates."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import alike, away, known, mean
from foltr.core import Array, Ask, Cohort
from foltr.core.cohorts import check_pairs, distances, lengths
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream
from foltr.core.spec import attack


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


@attack
@dataclass(frozen=True)
class MinMax(AlongADirection):
    """Shift the mean update, within the largest distance between two known updates.

    Every malicious client sends mu + gamma p with
        gamma = max { g : max_i |mu + g p - u_i| <= max_ij |u_i - u_j| = R }

    over the known updates u_i with mean mu. The paper searches by bisection; the exact answer is
    min_i (sqrt((p.a_i)^2 + |p|^2 (R^2 - |a_i|^2)) - p.a_i) / |p|^2 with a_i = mu - u_i. It needs
    no knowledge of the aggregation rule. If only one update is known, it is sent unchanged.

    Fields
        direction: p is -standard deviation of each coordinate ('std'), -mu / |mu| ('unit') or
            -sign(mu) ('sign')
        knowledge: 'all' (the n - m honest updates) or 'own' (the m own ones before the attack)

    Reference: Shejwalkar & Houmansadr, NDSS 2021."""

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        check_pairs(self, m if self.knowledge == "own" else n - m)
        return super().fits(n, m)

    def reach(self, known: Array, mu: Array, p: Array) -> float:
        apart, square = mu - known, np.square(p).sum()
        if square == 0.0:
            return 0.0
        along = np.einsum("nd,d->n", apart, p)
        room = np.maximum(0.0, distances(known).max() ** 2 - np.square(apart).sum(axis=1))
        return float((np.sqrt(along**2 + square * room) - along).min() / square)


@attack
@dataclass(frozen=True)
class MinSum(AlongADirection):
    """Shift the mean update, within the largest sum of squared distances of a known update.

    Every malicious client sends mu + gamma p with
        gamma = max { g : sum_i |mu + g p - u_i|^2 <= max_i sum_j |u_i - u_j|^2 }
              = max_i |u_i - mu| / |p|

    over the known updates u_i with mean mu. The second line follows from sum_i |x - u_i|^2 = sum_i
    |mu - u_i|^2 + k |x - mu|^2 for every x and k updates; the paper searches by bisection. It
    needs no knowledge of the aggregation rule. If only one update is known, it is sent unchanged.

    Fields
        direction: p is -standard deviation of each coordinate ('std'), -mu / |mu| ('unit') or
            -sign(mu) ('sign')
        knowledge: 'all' (the n - m honest updates) or 'own' (the m own ones before the attack)

    Reference: Shejwalkar & Houmansadr, NDSS 2021."""

    def reach(self, known: Array, mu: Array, p: Array) -> float:
        length = np.sqrt(np.square(p).sum())
        return float(lengths(known - mu).max() / length) if length > 0.0 else 0.0
