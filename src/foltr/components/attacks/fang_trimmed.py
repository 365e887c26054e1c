"""Local model poisoning against trimmed mean and median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import mean, others, spread
from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import HasKnowledge
from foltr.seeds import Stream
from foltr.spec import attack

SPREADS = 3.0, 4.0  # standard deviations from the mean, nearest and farthest


@attack
@dataclass(frozen=True)
class FangTrimmed(HasKnowledge):
    """Send models just outside the range of the honest ones, against the learning direction.

    The side is s = -sign(mu - theta), with theta the server's model and mu the mean model before
    the attack. The rule then trims honest values of that side. Each malicious client draws
    coordinate j of its model uniformly.

    knowledge='all' (mu over all n clients; max and min over the honest models, not their updates):
        s_j = +1:   [max, b max] if max > 0,   else [max, max / b]
        s_j = -1:   [min / b, min] if min > 0,   else [b min, min]
    knowledge='own' (mu and the standard deviation sigma of the m own models before the attack):
        s_j = +1:   mu_j + [3, 4] sigma_j
        s_j = -1:   mu_j - [3, 4] sigma_j
    Where s_j = 0, the model is theta_j. A single client with own knowledge has sigma = 0 and sends
    its honest model.

    Fields
        knowledge: 'own' (updates of malicious clients before the attack) or 'all' (those of all
            clients)
        b: largest factor by which the extreme honest value is exceeded, for knowledge='all' (> 1)

    Reference: Fang, Cao, Jia & Gong, USENIX Security 2020 (arXiv:1911.11815); in federated
    ranking: Wang & Zuccon, ICTIR 2023."""

    knowledge: Literal["own", "all"] = "own"
    b: float = 2.0

    def __post_init__(self) -> None:
        require(self.b > 1.0, f"b must be > 1, got {self.b}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = self.knowledge == "own" and m == 1
        none = (
            "FangTrimmed has no effect: a single malicious client knows one update, which has no"
            " spread"
        )
        return (none,) if alone else ()

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own, theta = cohort.updates[malicious], ask.params.astype(np.float64)
        mu = mean(own if self.knowledge == "own" else cohort.updates)
        near, far = (
            self._of_own(own, mu)
            if self.knowledge == "own"
            else self._of_all(cohort, malicious, mu, theta)
        )
        u = np.stack(
            [rng.at(int(client)).uniforms(len(mu)) for client in cohort.clients[malicious]]
        )
        sent: Array = np.where(mu == 0.0, 0.0, near + u * (far - near))
        return sent.astype(np.float32)

    def _of_own(self, own: Array, mu: Array) -> tuple[Array, Array]:
        """The interval that each coordinate of the update is drawn from, own knowledge: two ends
        (d,)."""
        outwards = -np.sign(mu) * spread(own, mu)
        return mu + SPREADS[0] * outwards, mu + SPREADS[1] * outwards

    def _of_all(
        self, cohort: Cohort, malicious: Array, mu: Array, theta: Array
    ) -> tuple[Array, Array]:
        honest = others(cohort, malicious)
        # the outermost honest value of each coordinate
        edge = theta + np.where(mu < 0.0, honest.max(axis=0), honest.min(axis=0))
        enlarge = (mu < 0.0) == (edge > 0.0)  # whether b x edge lies outside of the edge
        return edge - theta, edge * np.where(enlarge, self.b, 1.0 / self.b) - theta
