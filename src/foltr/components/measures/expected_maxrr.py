"""Expected reciprocal rank of the first click."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.spec import measure
from foltr.core.world.measures import Lists, OfflineMeasure

DEPTH = 10  # of the tables of click probabilities


@measure
@dataclass(frozen=True)
class ExpectedMaxRR(OfflineMeasure):
    """Return the expected reciprocal rank of the users' first click among the first ten documents.

        sum_{i=1..10} (1 / i) c_i prod_{j<i} (1 - c_j)
        c_i = P(click | rank i, label r_i)

    What users do after their first click does not matter. With several click models, it is the
    mean over users. It is defined for every query, and unknown for click models that are not
    tables of probabilities.

    Reference: Kharitonov, WSDM 2019 (its reward, MaxRR)."""

    relevant_from = None

    @property
    def name(self) -> str:
        return "expected_maxrr"

    @property
    def label(self) -> str:
        return "expected MaxRR"

    @property
    def depth(self) -> int:
        return DEPTH

    def of_lists(self, lists: Lists) -> Array:
        grades = lists.grades[:, :DEPTH]
        if not lists.clicks:
            return np.full(len(grades), np.nan)
        ranks = np.arange(grades.shape[1])
        total = np.zeros(len(grades))
        for share, click in lists.clicks:
            p = np.where(grades >= 0, click[ranks, np.maximum(grades, 0)], 0.0)
            before = np.hstack([np.ones((len(p), 1)), np.cumprod(1.0 - p, axis=1)[:, :-1]])
            total += share * (p * before / (ranks + 1)).sum(axis=1)
        return total
