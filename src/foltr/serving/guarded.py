"""The server's half of the round with a rollback guard: a model that does worse on held-out
queries is not adopted."""

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
    """`measure` gives a model's nDCG@10 on held-out queries. A new model is adopted unless it is
    lower than the best one so far by more than `tolerance`; the server then keeps its parameters
    and the state of its rule and optimizer. The comparison is with the best model so far, so that
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
            known = "held-out queries without a relevant document cannot guard the model"
            require(math.isfinite(self.seen["best"]), known)
        self.seen["last"] = value = self.measure(stepped.params)
        if not value >= self.seen["best"] - self.tolerance:  # or NaN
            self.seen["refused"] = 1.0
            return replace(state, t=stepped.t)
        self.seen["best"] = max(self.seen["best"], value)
        return stepped
