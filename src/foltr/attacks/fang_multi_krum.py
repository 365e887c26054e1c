"""Local model poisoning against Multi-Krum (Fang, Cao, Jia & Gong, USENIX Security 2020; thesis 5.2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.core import Array, Cohort, require
from foltr.crafting import against_krum, alike
from foltr.kinds import ChangesMessages
from foltr.seeds import Stream
from foltr.spec import attack


@attack
@dataclass(frozen=True)
class FangMultiKrum(ChangesMessages):
    """`FangKrum`, but lambda is halved until all crafted models are among those that Multi-Krum averages.

    Multi-Krum is taken to average the n - m models with the best scores. With `knowledge='own'` these are m of m + c
    models, of which c are crafted, and all of them must be crafted where c > m. Everything else is as in `FangKrum`,
    the start of lambda too: with `knowledge='all'` that is the bound for Krum.
    """

    knowledge: Literal["own", "all"] = "own"
    squared: bool = False
    start: float = 1.0

    def __post_init__(self) -> None:
        require(self.start > 0.0, f"start must be > 0, got {self.start}")

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        require(n > 2 * m + 1, f"FangMultiKrum needs n > 2m + 1 clients, got m = {m} malicious of n = {n}")
        alone = self.knowledge == "own" and m == 1
        unsure = "FangMultiKrum cannot tell from its one update whether it is picked: it sends the start as it is"
        return (unsure,) if alone else ()

    def craft(self, cohort: Cohort, malicious: Array, params: Array, rng: Stream) -> Array:
        signs, scale = against_krum(cohort, malicious, self.knowledge, True, self.squared, self.start)
        return alike(scale * signs, int(malicious.sum()))
