"""Multi-Krum: the mean of the updates with the nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import krum_scores_of, ranked, weighted_mean
from foltr.components.aggregators.krum import KrumBounds
from foltr.core import Array, Cohort
from foltr.kinds import Memoryless
from foltr.spec import aggregator


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
