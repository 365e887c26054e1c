"""FedRemove: subtraction of stored updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.kinds import UnlearnerDefaults
from foltr.core.spec import unlearner
from foltr.core.world.history import NOBODY
from foltr.core.world.protocols import Past, Phase, PlannedPhase


@unlearner
@dataclass(frozen=True)
class FedRemove(UnlearnerDefaults):
    """Subtract the stored updates of the leaving clients, then train on without them.

        start = final - lr sum_s r_s v_s
        v_s = sum_{c leaving} n_c u_{s,c} / sum_{c in round s} n_c

    u_{s,c} is the update of client c in stored round s, r_s the number of rounds from s to the
    next stored one, n_c the client's interactions, and lr the server's step size. It would be
    exact only if every round were stored and the other clients' updates did not depend on the
    model: they were computed from parameters that include the subtracted contributions.

    With a privatizer, it needs noise on each message: what it subtracts are single messages.

    Fields
        fine_tune: rounds of the remaining clients afterwards (>= 0)

    Reference: the first step of Wu, Zhu & Mitra, arXiv:2201.09441."""

    fine_tune: int = 100
    handed, subtracts = 1, True

    def __post_init__(self) -> None:
        require(self.fine_tune >= 0, f"fine_tune must be >= 0 rounds, got {self.fine_tune}")

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "updates"

    def start(self, past: Past) -> Array:
        assert past.history is not None  # because `stores` is not 'nothing'
        history, share = past.history, np.zeros(len(past.final))
        stand_for = history.stand_for
        for row in history.with_any(past.leaving).tolist():
            everybody, own = history.clients[row], history.took_part(row, past.leaving)
            whole = past.weights[everybody[everybody != NOBODY]].sum()
            sent = np.einsum("n,nd->d", past.weights[own], history.sent(row, own)) / whole
            share += stand_for[row] * sent
        return past.final - past.step * share

    def phases(self, past: Past) -> tuple[Phase, ...]:
        return (Phase(self.fine_tune, past.sessions),)

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...]:
        return (PlannedPhase(self.fine_tune, sessions),)
