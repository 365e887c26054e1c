"""Measures of a whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@measure
@dataclass(frozen=True)
class RoundsTo(RunMeasure):
    """Return the first evaluated round in which a curve is at least as high as a level.

        min {t: m_t >= level}

    A run that never reaches the level has no value: look at how many runs a mean is over.

    Fields
        level: The level to reach.
        of: The curve: a column of metrics.csv."""

    level: float
    of: str = "ndcg@10"

    higher_is_better = False

    @property
    def name(self) -> str:
        return f"rounds_to_{self.level:g}" + ("" if self.of == "ndcg@10" else f"_{self.of}")

    @property
    def label(self) -> str:
        return f"rounds until {self.of} is {self.level:g}"

    def of_run(self, run: FinishedRun) -> float | None:
        rounds, values = run.curve(self.of)
        reached = np.flatnonzero(values >= self.level)
        if not len(reached) or np.isnan(values[: reached[0]]).any():
            return None  # never, or perhaps in a round in which it was not recorded
        return float(rounds[reached[0]])


@measure
@dataclass(frozen=True)
class Epsilon(RunMeasure):
    """Return the epsilon of differential privacy that the ledger of a run states.

    A run without a guarantee, or with an infinite epsilon, has no value.

    Fields
        unit: What is protected: one search, all searches of a client in a round, or all searches
            of a client.
        against: Who attacks: the server, or observers of the models that it publishes.

    Reference: Dwork, McSherry, Nissim & Smith, TCC 2006."""

    unit: Literal["interaction", "round", "client"] = "client"
    against: Literal["server", "models"] = "server"

    higher_is_better = False

    @property
    def label(self) -> str:
        protected = {"interaction": "of one search", "round": "of a round", "client": ""}
        adversary = {"server": "", "models": "against observers of models"}
        parts = "epsilon", protected[self.unit], adversary[self.against]
        return " ".join(part for part in parts if part)

    def of_run(self, run: FinishedRun) -> float | None:
        views = (run.final.get("privacy") or {}).get("views", [])
        for view in views:
            for each in view["guarantees"] if view["against"] == self.against else []:
                if each["unit"] == self.unit:
                    epsilon: float | None = each["epsilon"]
                    return epsilon
        return None
