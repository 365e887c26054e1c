"""Randomised response on the rewards of FOLtR-ES."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core.errors import require
from foltr.core.events import Event, RandomizedResponse, Setting
from foltr.core.kinds import PrivatizerDefaults
from foltr.core.seeds import Stream
from foltr.core.spec import privatizer


@privatizer
@dataclass(frozen=True)
class RandomizedReward(PrivatizerDefaults):
    """Replace each search's reward by a random other value with probability 1 - p.

        P(sent | true) = p if sent = true, else (1 - p) / (V - 1)
        epsilon = ln(p (V - 1) / (1 - p))

    V is the number of values that a reward can take. Every search is epsilon-private against
    everybody, the server included. The expected value is the true one times (p V - 1) / (V - 1)
    plus a constant.

    Fields
        p: probability of the true value (1 / V < p <= 1; 1 gives no privacy)

    Reference: Kharitonov, WSDM 2019, section 3.3, equation 10."""

    p: float

    acts_on = "rewards"

    def __post_init__(self) -> None:
        require(0.0 < self.p <= 1.0, f"p is a probability in (1 / V, 1], got {self.p}")

    def on_reward(self, which: int, values: int, rng: Stream) -> int:
        if rng.uniform() < self.p:
            return which
        other = rng.integer(values - 1)
        return other + (other >= which)

    def events(self, setting: Setting) -> tuple[Event, ...]:
        values = setting.values
        least = f"p must be above 1 / {values}, as rewards take {values} values, got {self.p}"
        require(self.p * values > 1.0, f"{least}: the true value would not be the likeliest")
        return (RandomizedResponse(p=self.p, values=setting.values, times=setting.sessions),)

    def nominal(self) -> str:
        return (
            "Kharitonov (2019), eq. 10: epsilon = ln(p (V - 1) / (1 - p)) for one search, p ="
            f" {self.p:g}"
        )
