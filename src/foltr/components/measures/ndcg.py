"""Normalised discounted cumulative gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.metrics import discounts, gains
from foltr.core.spec import measure
from foltr.core.world.measures import Lists, OfflineMeasure, with_fields


@measure
@dataclass(frozen=True)
class nDCG(OfflineMeasure):
    """Return the discounted cumulative gain of a list, divided by that of the best list.

        DCG@k = sum_{i=1..k} (2^r_i - 1) / log2(i + 1)
        nDCG@k = DCG@k / max DCG@k

    r_i is the label of the document at rank i. The maximum is over all documents of the query. It
    is undefined for a query without a relevant document.

    Fields
        k: How many documents from the top count. None for all.

    Reference: Järvelin & Kekäläinen, ACM Transactions on Information Systems, 2002; with the gain
    2^r - 1 of Burges et al., ICML 2005."""

    k: int | None = 10

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")

    @property
    def label(self) -> str:
        return with_fields(self, "nDCG")

    @property
    def depth(self) -> int | None:
        return self.k

    def of_lists(self, lists: Lists) -> Array:
        ideal = _dcg(lists.best[:, : self.k])
        undefined = np.full(len(ideal), np.nan)
        shown = _dcg(lists.grades[:, : self.k])
        return np.divide(shown, ideal, out=undefined, where=ideal > 0.0)


def _dcg(grades: Array) -> Array:
    """The DCG of each row; -1 is no document."""
    value: Array = gains(np.maximum(grades, 0)) @ discounts(grades.shape[1])
    return value
