"""Nearest-neighbour mixing in front of another aggregation rule."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.components.aggregators.trimmed_mean import TrimmedMean
from foltr.core import Aggregator, Array, Cohort, Memory
from foltr.core.cohorts import means_of_nearest
from foltr.core.kinds import AssumesMalicious, ComparesPairs, WrapsRule
from foltr.core.seeds import Stream
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class NNM(AssumesMalicious, ComparesPairs, WrapsRule):
    """Replace each update by the mean of its nearest neighbours, then apply another rule.

        rule(y_1, ..., y_n),   y_i = sum_{j in N(i)} w_j u_j / sum_{j in N(i)} w_j

    N(i) are the n - m updates nearest to u_i, itself included. Ties go to the lower client id.
    Clients keep their weights. Where honest clients hold different data, mixing brings their
    updates closer together, so `rule` rejects fewer of them. The proof needs n > 2m; fewer clients
    give a note. The distances of all pairs need 8 n^2 bytes of memory.

    Fields
        rule: the aggregator applied to the mixed updates; it must not remember single clients
        malicious: assumed number of malicious clients, m (0 <= m < n)

    Reference: Allouah, Farhadkhani, Guerraoui, Gupta, Pinot & Stephan, AISTATS 2023
    (arXiv:2302.01772)."""

    rule: Aggregator = TrimmedMean()
    malicious: int = 1

    def __post_init__(self) -> None:
        AssumesMalicious.__post_init__(self)
        WrapsRule.__post_init__(self)

    @property
    def fewest(self) -> tuple[int, str]:
        return self.malicious + 1, "n > m"

    def notes(self, n: int) -> tuple[str, ...]:
        m = self.malicious
        proof = f"NNM's proof needs n > 2m = {2 * m}: here n = {n}, m = {m}"
        return (*((proof,) if n <= 2 * m else ()), *self.rule.fits(n))

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        cohort = self.arrived(cohort)
        mixed = means_of_nearest(cohort.updates, cohort.weights, len(cohort) - self.malicious)
        return self.rule(cohort.sending(mixed), memory, rng)
