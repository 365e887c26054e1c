"""How soon a run reaches a level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core.spec import measure
from foltr.core.world.measures import FinishedRun, RunMeasure


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
