"""FedEraser (Liu, Ma, Yang, Wang & Liu, IWQoS 2021) as Wang, Liu & Zuccon brought it to online
learning to rank (ECIR 2024; thesis 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.cohorts import lengths
from foltr.core import Array
from foltr.errors import require
from foltr.kinds import Forgets
from foltr.spec import unlearner
from foltr.world.protocols import Past, Phase


@unlearner
@dataclass(frozen=True)
class FedEraser(Forgets):
    """Start again, one round for each stored one: as far as then, in the direction of now.

    From the initial parameters, in the round that stands for stored round s each remaining client
    of that round makes `sessions` searches instead of n and sends |stored_s| x new / |new| (L2
    norms) instead of its new update; the server does with them what it does in training. A new
    update of zero stays zero, a stored one of zero gives zero. A device needs only the norms of
    what it sent: four bytes for each stored round. Against retraining that is n / sessions x
    delta_t times fewer local steps and delta_t times fewer messages, delta_t being the
    experiment's `history`. What is left of those who left are the norms of others, which they had
    a part in."""

    sessions: int = 3
    restarts = True

    def __post_init__(self) -> None:
        require(self.sessions >= 1, f"sessions must be >= 1, got {self.sessions}")

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "norms"

    def fits(self, sessions: int) -> tuple[str, ...]:
        more = (
            f"sessions={self.sessions} is more than training's {sessions} in a round: take fewer"
        )
        require(self.sessions <= sessions, more)
        same = (
            f"{self!r} makes as many sessions in a round as training did: fewer save local steps"
        )
        return (same,) if self.sessions == sessions else ()

    def start(self, past: Past) -> Array:
        return past.initial

    def phases(self, past: Past) -> tuple[Phase, ...]:
        assert past.history is not None  # what it stores
        history, rows = past.history, past.history.with_any(past.remaining)

        def send(updates: Array, clients: Array, t: int) -> Array:
            return calibrated(updates, lengths(history.sent(int(rows[t]), clients)))

        return (Phase(len(rows), self.sessions, "stored", send),)


def calibrated(updates: Array, sizes: Array) -> Array:
    """Each row of `updates` (n, d) with the norm that `sizes` (n,) says; zero stays zero."""
    new = lengths(updates)
    unit = updates / np.where(new > 0.0, new, 1.0)[:, None]
    return (sizes[:, None] * unit).astype(np.float32)
