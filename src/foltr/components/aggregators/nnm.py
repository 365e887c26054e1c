"""Nearest-neighbour mixing in front of any rule (Allouah et al., AISTATS 2023;
arXiv:2302.01772)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import means_of_nearest
from foltr.components.aggregators.trimmed_mean import TrimmedMean
from foltr.core import Aggregator, Array, Cohort, Memory
from foltr.kinds import Assumes, InFront, NeedsMany
from foltr.seeds import Stream
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class NNM(Assumes, NeedsMany, InFront):
    """`rule` on updates that are first mixed with their nearest neighbours.

    Each update is replaced by the weighted mean of the n - m nearest to it, itself among them;
    `malicious` = m is how many attackers are assumed. Honest clients whose data differ come closer
    together, so that the rule no longer takes them for attackers. Of updates equally far the lower
    client id counts. Clients keep their weights."""

    rule: Aggregator = TrimmedMean()
    malicious: int = 1

    def __post_init__(self) -> None:
        Assumes.__post_init__(self)
        InFront.__post_init__(self)

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
