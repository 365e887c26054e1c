"""What measures of the first k documents have in common, if a label decides what is relevant."""

from __future__ import annotations

from foltr.core.errors import require
from foltr.core.world.measures import OfflineMeasure


class AtRank(OfflineMeasure):
    """Base of measures with the fields `k` (None for the whole list) and `rel`, the lowest label
    that counts as relevant."""

    k: int | None
    rel: int

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")
        require(self.rel >= 1, f"rel must be >= 1, got {self.rel}")

    @property
    def relevant_from(self) -> int:  # type: ignore[override]
        return self.rel

    @property
    def depth(self) -> int | None:
        return self.k
