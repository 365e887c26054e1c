"""The coordinate-wise trimmed mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.cohorts import sorted_columns
from foltr.core.kinds import AssumesMalicious, Memoryless, NeedsMany
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class TrimmedMean(AssumesMalicious, NeedsMany, Memoryless):
    """Return the mean of each coordinate without its largest and smallest values.

        sum_{i = m + 1}^{n - m} u_(i)j / (n - 2m)
        u_(i)j = i-th smallest value of coordinate j

    Client weights are ignored.

    Fields
        malicious: values dropped at each end, the assumed number of malicious clients m (0 <= 2m <
            n)

    Reference: Yin, Chen, Ramchandran & Bartlett, ICML 2018 (arXiv:1803.01498)."""

    malicious: int = 1

    @property
    def fewest(self) -> tuple[int, str]:
        return 2 * self.malicious + 1, "n > 2m"

    def combine(self, cohort: Cohort) -> Array:
        n, m = len(self.arrived(cohort)), self.malicious
        return sorted_columns(cohort.updates)[m : n - m].sum(axis=0, dtype=np.float64) / (
            n - 2 * m
        )
