"""Precision at a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.measures._at_rank import AtRank
from foltr.core import Array
from foltr.core.spec import measure
from foltr.core.world.measures import Lists


@measure
@dataclass(frozen=True)
class P(AtRank):
    """Return the share of relevant documents among the first k.

        P@k = (number of i <= k with r_i >= rel) / k

    A list of fewer than k documents is divided by k all the same, as in trec_eval. Queries without
    a relevant document have no value (trec_eval counts them 0: set `empty` to zero).

    Fields
        k: How many documents from the top count.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int = 10
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        found = (lists.grades[:, : self.k] >= self.rel).sum(axis=1) / self.k
        return np.where(lists.best[:, 0] >= self.rel, found, np.nan)


# Recall at a rank.


@measure
@dataclass(frozen=True)
class R(AtRank):
    """Return the share of the relevant documents that are among the first k.

        R@k = (number of i <= k with r_i >= rel)
              / (number of documents with a label >= rel)

    It is undefined for a query without a relevant document.

    Fields
        k: How many documents from the top count.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int = 10
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        found = (lists.grades[:, : self.k] >= self.rel).sum(axis=1)
        there = (lists.best >= self.rel).sum(axis=1)
        return np.divide(found, there, out=np.full(len(found), np.nan), where=there > 0)
