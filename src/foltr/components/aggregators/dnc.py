"""Divide and Conquer: outlier removal along the principal direction of the updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort, Memory, Withheld
from foltr.core.cohorts import outlier_scores, ranked, weighted_mean
from foltr.core.errors import require
from foltr.core.kinds import AssumesMalicious, NeedsMany, Remembering
from foltr.core.seeds import Stream
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class DnC(AssumesMalicious, NeedsMany, Remembering):
    """Drop the updates that deviate most along the principal direction, and average the others.

        sum_{i in S} w_i u_i / sum_{i in S} w_i
        S = the clients that no iteration marks

    Each iteration draws some coordinates, computes the top right singular vector v of the updates
    minus their mean c on these coordinates, and marks the ceil(strictness x m) clients with the
    largest

        s(i) = (v . (u_i - c))^2

    v is found by conjugate gradients from a random start. Updates with numbers that are not finite
    are dropped beforehand.

    Fields
        malicious: assumed number of malicious clients, m (>= 0; the paper assumes 2m < n)
        strictness: clients dropped per iteration, as a multiple of m (> 0; `c` in the paper)
        coordinates: most coordinates used per iteration, drawn at random (>= 1; `b` in the paper)
        iterations: independent draws of coordinates (>= 1; iterations x ceil(strictness x m) < n)

    Reference: Shejwalkar & Houmansadr, NDSS 2021."""

    malicious: int = 1
    strictness: float = 1.0
    coordinates: int = 10_000
    iterations: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.strictness > 0.0, f"strictness must be > 0, got {self.strictness}")
        require(self.coordinates >= 1, f"coordinates must be >= 1, got {self.coordinates}")
        require(self.iterations >= 1, f"iterations must be >= 1, got {self.iterations}")

    @property
    def dropped(self) -> int:
        return math.ceil(self.strictness * self.malicious)

    @property
    def fewest(self) -> tuple[int, str]:
        return self.dropped * self.iterations + 1, "n > iterations x ceil(strictness x m)"

    def notes(self, n: int) -> tuple[str, ...]:
        m = self.malicious
        return (f"DnC assumes n > 2m = {2 * m}: here n = {n}, m = {m}",) if n <= 2 * m else ()

    def init(self, dim: int) -> Memory:
        return ()

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        cohort = self.arrived(cohort)
        cohort = cohort.only(np.isfinite(cohort.updates).all(axis=1))
        n, d = cohort.updates.shape
        kept = np.ones(n, bool)
        for i in range(self.iterations):
            draws = rng.at(i)
            some = draws.sample(d, self.coordinates) if d > self.coordinates else slice(None)
            scores = outlier_scores(cohort.updates[:, some], draws)
            kept[ranked(scores)[max(0, n - self.dropped) :]] = False
        if not kept.any():
            raise Withheld(f"{self!r} kept none of {n} updates")
        return weighted_mean(cohort.updates[kept], cohort.weights[kept]), memory
