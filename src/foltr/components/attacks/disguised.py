"""A disguise for attacks whose malicious clients all send the same message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.attacks._crafting import mean
from foltr.components.attacks.little_is_enough import LittleIsEnough
from foltr.core import Array, Ask, ClickModel, Cohort
from foltr.core.errors import require
from foltr.core.kinds import ChangesMessages
from foltr.core.seeds import Stream
from foltr.core.spec import attack
from foltr.core.world.protocols import Attack


@attack
@dataclass(frozen=True)
class Disguised(ChangesMessages):
    """Make the equal messages of another attack differ, as those of honest clients do.

        client i sends a_i + share (u_i - mean_j u_j)

    a_i is the message of `attack`, u_i the honest update of client i, and the mean is over the
    malicious clients. The deviations add up to 0, so the sum of the messages is that of `attack`.
    With share = 1 the messages scatter as honest updates do. Most published attacks send equal
    messages, which are easy to detect; a defence that detects copies should be tested with this
    attack. A single malicious client has no deviation: its message is unchanged.

    Fields
        attack: the attack whose messages are disguised (one that changes messages)
        share: multiple of the deviation that is added (> 0)

    Reference: a method of this project."""

    attack: Attack = LittleIsEnough()
    share: float = 1.0

    def __post_init__(self) -> None:
        name = type(self.attack).__name__
        require(self.attack.rewrites, f"{name} changes no messages: it needs no disguise")
        require(self.share > 0.0, f"share must be > 0, got {self.share}")

    @property
    def users(self) -> ClickModel | None:
        return self.attack.users

    @property
    def overhears(self) -> bool:
        return self.attack.overhears

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        alone = (
            "Disguised changes nothing: a single malicious client has no others to differ from",
        )
        return (*self.attack.fits(n, m), *(alone if m == 1 else ()))

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        own = cohort.updates[malicious].astype(np.float64)
        crafted = self.attack.craft(cohort, malicious, ask, rng)
        return (crafted + self.share * (own - mean(own))).astype(np.float32)
