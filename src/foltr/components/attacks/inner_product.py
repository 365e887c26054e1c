"""Inner product manipulation (Xie, Koyejo & Gupta, UAI 2019; arXiv:1903.03936)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.components.attacks._crafting import alike, known, mean
from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class InnerProduct(ChangesMessages):
    """Every malicious client sends -scale x the mean of honest updates, so that a rule's direction
    may point backwards.

    mean = sum over honest i of u_i / (n - m), or of the m updates that the malicious would send
    honestly with `knowledge='own'`. A plain mean turns round if scale > (n - m) / m;
    distance-based rules are fooled by small scales, at which the message is nearer to most honest
    updates than these are to each other."""

    scale: float = 0.5
    knowledge: Literal["own", "all"] = "all"

    def __post_init__(self) -> None:
        require(self.scale > 0.0, f"scale must be > 0, got {self.scale}")

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        return alike(
            -self.scale * mean(known(cohort, malicious, self.knowledge)), int(malicious.sum())
        )
