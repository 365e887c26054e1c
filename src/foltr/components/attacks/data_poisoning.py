"""Data poisoning of click feedback (Wang & Zuccon, ICTIR 2023; thesis 5.2.2), after label flipping
(Tolpegin et al., ESORICS 2020; arXiv:2007.08432)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.core import Array, Ask, ClickModel, Cohort
from foltr.seeds import Stream
from foltr.spec import attack, click_models


@attack
@dataclass(frozen=True)
class DataPoisoning:
    """Users of malicious clients click on what is not relevant; what their devices learn from it
    is sent as it is.

    `clicks='poison'` is `Cascade(kind='poison')`: P(click | grade) of the perfect user with the
    grades in reverse, and no stops. Any other click model can be given. Knows neither other
    clients nor the rule."""

    clicks: Literal["poison"] | ClickModel = "poison"

    rewrites, overhears = False, False

    @property
    def users(self) -> ClickModel:
        if self.clicks == "poison":
            built: ClickModel = click_models.build("Cascade(kind='poison')")
            return built
        return self.clicks

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        return ()

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        return cohort.updates[malicious]
