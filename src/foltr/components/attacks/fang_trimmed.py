"""Local model poisoning against trimmed mean and median (Fang, Cao, Jia & Gong, USENIX Security
2020; arXiv:1911.11815; thesis 5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.components.attacks._crafting import mean, others, spread
from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack

SPREADS = 3.0, 4.0  # how many standard deviations from the mean


@attack
@dataclass(frozen=True)
class FangTrimmed(ChangesMessages):
    """Every malicious client sends a model that lies just outside of the honest ones in each
    coordinate, on the side against which learning goes: s = -sign(mu - theta), with theta the
    server's model and mu the mean one before the attack. What is trimmed instead are honest values
    of that side.

    `knowledge='all'`: mu of all n clients; coordinate j of the sent model is drawn uniformly, with
    max and min over the honest models (not their updates), from
        [max, b max] if s_j = +1 and max > 0,      [max, max / b] if s_j = +1 and max <= 0,
        [min / b, min] if s_j = -1 and min > 0,    [b min, min] if s_j = -1 and min <= 0.
    `knowledge='own'`: from mu_j + [3, 4] sigma_j if s_j = +1, and mu_j - [3, 4] sigma_j if s_j =
    -1, with mu and sigma (as of a population) of the m own models before the attack. A single one
    has sigma = 0 and is sent as it is. Where s_j = 0 the model is theta_j. Each malicious client
    draws for itself."""

    knowledge: Literal["own", "all"] = "own"
    b: float = 2.0

    def __post_init__(self) -> None:
        require(self.b > 1.0, f"b must be > 1, got {self.b}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = self.knowledge == "own" and m == 1
        void = (
            "FangTrimmed is void: the one update that a single malicious client knows has no"
            " spread"
        )
        return (void,) if alone else ()

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
        """Both ends of what each coordinate of the update is drawn from."""
        outwards = -np.sign(mu) * spread(own, mu)
        return mu + SPREADS[0] * outwards, mu + SPREADS[1] * outwards

    def _of_all(
        self, cohort: Cohort, malicious: Array, mu: Array, theta: Array
    ) -> tuple[Array, Array]:
        honest = others(cohort, malicious)
        edge = theta + np.where(
            mu < 0.0, honest.max(axis=0), honest.min(axis=0)
        )  # the outermost honest model
        enlarge = (mu < 0.0) == (edge > 0.0)  # up from a positive edge, down from a negative one
        return edge - theta, edge * np.where(enlarge, self.b, 1.0 / self.b) - theta
