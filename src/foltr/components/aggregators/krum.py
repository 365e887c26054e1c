"""Krum: follow the one update that lies closest to its neighbours (Blanchard et al., NeurIPS
2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import krum_scores_of
from foltr.core import Array, Cohort
from foltr.kinds import Assumes, Memoryless, NeedsMany
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Krum(Assumes, NeedsMany, Memoryless):
    """Follow the one client whose update lies closest to its neighbours.

    argmin_i s(i) with s(i) = sum of |u_i - u_j| over the n - m - 2 updates u_j nearest to u_i,
    where `malicious` = m is how many attackers are assumed. Distances are Euclidean as in the
    thesis (5.3.1); the original paper sums their squares: `squared`. Equal scores go to the lower
    client id. An update that is no number is infinitely far. Weights do not matter."""

    malicious: int = 1
    squared: bool = False

    @property
    def fewest(self) -> tuple[int, str]:
        return self.malicious + 3, "n > m + 2"

    def notes(self, n: int) -> tuple[str, ...]:
        m = self.malicious
        proof = f"Krum's proof needs n > 2m + 2 = {2 * m + 2}: here n = {n}, m = {m}"
        return (proof,) if n <= 2 * m + 2 else ()

    def combine(self, cohort: Cohort) -> Array:
        cohort = self.arrived(cohort)
        scores = krum_scores_of(cohort.updates, len(cohort) - self.malicious - 2, self.squared)
        return cohort.updates[scores.argmin()].astype(np.float64)
