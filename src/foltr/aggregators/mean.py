"""Weighted mean, i.e. FedAvg (McMahan et al., AISTATS 2017; arXiv:1602.05629)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort, Memoryless
from foltr.spec import aggregator

CHUNK = 1 << 18  # numbers in float64 at a time: a million clients must not be copied whole


@aggregator
@dataclass(frozen=True)
class Mean(Memoryless):
    """sum_i n_i u_i / sum_i n_i: the updates u_i, each weighted by the n_i interactions behind it.

    Rows are added in order, in float64: the same bits whatever the number of threads (a matrix product promises none).
    """

    def combine(self, cohort: Cohort) -> Array:
        shares = cohort.weights / cohort.weights.sum()
        total = np.zeros(cohort.updates.shape[1])
        rows = max(1, CHUNK // len(total))
        for start in range(0, len(cohort), rows):
            part = slice(start, start + rows)
            total += (cohort.updates[part] * shares[part, None]).sum(axis=0)
        return total
