"""The coordinate-wise median."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Cohort
from foltr.core.cohorts import median
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Median(Memoryless):
    """Return the median of each coordinate (for an even n the mean of the middle two values).

        median_i u_ij   for each coordinate j

    It needs no assumed number of attackers: fewer than half of the clients cannot move a
    coordinate out of the range of the honest values. Client weights are ignored.

    Reference: Yin, Chen, Ramchandran & Bartlett, ICML 2018 (arXiv:1803.01498)."""

    def combine(self, cohort: Cohort) -> Array:
        return median(cohort.updates)
