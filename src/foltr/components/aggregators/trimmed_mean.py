"""Coordinate-wise trimmed mean (Yin et al., ICML 2018; arXiv:1803.01498)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import sorted_columns
from foltr.core import Array, Cohort
from foltr.kinds import Assumes, Memoryless, NeedsMany
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class TrimmedMean(Assumes, NeedsMany, Memoryless):
    """Of each coordinate the mean without the m largest and the m smallest values, m =
    `malicious`.

    sum_{i = m + 1}^{n - m} u_(i)j / (n - 2m), where u_(i)j is the i-th smallest of coordinate j.
    Weights do not matter: values of different clients meet in every coordinate."""

    malicious: int = 1

    @property
    def fewest(self) -> tuple[int, str]:
        return 2 * self.malicious + 1, "n > 2m"

    def combine(self, cohort: Cohort) -> Array:
        n, m = len(self.arrived(cohort)), self.malicious
        return sorted_columns(cohort.updates)[m : n - m].sum(axis=0, dtype=np.float64) / (
            n - 2 * m
        )
