"""Weighted mean, i.e. FedAvg (McMahan et al., AISTATS 2017; arXiv:1602.05629)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import weighted_mean
from foltr.core import Array, Cohort
from foltr.kinds import Memoryless
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Mean(Memoryless):
    """sum_i n_i u_i / sum_i n_i: the updates u_i, each weighted by the n_i interactions behind it.

    Summed in float64 by a plain loop: the same bits whatever the number of threads (a matrix
    product promises none)."""

    looks_at = "mean"
    is_mean = True

    def combine(self, cohort: Cohort) -> Array:
        return weighted_mean(cohort.updates, cohort.weights)
