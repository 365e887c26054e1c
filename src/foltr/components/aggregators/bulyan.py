"""Bulyan: choose by Krum, then trim each coordinate (El Mhamdi, Guerraoui & Rouault, ICML 2018;
arXiv:1802.07927)."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.cohorts import bulyan_rows, mean_around_median
from foltr.core import Array, Cohort
from foltr.kinds import Assumes, Memoryless, NeedsMany
from foltr.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Bulyan(Assumes, NeedsMany, Memoryless):
    """Choose n - 2m clients by Krum, then average each coordinate around its median.

    Clients are chosen one by one: each time the one with the lowest Krum score among the r that
    are left, the sum of its squared distances to the r - m - 2 nearest. For the last few that
    leaves nobody: then the nearest one counts. Of equal scores the lower client id is chosen.
    Then, of each coordinate, the mean of the n - 4m chosen values nearest to their median, of
    equally near ones the lower. `malicious` = m is how many attackers are assumed. Weights do not
    matter."""

    malicious: int = 1

    @property
    def fewest(self) -> tuple[int, str]:
        return 4 * self.malicious + 3, "n >= 4m + 3"

    def combine(self, cohort: Cohort) -> Array:
        updates, m = self.arrived(cohort).updates, self.malicious
        chosen = bulyan_rows(updates, m, len(updates) - 2 * m)
        return mean_around_median(updates[chosen], len(updates) - 4 * m)
