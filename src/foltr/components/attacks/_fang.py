"""The base of the attacks of Fang et al. on Krum and on Multi-Krum."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from foltr.cohorts import check_pairs
from foltr.components.attacks._crafting import against_krum, alike
from foltr.core import Array, Ask, Cohort
from foltr.errors import require
from foltr.kinds import HasKnowledge
from foltr.seeds import Stream


@dataclass(frozen=True)
class AgainstKrum(HasKnowledge):
    """Every malicious client sends the model theta + lambda s. A subclass writes `multi` and
    `unsure`."""

    knowledge: Literal["own", "all"] = "own"
    squared: bool = False
    start: float = 1.0

    def __post_init__(self) -> None:
        require(self.start > 0.0, f"start must be > 0, got {self.start}")

    @property
    @abstractmethod
    def multi(self) -> bool:
        """True: Multi-Krum must select all crafted models. False: Krum must select one of them."""

    @abstractmethod
    def unsure(self, n: int, m: int) -> str | None:
        """Why own knowledge is too little to search lambda, or None: the note given with
        `fits`."""

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        require(
            n > 2 * m + 1,
            f"{type(self).__name__} needs n > 2m + 1 clients, got m = {m} malicious of n = {n}",
        )
        check_pairs(self, m if self.knowledge == "own" else n - m, 16)  # distances and their sums
        note = self.unsure(n, m) if self.knowledge == "own" else None
        return (
            ()
            if note is None
            else (f"{type(self).__name__} {note}: it sends the start unchanged",)
        )

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        signs, scale = against_krum(
            cohort, malicious, self.knowledge, self.multi, self.squared, self.start
        )
        return alike(scale * signs, int(malicious.sum()))
