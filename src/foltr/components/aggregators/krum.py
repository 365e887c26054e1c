"""Krum: selection of the update with the nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.cohorts import krum_scores_of, ranked, weighted_mean
from foltr.core.kinds import AssumesMalicious, ComparesPairs, Memoryless
from foltr.core.spec import aggregator


class KrumBounds(AssumesMalicious, ComparesPairs):
    """How many clients Krum and Multi-Krum need to compute, and for their proof."""

    published_name = "Krum"

    @property
    def fewest(self) -> tuple[int, str]:
        return self.malicious + 3, "n > m + 2"

    def notes(self, n: int) -> tuple[str, ...]:
        m = self.malicious
        needs = f"{self.published_name}'s proof needs n > 2m + 2 = {2 * m + 2}"
        return (f"{needs}: here n = {n}, m = {m}",) if n <= 2 * m + 2 else ()


@aggregator
@dataclass(frozen=True)
class Krum(KrumBounds, Memoryless):
    """Return the single update with the smallest distances to its nearest neighbours.

        u_i with i = argmin_i s(i)
        s(i) = sum of |u_i - u_j| over the n - m - 2 updates u_j nearest to u_i

    Ties go to the lower client id. An update with a number that is not finite is infinitely far
    from all others. Client weights are ignored. The proof needs n > 2m + 2; fewer clients give a
    note. The distances of all pairs need 8 n^2 bytes of memory.

    Fields
        malicious: assumed number of malicious clients, m (0 <= m < n - 2)
        squared: sum squared distances as in the original paper; False as in Wang (PhD thesis 2024,
            5.3.1)

    Reference: Blanchard, El Mhamdi, Guerraoui & Stainer, NeurIPS 2017."""

    malicious: int = 1
    squared: bool = False

    def combine(self, cohort: Cohort) -> Array:
        cohort = self.arrived(cohort)
        scores = krum_scores_of(cohort.updates, len(cohort) - self.malicious - 2, self.squared)
        return cohort.updates[scores.argmin()].astype(np.float64)


# Multi-Krum: the mean of the updates with the nearest neighbours.


@aggregator
@dataclass(frozen=True)
class MultiKrum(KrumBounds, Memoryless):
    """Return the weighted mean of the updates with the lowest Krum scores.

        sum_{i in S} w_i u_i / sum_{i in S} w_i
        S = the n - m updates with the lowest s(i)

    s(i) is the sum of the n - m - 2 smallest distances of u_i to other updates, as in `Krum`. Ties
    go to the lower client id. |S| = n - m as in Wang (PhD thesis 2024, 5.3.1), which averages
    without weights: the same where all clients have equal weights. The proof needs n > 2m + 2;
    fewer clients give a note. The distances of all pairs need 8 n^2 bytes of memory.

    Fields
        malicious: assumed number of malicious clients, m (0 <= m < n - 2)
        squared: sum squared distances, as in the original paper

    Reference: Blanchard, El Mhamdi, Guerraoui & Stainer, NeurIPS 2017."""

    malicious: int = 1
    squared: bool = False

    published_name = "Multi-Krum"

    def combine(self, cohort: Cohort) -> Array:
        cohort, m = self.arrived(cohort), self.malicious
        scores = krum_scores_of(cohort.updates, len(cohort) - m - 2, self.squared)
        best = ranked(scores)[: len(cohort) - m]
        return weighted_mean(cohort.updates[best], cohort.weights[best])
