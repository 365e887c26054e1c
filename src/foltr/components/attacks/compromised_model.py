"""A compromised local model, used to make the effect of unlearning visible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Ask, Cohort
from foltr.core.errors import require
from foltr.core.kinds import ChangesMessages
from foltr.core.seeds import Stream
from foltr.core.spec import attack


@attack
@dataclass(frozen=True)
class CompromisedModel(ChangesMessages):
    """Send the negated local model, enlarged: a visible attack, to test unlearning.

        update = -z u - (z + 1) theta,   so that theta + update = -z (theta + u)

    theta is the server's model and u the honest update. The attack needs no knowledge of other
    clients and does not hide: its effect must be visible, so that one can see whether it is
    unlearned.

    Fields
        z: factor of the negated model (> 0; 2 in the paper)

    Reference: Wang, Liu & Zuccon, ECIR 2024."""

    z: float = 2.0

    overhears = False

    def __post_init__(self) -> None:
        require(self.z > 0.0, f"z must be > 0, got {self.z}")

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        sent = -self.z * cohort.updates[malicious].astype(np.float64) - (
            self.z + 1.0
        ) * ask.params.astype(np.float64)
        return sent.astype(np.float32)
