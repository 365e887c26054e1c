"""Coordinate-wise median (Yin et al., ICML 2018; arXiv:1803.01498)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import middle
from foltr.core import Array, Cohort
from foltr.kinds import Memoryless
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Median(Memoryless):
    """Of each coordinate the median, for an even number of clients the mean of the two in the
    middle.

    It needs no assumed number of attackers: fewer than half of the clients cannot move a
    coordinate out of the range of the others. Weights do not matter."""

    def combine(self, cohort: Cohort) -> Array:
        return middle(cohort.updates)
