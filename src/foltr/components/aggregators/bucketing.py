"""Bucketing in front of another aggregation rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.components.aggregators.median import Median
from foltr.core import Aggregator, Array, Cohort, Memory
from foltr.core.cohorts import in_order
from foltr.core.errors import Mistake, require
from foltr.core.kinds import WrapsRule
from foltr.core.seeds import Stream
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Bucketing(WrapsRule):
    """Average random groups of clients, then apply another rule to the group means.

        rule(y_1, ..., y_B),   y_b = sum_{i in b} w_i u_i / sum_{i in b} w_i

    The n clients are shuffled and cut into B = ceil(n / size) buckets. The weight of a bucket is
    the sum of the weights of its clients. Where clients hold different data, bucket means lie
    closer together than single updates, so `rule` rejects fewer honest clients. m malicious
    clients can spoil m buckets: `malicious` of the inner rule counts buckets, not clients.

    Fields
        rule: the aggregator applied to the bucket means; it must not remember single clients
        size: clients per bucket (>= 1; the last bucket may have fewer; 1 changes nothing)

    Reference: Karimireddy, He & Jaggi, ICLR 2022 (arXiv:2006.09365)."""

    rule: Aggregator = Median()
    size: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.size >= 1, f"size must be >= 1, got {self.size}")

    def fits(self, n: int) -> tuple[str, ...]:
        buckets = -(-n // self.size)
        made = f"{self!r} makes {buckets} buckets of {n} clients"
        try:
            notes = self.rule.fits(buckets)
        except Mistake as mistake:
            raise Mistake(f"{made}: {mistake}") from None
        return tuple(f"{made}: {note}" for note in notes)

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
