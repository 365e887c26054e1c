"""The geometric median, RFA (Pillutla, Kakade & Harchaoui, IEEE Trans. Signal Processing 2022;
arXiv:1912.13445)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import in_order, weiszfeld
from foltr.core import Array, Cohort
from foltr.errors import require
from foltr.kinds import Memoryless
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class GeometricMedian(Memoryless):
    """The point of the least weighted distance to all updates.

    argmin_z sum_i n_i |u_i - z|, with the weights n_i of the clients, as in that paper. Smoothed
    Weiszfeld: z <- sum_i b_i u_i / sum_i b_i with b_i = n_i / max(`smoothing`, |u_i - z|), from
    the weighted median of each coordinate, `iterations` times or until a step is no longer than
    `smoothing` / 1000 (steps away from an update that is not the median begin small). The paper
    starts at the mean, which an attacker can put anywhere. Less than half of the weight cannot
    move it without bound."""

    iterations: int = 100
    smoothing: float = 1e-6

    def __post_init__(self) -> None:
        require(self.iterations >= 1, f"iterations must be >= 1, got {self.iterations}")
        require(self.smoothing > 0.0, f"smoothing must be > 0, got {self.smoothing}")

    def combine(self, cohort: Cohort) -> Array:
        cohort = in_order(cohort)
        return weiszfeld(cohort.updates, cohort.weights, self.smoothing, self.iterations)
