"""The quality of the lists that users are shown while the ranker learns."""

from __future__ import annotations

from dataclasses import dataclass

from foltr.core.spec import measure
from foltr.core.world.measures import OnlineMeasure, Round


@measure
@dataclass(frozen=True)
class OnlineNDCG(OnlineMeasure):
    """Return the mean over clients of the nDCG@10 of the lists that they were shown in a round.

    Queries without a relevant document count 0. Every run records it.

    Reference: Oosterhuis & de Rijke, CIKM 2018."""

    @property
    def name(self) -> str:
        return "online_ndcg@10"

    @property
    def label(self) -> str:
        return "online nDCG@10"

    def of_round(self, round: Round) -> float:
        seen = round.observed
        return float("nan") if seen is None or not len(seen.ndcg) else float(seen.ndcg.mean())
