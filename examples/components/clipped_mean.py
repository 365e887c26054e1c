"""A mean of updates with limited length: the aggregator of docs/howto/aggregator.md."""

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort
from foltr.core.errors import require
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class ClippedMean(Memoryless):
    """The weighted mean of updates, none of them longer than `radius` times the median length.

        sum_i n_i c_i u_i / sum_i n_i,   c_i = min(1, radius m / |u_i|)

    n_i is the weight of client i, and m the median of all |u_j|.

    Fields
        radius: longest update that counts in full, as a multiple of the median length (> 0)
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        require(self.radius > 0.0, f"radius must be > 0, got {self.radius}")

    def combine(self, cohort: Cohort) -> Array:
        lengths = np.sqrt(np.square(cohort.updates, dtype=np.float64).sum(axis=1))  # (n,)
        limit = self.radius * np.median(lengths)
        shrink = np.minimum(1.0, limit / np.maximum(lengths, 1e-30))
        return np.einsum("n,nd->d", cohort.weights * shrink, cohort.updates) / cohort.weights.sum()
