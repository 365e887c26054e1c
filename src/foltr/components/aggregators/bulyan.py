"""Bulyan: selection by Krum, then a trimmed mean of each coordinate."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import bulyan_rows, mean_around_median
from foltr.core import Array, Cohort
from foltr.kinds import AssumesMalicious, ComparesPairs, Memoryless
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Bulyan(AssumesMalicious, ComparesPairs, Memoryless):
    """Select updates by repeated Krum, then average each coordinate around its median.

    With m assumed attackers, n - 2m updates are selected, one at a time. Each time it is the one
    with the lowest Krum score among the r updates left: the sum of its squared distances to the r
    - m - 2 nearest others (to the nearest one, where r - m - 2 < 1). Ties go to the lower client
    id. Then each coordinate is the mean of the n - 4m selected values nearest to their median; of
    two equally near values the lower one is used. Client weights are ignored.

    Fields
        malicious: assumed number of malicious clients, m (0 <= 4m <= n - 3)

    Reference: El Mhamdi, Guerraoui & Rouault, ICML 2018 (arXiv:1802.07927)."""

    malicious: int = 1

    bytes_per_pair = 20  # a distance, and two tables of ranks

    @property
    def fewest(self) -> tuple[int, str]:
        return 4 * self.malicious + 3, "n >= 4m + 3"

    def combine(self, cohort: Cohort) -> Array:
        updates, m = self.arrived(cohort).updates, self.malicious
        chosen = bulyan_rows(updates, m, len(updates) - 2 * m)
        return mean_around_median(updates[chosen], len(updates) - 4 * m)
