"""Online performance: the discounted sum over rounds of what users were shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.metrics import discounted
from foltr.core.spec import measure
from foltr.core.world.measures import FinishedRun, RunMeasure


@measure
@dataclass(frozen=True)
class OnlinePerformance(RunMeasure):
    """Return the discounted sum over rounds of the online nDCG@10.

        sum_{t=1..T} gamma^(t - 1) nDCG_t,    gamma = 0.9995

    nDCG_t is the mean nDCG@10 over the clients of round t. Every run records it.

    Reference: Wang, PhD thesis 2024, section 2.1; Oosterhuis & de Rijke, CIKM 2018."""

    curve = "summed"

    @property
    def name(self) -> str:
        return "online"

    @property
    def label(self) -> str:
        return "online performance (discounted sum of nDCG@10)"

    def of_run(self, run: FinishedRun) -> float | None:
        value: float | None = run.final.get("online")
        return value

    def curve_of(self, run: FinishedRun) -> tuple[Array, Array]:
        rounds, values = run.curve("online_ndcg@10")
        return rounds, np.cumsum(discounted(values))
