"""Mean average precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.measures._at_rank import AtRank
from foltr.core import Array
from foltr.core.spec import measure
from foltr.core.world.measures import Lists


@measure
@dataclass(frozen=True)
class MAP(AtRank):
    """Return the average precision: the mean over the relevant documents of the precision at their
    ranks.

        AP = sum_{i <= k, r_i >= rel} P@i / (number of documents with r >= rel)

    A relevant document after rank k counts 0. MAP is the mean of AP over queries. It is undefined
    for a query without a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int | None = None
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        relevant = lists.grades[:, : self.k] >= self.rel
        precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
        total, there = (relevant * precision).sum(axis=1), (lists.best >= self.rel).sum(axis=1)
        return np.divide(total, there, out=np.full(len(total), np.nan), where=there > 0)
