"""Fine-tuning without the leaving clients."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core.errors import require
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearner
from foltr.core.world.protocols import Past, Phase, PlannedPhase


@unlearner
@dataclass(frozen=True)
class FineTune(UnlearnerDefaults):
    """Continue training from the final parameters without the leaving clients.

    It is the cheapest comparison and no unlearning by itself: nothing removes their contributions.

    Fields
        rounds: rounds of the remaining clients (>= 1)
    """

    rounds: int = 100

    def __post_init__(self) -> None:
        require(self.rounds >= 1, f"rounds must be >= 1, got {self.rounds}")

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(self.rounds, past.sessions),)

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...]:
        return (PlannedPhase(self.rounds, sessions),)
