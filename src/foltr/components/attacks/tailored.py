"""An attack tailored to a known aggregation rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import alike, away, known, mean, spread
from foltr.core import Aggregator, Array, Ask, Cohort, Withheld
from foltr.core.cohorts import lengths
from foltr.core.errors import require
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream
from foltr.core.spec import attack

HALVINGS, REFINEMENTS = 9, 4
STAND_INS, RULE = 0, 1  # parts of the round's random stream


@attack
@dataclass(frozen=True)
class Tailored(HasKnowledge):
    """Shift the mean update by the amount that moves a known aggregation rule farthest.

    Every malicious client sends mu + gamma p with
        gamma = argmax_g <rule(m copies of mu + g p, n - m honest updates) - mu, p>

    mu is the mean of the known updates. p has the direction given below and the length of the
    longest u_i - mu (of mu, if all u_i are equal). The candidates are reach, reach / 2, ..., reach
    / 2^9; the best one is then enlarged by four bisections towards its double.

    The paper maximises gamma under a condition that depends on the rule; for Krum, that a crafted
    update is selected. Here one measure serves all rules. It is not |rule - mu|: that would count
    an honest update far from mu, selected by Krum, as a success. The rule is called as in its
    first round, with memory `rule.init(d)` and with mu as the server's trusted update.

    Fields
        rule: the aggregator that is attacked
        direction: p is -standard deviation of each coordinate ('std'), -mu ('unit') or -sign(mu)
            ('sign')
        knowledge: 'all' (the honest updates), or 'own': mu is the mean of the m own updates before
            the attack, and the unknown honest updates are replaced by normal draws with their mean
            and standard deviation
        reach: largest gamma tried, in lengths of p (> 0)

    Reference: Shejwalkar & Houmansadr, NDSS 2021 (AGR-tailored, of the DYN-OPT family)."""

    rule: Aggregator
    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"
    reach: float = 16.0

    def __post_init__(self) -> None:
        require(self.reach > 0.0, f"reach must be > 0, got {self.reach}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        # raises if the rule cannot work with n clients; its notes are not repeated
        self.rule.fits(n)
        if self.knowledge == "all" or m > 1:
            return ()
        if self.direction == "std":
            known = "a single malicious client knows one update, which has no spread"
            return (f"Tailored has no effect: {known}",)
        return ("Tailored assumes that all clients equal the one that it knows",)

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own = cohort.updates[malicious]
        updates = known(cohort, malicious, self.knowledge)
        mu = mean(updates)
        step = _long(away(updates, mu, self.direction), updates, mu)
        rows, weights = cohort.updates.astype(np.float64), cohort.weights
        if self.knowledge == "own":
            weights = np.where(malicious, weights, weights[malicious].mean())
            draws = (
                rng.at(STAND_INS).gaussians((len(rows) - len(own)) * len(mu)).reshape(-1, len(mu))
            )
            rows[~malicious] = mu + spread(updates, mu) * draws

        def moved(gamma: float) -> float:
            rows[malicious] = mu + gamma * step
            seen = Cohort(
                cohort.clients, rows.astype(np.float32), weights, trusted=mu.astype(np.float32)
            )
            try:
                direction, _ = self.rule(seen, self.rule.init(len(mu)), rng.at(RULE))
            except Withheld:
                return 0.0
            return float(((direction - mu) * step).sum())

        return alike(mu + _farthest(moved, self.reach) * step, len(own))


def _long(p: Array, known: Array, mu: Array) -> Array:
    """p, rescaled to the distance of the farthest known update from their mean."""
    apart, length = float(lengths(known - mu).max()), float(np.sqrt(np.square(p).sum()))
    return p * ((apart or float(np.sqrt(np.square(mu).sum()))) / length) if length > 0.0 else p


def _farthest(moved: Callable[[float], float], reach: float) -> float:
    tried = [(moved(reach / 2**k), reach / 2**k) for k in range(HALVINGS + 1)]
    most, gamma = max(tried)  # of equal displacements, the largest gamma
    end = min(2.0 * gamma, reach)
    for _ in range(REFINEMENTS):
        middle = 0.5 * (gamma + end)
        if middle > gamma and (farther := moved(middle)) > most:
            most, gamma = farther, middle
        else:
            end = middle
    return gamma
