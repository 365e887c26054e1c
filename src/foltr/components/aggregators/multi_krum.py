"""Multi-Krum: the mean of the updates that lie closest to their neighbours (Blanchard et al.,
NeurIPS 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import krum_scores_of, ranked, weighted_mean
from foltr.core import Array, Cohort
from foltr.kinds import Assumes, Memoryless, NeedsMany
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class MultiKrum(Assumes, NeedsMany, Memoryless):
    """Average the n - m clients whose updates lie closest to their neighbours.

    sum_{i in S} n_i u_i / sum_{i in S} n_i, where S are the n - m updates with the lowest Krum
    scores and n_i their weights; `malicious` = m is how many attackers are assumed. Scores as in
    Krum: sums of the n - m - 2 shortest distances, or of their squares (`squared`, the original
    paper). |S| = n - m as in the thesis (5.3.1), which averages them without weights: the same
    where these are equal. Equal scores go to the lower client id."""

    malicious: int = 1
    squared: bool = False

    @property
    def fewest(self) -> tuple[int, str]:
        return self.malicious + 3, "n > m + 2"

    def notes(self, n: int) -> tuple[str, ...]:
        m = self.malicious
        proof = f"Multi-Krum's proof needs n > 2m + 2 = {2 * m + 2}: here n = {n}, m = {m}"
        return (proof,) if n <= 2 * m + 2 else ()

    def combine(self, cohort: Cohort) -> Array:
        cohort, m = self.arrived(cohort), self.malicious
        scores = krum_scores_of(cohort.updates, len(cohort) - m - 2, self.squared)
        best = ranked(scores)[: len(cohort) - m]
        return weighted_mean(cohort.updates[best], cohort.weights[best])
