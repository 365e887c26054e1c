"""The attack tailored to a known rule (Shejwalkar & Houmansadr, NDSS 2021: AGR-tailored, of the
DYN-OPT family)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.cohorts import lengths
from foltr.components.attacks._crafting import alike, away, known, mean, spread
from foltr.core import Aggregator, Array, Ask, Cohort, Withheld
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack

HALVINGS, REFINEMENTS = 9, 4
STAND_INS, RULE = 0, 1  # addresses below the round's


@attack
@dataclass(frozen=True)
class Tailored(ChangesMessages):
    """Every malicious client sends mu + gamma p, with the gamma that moves the known `rule`
    farthest along p.

    It maximises <rule(m copies of mu + gamma p, and the n - m honest updates) - mu, p>, with mu
    the mean of these updates and p as in `MinMax`, but as long as the longest u_i - mu (as mu, if
    they agree). gamma is one of reach, reach / 2, ..., reach / 2^9; then the best one is enlarged
    by four bisections towards its double, because a rule follows until it notices.

    The paper takes the largest gamma with which a rule is deceived, and says for each rule what
    that is: Krum must select a crafted update. Here one measure serves all rules. Not |rule - mu|:
    with that, an honest update that Krum selects far from mu would count as success.

    The rule is called as in its first round: `rule.init(d)` is its memory, and the mean of the
    known updates stands for the server's trusted one. With `knowledge='own'` mu is the mean of the
    m own updates before the attack, and honest updates that are not known are replaced by normal
    draws with the mean and the spread of these."""

    rule: Aggregator
    direction: Literal["std", "unit", "sign"] = "std"
    knowledge: Literal["own", "all"] = "all"
    reach: float = 16.0

    def __post_init__(self) -> None:
        require(self.reach > 0.0, f"reach must be > 0, got {self.reach}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        self.rule.fits(n)  # refuses; what it remarks on is said of the defence, if it is the same
        if self.knowledge == "all" or m > 1:
            return ()
        void = (
            "Tailored is void: the one update that a single malicious client knows has no spread"
        )
        return (
            void
            if self.direction == "std"
            else "Tailored takes all clients for equal to the one that it knows",
        )

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
    """p, as long as the farthest known update is away from their mean."""
    apart, length = float(lengths(known - mu).max()), float(np.sqrt(np.square(p).sum()))
    return p * ((apart or float(np.sqrt(np.square(mu).sum()))) / length) if length > 0.0 else p


def _farthest(moved: Callable[[float], float], reach: float) -> float:
    tried = [(moved(reach / 2**k), reach / 2**k) for k in range(HALVINGS + 1)]
    most, gamma = max(tried)  # of equals the largest
    end = min(2.0 * gamma, reach)
    for _ in range(REFINEMENTS):
        middle = 0.5 * (gamma + end)
        if middle > gamma and (farther := moved(middle)) > most:
            most, gamma = farther, middle
        else:
            end = middle
    return gamma
