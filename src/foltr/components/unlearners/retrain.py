"""Retraining: what all unlearning is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array
from foltr.errors import require
from foltr.kinds import Forgets
from foltr.spec import unlearner
from foltr.world.protocols import Past, Phase


@unlearner
@dataclass(frozen=True)
class Retrain(Forgets):
    """Start again from the initial parameters, with all rounds and all sessions, without those who
    left.

    Nothing is stored and nothing is left of them, but it costs as much as training did. Another
    `luck` is another retraining of the same federation: how far the two are apart is what no
    unlearning can be asked to be nearer than."""

    luck: int = 0
    restarts = True

    def __post_init__(self) -> None:
        require(self.luck >= 0, f"luck must be >= 0, got {self.luck}")

    def start(self, past: Past) -> Array:
        return past.initial

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(past.rounds, past.sessions),)
