"""Plain definitions, one client after another, every shape and number checked: slow, loud, and the yardstick."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from foltr.core import Array, Cohort, Learner, Observed, Ranker, Update
from foltr.federation import client_step
from foltr.seeds import stream
from foltr.simulation import Population


@dataclass
class Debug:
    learner: Learner
    ranker: Ranker
    population: Population
    seed: int
    memory: dict[int, Array] = field(default_factory=dict)  # what each device keeps between rounds

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        updates, ndcg, max_rr = [], np.empty(len(clients)), np.empty(len(clients))
        for i, client in enumerate(map(int, clients)):
            user = self.population.user(client, stream(self.seed, "user", client, t))
            memory = self.memory.get(client, self.learner.remembered(params))
            update, memory = client_step(self.learner, self.ranker, params, memory, user, client, t, self.seed)
            _check(update, len(params), client, t)
            updates.append(Update(client, self.learner.decode(update.payload, params), update.weight))
            if len(memory):
                self.memory[client] = memory
            ndcg[i], max_rr[i] = user.ndcg / user.made, user.max_rr / user.made
        return Cohort.stack(updates), Observed(ndcg, max_rr)


def _check(update: Update, dim: int, client: int, t: int) -> None:
    where = f"client {client}, round {t}"
    if update.payload.ndim != 1:
        raise ValueError(f"{where}: a payload is one flat vector, got shape {update.payload.shape}")
    if not np.isfinite(update.payload).all():
        raise FloatingPointError(f"{where}: the update is not finite")
    if not (np.isfinite(update.weight) and update.weight > 0):
        raise ValueError(f"{where}: a weight must be > 0, got {update.weight}")
