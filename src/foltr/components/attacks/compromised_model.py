"""A compromised local model (Wang, Liu & Zuccon, ECIR 2024), made to show whether a client is
unlearned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class CompromisedModel(ChangesMessages):
    """A malicious client sends -z times its local model: the update -z u - (z + 1) theta.

    theta is the server's model and u the honest update, so that theta + (-z u - (z + 1) theta) =
    -z (theta + u). It does not hide, and needs no knowledge of other clients."""

    z: float = 2.0

    overhears = False

    def __post_init__(self) -> None:
        require(self.z > 0.0, f"z must be > 0, got {self.z}")

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        sent = -self.z * cohort.updates[malicious].astype(np.float64) - (
            self.z + 1.0
        ) * ask.params.astype(np.float64)
        return sent.astype(np.float32)
