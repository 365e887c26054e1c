"""Weighted mean, i.e. FedAvg (McMahan et al., AISTATS 2017; arXiv:1602.05629)."""

from __future__ import annotations

from dataclasses import dataclass

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
        weights, updates = cohort.weights, cohort.updates
        rows = max(1, CHUNK // updates.shape[1])
        total = (updates[:rows] * weights[:rows, None]).sum(axis=0)
        for start in range(rows, len(cohort), rows):
            part = slice(start, start + rows)
            total += (updates[part] * weights[part, None]).sum(axis=0)
        return total / weights.sum()
