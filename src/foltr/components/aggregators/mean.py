"""The weighted mean of FedAvg."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Cohort
from foltr.core.cohorts import weighted_mean
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Mean(Memoryless):
    """Return the mean of the updates, weighted by the interactions behind each (FedAvg).

        sum_i w_i u_i / sum_i w_i

    Sums are float64 in a fixed order, so the result has the same bits for any number of threads.

    Reference: McMahan, Moore, Ramage, Hampson & Agüera y Arcas, AISTATS 2017
    (arXiv:1602.05629)."""

    looks_at = "mean"
    is_mean = True

    def combine(self, cohort: Cohort) -> Array:
        return weighted_mean(cohort.updates, cohort.weights)
