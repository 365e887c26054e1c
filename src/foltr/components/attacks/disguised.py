"""A disguise for attacks whose malicious clients would all send the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.attacks._crafting import mean
from foltr.components.attacks.little_is_enough import LittleIsEnough
from foltr.core import Array, Ask, ClickModel, Cohort
from foltr.errors import require
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack
from foltr.world.protocols import Attack


@attack
@dataclass(frozen=True)
class Disguised(ChangesMessages):
    """Malicious client i sends a_i + share (u_i - mean of the u_j), so that no two messages are
    equal.

    a_i is what `attack` makes it send, u_i what it would send honestly, and the mean is over the
    malicious clients. Together they pull as far as without the disguise; with share = 1 each
    message scatters as an honest one does. Most published attacks send equal copies, which is
    easily seen: a rule that looks for copies is to be tried with this. A single client has nothing
    to hide behind."""

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
