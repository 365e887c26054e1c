"""Retraining without the leaving clients."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearner
from foltr.core.world.protocols import Past, Phase, PlannedPhase


@unlearner
@dataclass(frozen=True)
class Retrain(UnlearnerDefaults):
    """Train again from the initial parameters, with all rounds, without the leaving clients.

    It is the exact reference for other unlearners: nothing of the leaving clients is left, at the
    cost of a whole training. The distance between two retrainings with different `luck` is the
    random variation that no unlearner can be expected to go below.

    Fields
        luck: number of the random draws (>= 0): retrainings with different numbers have different
            queries and clicks
    """

    luck: int = 0
    restarts = True

    def __post_init__(self) -> None:
        require(self.luck >= 0, f"luck must be >= 0, got {self.luck}")

    @property
    def repetition(self) -> int:
        return self.luck

    def start(self, past: Past) -> Array:
        return past.initial

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(past.rounds, past.sessions),)

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...]:
        return (PlannedPhase(rounds, sessions),)
