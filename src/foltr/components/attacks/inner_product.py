"""Inner product manipulation: the negated mean of honest updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.components.attacks._crafting import alike, known, mean
from foltr.core import Array, Ask, Cohort
from foltr.core.errors import require
from foltr.core.kinds import HasKnowledge
from foltr.core.seeds import Stream
from foltr.core.spec import attack


@attack
@dataclass(frozen=True)
class InnerProduct(HasKnowledge):
    """Send a negative multiple of the mean honest update, to turn the aggregate around.

        -scale x mean of the known updates

    A plain mean turns around if scale > (n - m) / m. Distance-based rules are deceived by small
    scales, at which the message is closer to most honest updates than these are to each other.

    Fields
        scale: factor of the negated mean (> 0)
        knowledge: 'all' (mean of the n - m honest updates) or 'own' (of the m own ones before the
            attack)

    Reference: Xie, Koyejo & Gupta, UAI 2019 (arXiv:1903.03936)."""

    scale: float = 0.5
    knowledge: Literal["own", "all"] = "all"

    def __post_init__(self) -> None:
        require(self.scale > 0.0, f"scale must be > 0, got {self.scale}")

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        return alike(
            -self.scale * mean(known(cohort, malicious, self.knowledge)), int(malicious.sum())
        )
