"""The rank of users' first clicks while the ranker learns."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core.spec import measure
from foltr.core.world.measures import OnlineMeasure, Round


@measure
@dataclass(frozen=True)
class MaxRR(OnlineMeasure):
    """Return the mean over clients of the reciprocal rank of the first click in the lists of a
    round, 0 without a click.

    Every run records it.

    Reference: Kharitonov, WSDM 2019."""

    @property
    def label(self) -> str:
        return "online MaxRR"

    def of_round(self, round: Round) -> float:
        seen = round.observed
        return float("nan") if seen is None or not len(seen.max_rr) else float(seen.max_rr.mean())
