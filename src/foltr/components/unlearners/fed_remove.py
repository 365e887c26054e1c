"""Removing stored updates, as the first step of Wu, Zhu & Mitra (arXiv:2201.09441) does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.kinds import Forgets
from foltr.spec import unlearner
from foltr.world.history import NOBODY
from foltr.world.protocols import Past, Phase


@unlearner
@dataclass(frozen=True)
class FedRemove(Forgets):
    """Subtract what the leaving clients have contributed, then let the others go on for
    `fine_tune` rounds.

    start = final - lr sum_s r_s sum_{c leaving} n_c u_{s,c} / sum_{c in round s} n_c: u_{s,c} is
    what client c sent in stored round s, which stands for the r_s rounds until the next one, n_c
    its interactions, lr the server's. It is exact only where all rounds are stored and nobody
    reacted to anybody: what the others learned was learned from parameters with those
    contributions in them."""

    fine_tune: int = 100
    handed, subtracts = 1, True

    def __post_init__(self) -> None:
        require(self.fine_tune >= 0, f"fine_tune must be >= 0 rounds, got {self.fine_tune}")

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "updates"

    def start(self, past: Past) -> Array:
        assert past.history is not None  # what it stores
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
