"""Mean reciprocal rank of the first relevant document."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.measures._at_rank import AtRank
from foltr.core import Array
from foltr.core.spec import measure
from foltr.core.world.measures import Lists, with_fields


@measure
@dataclass(frozen=True)
class RR(AtRank):
    """Return the reciprocal rank of the first relevant document, 0 if none is among the first k.

        RR@k = 1 / min {i <= k: r_i >= rel}

    Its mean over queries is MRR, and its column is called so. It is undefined for a query without
    a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees, TREC 1999."""

    k: int | None = 10
    rel: int = 1

    @property
    def name(self) -> str:
        return with_fields(self, "mrr")

    @property
    def label(self) -> str:
        return with_fields(self, "MRR")

    def of_lists(self, lists: Lists) -> Array:
        relevant = lists.grades[:, : self.k] >= self.rel
        value = np.where(relevant.any(axis=1), 1.0 / (1 + relevant.argmax(axis=1)), 0.0)
        return np.where(lists.best[:, 0] >= self.rel, value, np.nan)
