"""The geometric median (robust federated averaging)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Cohort
from foltr.core.cohorts import in_order, weiszfeld
from foltr.core.errors import require
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class GeometricMedian(Memoryless):
    """Return the geometric median: the point with the least weighted distance to all updates.

        argmin_z sum_i w_i |u_i - z|

    with the client weights w_i. It is computed by smoothed Weiszfeld steps z <- sum_i b_i u_i /
    sum_i b_i with b_i = w_i / max(smoothing, |u_i - z|). The start is the weighted median of each
    coordinate; the paper starts at the mean, which a single attacker can move anywhere. Clients
    with less than half of the total weight cannot move the result without bound.

    Fields
        iterations: most Weiszfeld steps per round (>= 1); they end earlier when a step is no
            longer than smoothing / 1000
        smoothing: least distance used in b_i, in units of the updates (> 0)

    Reference: RFA; Pillutla, Kakade & Harchaoui, IEEE Trans. Signal Processing 2022
    (arXiv:1912.13445)."""

    iterations: int = 100
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        require(self.iterations >= 1, f"iterations must be >= 1, got {self.iterations}")
        require(self.smoothing > 0.0, f"smoothing must be > 0, got {self.smoothing}")

    def combine(self, cohort: Cohort) -> Array:
        cohort = in_order(cohort)
        return weiszfeld(cohort.updates, cohort.weights, self.smoothing, self.iterations)
