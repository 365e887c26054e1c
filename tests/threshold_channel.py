"""A channel of tests: all messages or none."""

from dataclasses import dataclass

import numpy as np

from foltr.core import Cohort, Withheld


@dataclass(frozen=True)
class AllOrNothing:
    """A channel that releases the mean if at least `least` messages arrived."""

    least: int = 20

    step = 0.0

    def withstands(self, asked):
        return None

    def fewest(self, asked):
        return self.least

    def carry(self, cohort, ask, rng):
        if len(cohort) < self.least:
            raise Withheld
        return Cohort(
            np.array([-1]),
            cohort.updates.mean(axis=0, keepdims=True),
            cohort.weights.sum(keepdims=True),
        )
