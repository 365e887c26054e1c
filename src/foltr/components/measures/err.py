"""Expected reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.metrics import gains
from foltr.core.spec import measure
from foltr.core.world.measures import Lists, OfflineMeasure


@measure
@dataclass(frozen=True)
class ERR(OfflineMeasure):
    """Return the expected reciprocal rank of the document that satisfies a user who reads the list
    from the top.

        ERR@k = sum_{i=1..k} (1 / i) R_i prod_{j<i} (1 - R_j)
        R_i = (2^r_i - 1) / 2^g

    r_i is the label of the document at rank i, g the highest label. It is undefined for a query
    without a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        highest: The label g of a perfect document. None for the highest label of the data set.
            (gdeval of TREC always takes 4.)

    Reference: Chapelle, Metzler, Zhang & Grinspan, CIKM 2009."""

    k: int | None = 10
    highest: int | None = None

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")
        fits = self.highest is None or 1 <= self.highest <= 60
        require(fits, f"highest must be in 1 .. 60, or None, got {self.highest}")

    @property
    def depth(self) -> int | None:
        return self.k

    def of_lists(self, lists: Lists) -> Array:
        highest = lists.highest if self.highest is None else self.highest
        found = lists.best.max(initial=0)
        require(found <= highest, f"{self!r}: the data has the label {found}: set highest to it")
        satisfied = gains(np.maximum(lists.grades[:, : self.k], 0)) / 2.0**highest
        unsatisfied = np.cumprod(1.0 - satisfied, axis=1)
        before = np.hstack([np.ones((len(satisfied), 1)), unsatisfied[:, :-1]])
        value = (satisfied * before / np.arange(1, satisfied.shape[1] + 1)).sum(axis=1)
        return np.where(lists.best[:, 0] > 0, value, np.nan)
