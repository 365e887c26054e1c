"""Bucketing in front of any rule (Karimireddy, He & Jaggi, ICLR 2022; arXiv:2006.09365)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.cohorts import in_order
from foltr.components.aggregators.median import Median
from foltr.core import Aggregator, Array, Cohort, Memory
from foltr.errors import Mistake, require
from foltr.kinds import InFront
from foltr.seeds import Stream
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Bucketing(InFront):
    """`rule` on weighted means of clients that are thrown together at random.

    Buckets hold `size` clients each, the last one perhaps fewer, and weigh as much as their
    clients. Means of clients whose data differ lie closer together than the clients, so that the
    rule no longer takes them for attackers. But m malicious clients can be in m of only ceil(n /
    size) buckets: the `malicious` of the rule counts buckets."""

    rule: Aggregator = Median()
    size: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.size >= 1, f"size must be >= 1, got {self.size}")

    def fits(self, n: int) -> tuple[str, ...]:
        buckets = -(-n // self.size)
        told = f"{self!r} makes {buckets} buckets of {n} clients"
        try:
            notes = self.rule.fits(buckets)
        except Mistake as mistake:
            raise Mistake(f"{told}: {mistake}") from None
        return tuple(f"{told}: {note}" for note in notes)

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        cohort = in_order(cohort)
        shuffled = cohort.only(np.argsort(rng.words(len(cohort)), kind="stable"))
        starts = np.arange(0, len(cohort), self.size)
        weights = np.add.reduceat(shuffled.weights, starts)
        sums = np.add.reduceat(shuffled.updates * shuffled.weights[:, None], starts, axis=0)
        buckets = Cohort(
            np.arange(len(starts)), sums / weights[:, None], weights, trusted=cohort.trusted
        )
        return self.rule(buckets, memory, rng.at(0))
