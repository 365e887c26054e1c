"""FedEraser for online learning to rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.cohorts import lengths
from foltr.core.errors import require
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearner
from foltr.core.world.protocols import Past, Phase, PlannedPhase


@unlearner
@dataclass(frozen=True)
class FedEraser(UnlearnerDefaults):
    """Retrain in fewer rounds and searches, rescaling new updates to the norms of stored ones.

    Unlearning starts from the initial parameters and makes one round for each stored round s. Each
    remaining client of round s makes `sessions` searches from the current parameters and sends
        |stored_s| x new / |new|     (L2 norms)
    instead of its new update. The server aggregates them as in training. A new or stored update of
    zero gives zero. A device needs only the norms of its stored updates: four bytes per stored
    round. With n searches per round in training and every delta_t-th round stored (`history` of
    the experiment), unlearning has (n / sessions) x delta_t times fewer local steps and delta_t
    times fewer messages than retraining. One influence of the leaving clients remains: the stored
    norms of the others, which were computed with them.

    With a privatizer, a device rescales the message with its noise to the norm of a message that
    it has sent with noise. Of noise on each message, this reveals nothing more. A server that adds
    noise clips what it gets after the rescaling. Shares of noise would no longer add up to the
    noise of a sum, so that they are refused.

    Fields
        sessions: searches per client and round of unlearning (1 .. those of training)

    Reference: Liu, Ma, Yang, Wang & Liu, IWQoS 2021; for online learning to rank: Wang, Liu &
    Zuccon, ECIR 2024."""

    sessions: int = 3
    restarts = True

    def __post_init__(self) -> None:
        require(self.sessions >= 1, f"sessions must be >= 1, got {self.sessions}")

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "norms"

    def fits(self, sessions: int) -> tuple[str, ...]:
        more = f"sessions={self.sessions} is more than training's {sessions} per round: use fewer"
        require(self.sessions <= sessions, more)
        same = (
            f"{self!r} makes as many sessions per round as training: fewer would save local steps"
        )
        return (same,) if self.sessions == sessions else ()

    def start(self, past: Past) -> Array:
        return past.initial

    def phases(self, past: Past) -> tuple[Phase, ...]:
        assert past.history is not None  # because `stores` is not 'nothing'
        history, rows = past.history, past.history.with_any(past.remaining)

        def send(updates: Array, clients: Array, t: int) -> Array:
            return calibrated(updates, lengths(history.sent(int(rows[t]), clients)))

        return (Phase(len(rows), self.sessions, "stored", send),)

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...]:
        return (PlannedPhase(stored, self.sessions, "stored", changed=True),)


def calibrated(updates: Array, sizes: Array) -> Array:
    """Each row of `updates` (n, d) rescaled to the norm in `sizes` (n,); zero rows stay zero."""
    new = lengths(updates)
    unit = updates / np.where(new > 0.0, new, 1.0)[:, None]
    return (sizes[:, None] * unit).astype(np.float32)
