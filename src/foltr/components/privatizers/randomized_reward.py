"""Randomised response on rewards: the privatisation of FOLtR-ES (Kharitonov, WSDM 2019, section
3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.errors import require
from foltr.events import Event, RandomizedResponse, Setting
from foltr.kinds import Untouched
from foltr.seeds import Stream
from foltr.spec import privatizer


@privatizer
@dataclass(frozen=True)
class RandomizedReward(Untouched):
    """The reward of each search is told as it is with probability `p`, else as any of the other V
    - 1 values.

    It holds for every single search against everybody, the server included: no answer is more than
    p (V - 1) / (1 - p) times likelier after one search than after another, epsilon = ln of that
    (eq. 10). The told reward's mean is that of the true one, scaled by (p V - 1) / (V - 1) and
    shifted: hence p > 1 / V, or nothing could be learned."""

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
        least = (
            f"p must be above 1 / {values}, one of the {values} values that a reward can take, got"
            f" {self.p}"
        )
        require(self.p * values > 1.0, f"{least}: rewards would be told upside down")
        return (RandomizedResponse(p=self.p, values=setting.values, times=setting.sessions),)

    def nominal(self) -> str:
        return (
            "Kharitonov (2019), eq. 10: epsilon = ln(p (V - 1) / (1 - p)) for one search, p ="
            f" {self.p:g}"
        )
