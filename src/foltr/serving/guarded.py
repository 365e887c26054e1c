"""A server with a rollback guard: it does not adopt a model that is worse on held-out queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from foltr.core import Array, Cohort
from foltr.errors import require
from foltr.federation import Server, State
from foltr.seeds import Stream


@dataclass(frozen=True)
class GuardedServer(Server):
    """A server that adopts a new model only if its nDCG@10 on held-out queries (`measure`) is at
    most `tolerance` below the best one so far. Otherwise it keeps its parameters and the state of
    its aggregator and optimizer. It compares with the best model, not with the last one, so that
    small losses do not add up."""

    measure: Callable[[Array], float] | None = None
    tolerance: float = 0.02
    seen: dict[str, float] = field(default_factory=dict)  # "best" so far, "last" measured

    def step(self, state: State, cohort: Cohort, rng: Stream) -> State:
        stepped = super().step(state, cohort, rng)
        self.seen["refused"] = 0.0
        if self.measure is None:
            return stepped
        if "best" not in self.seen:
            self.seen["best"] = self.measure(state.params)
            known = (
                "holdout has no query with a relevant document: give other data, or leave it out"
            )
            require(math.isfinite(self.seen["best"]), known)
        self.seen["last"] = value = self.measure(stepped.params)
        if not value >= self.seen["best"] - self.tolerance:  # or NaN
            self.seen["refused"] = 1.0
            return replace(state, t=stepped.t)
        self.seen["best"] = max(self.seen["best"], value)
        return stepped
