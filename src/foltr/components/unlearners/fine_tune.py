"""Fine-tuning: those who remain go on, and hope that what they do not confirm is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.errors import require
from foltr.kinds import Forgets
from foltr.spec import unlearner
from foltr.world.protocols import Past, Phase


@unlearner
@dataclass(frozen=True)
class FineTune(Forgets):
    """Go on from the final parameters for some `rounds` without those who left.

    The cheapest rival, and no unlearning by itself: nothing takes their contributions out.
    """

    rounds: int = 100

    def __post_init__(self) -> None:
        require(self.rounds >= 1, f"rounds must be >= 1, got {self.rounds}")

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(self.rounds, past.sessions),)
