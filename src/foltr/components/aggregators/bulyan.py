"""Bulyan: selection by Krum, then a trimmed mean of each coordinate."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core import Array, Cohort
from foltr.core.cohorts import bulyan_rows, mean_around_median
from foltr.core.kinds import AssumesMalicious, ComparesPairs, Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Bulyan(AssumesMalicious, ComparesPairs, Memoryless):
    """Select updates by repeated Krum, then average each coordinate around its median.

    With m assumed attackers, a set S of n - 2m updates is selected, one at a time:

        S <- S + argmin_i s(i),   s(i) = sum of |u_i - u_j|^2 over the
                                  max(1, r - m - 2) updates u_j nearest to u_i

    among the r updates that are left. Ties go to the lower client id. Then coordinate j is

        mean of the n - 4m values u_ij, i in S, nearest to median_{i in S} u_ij

    Of two equally near values the lower one is used. Client weights are ignored. The tables of all
    pairs need 20 n^2 bytes of memory.

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
