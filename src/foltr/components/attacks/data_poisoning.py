"""Data poisoning: malicious clients click on documents that are not relevant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.core import Array, Ask, ClickModel, Cohort
from foltr.core.seeds import Stream
from foltr.core.spec import attack, click_models


@attack
@dataclass(frozen=True)
class DataPoisoning:
    """Let malicious clients click on documents that are not relevant, and send what they learn.

        u_i, learned from clicks of the click model `clicks`

    The users of malicious clients follow another click model. Their updates are computed honestly
    from these clicks and sent unchanged. The attack needs no knowledge of other clients or of the
    aggregation rule.

    Fields
        clicks: click model of malicious users. 'poison' is Cascade(kind='poison'): P(click |
            grade) of the perfect user with the grades reversed, without stops

    Reference: Wang & Zuccon, ICTIR 2023, after label flipping (Tolpegin et al., ESORICS 2020;
    arXiv:2007.08432)."""

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
