"""The privacy loss of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.core.spec import measure
from foltr.core.world.measures import FinishedRun, RunMeasure


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
