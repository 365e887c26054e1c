"""Plain definitions, one client after another, every shape and number checked: slow, loud, and the yardstick."""

from __future__ import annotations

from dataclasses import dataclass

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
    memory: Array  # (clients, numbers) what each device keeps between rounds
    notes: tuple[str, ...] = ()

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        updates, ndcg, max_rr = [], np.empty(len(clients)), np.empty(len(clients))
        for i, client in enumerate(map(int, clients)):
            user = self.population.user(client, stream(self.seed, "user", client, t))
            where, memory = f"client {client}, round {t}", self.memory[client]
            try:
                update, self.memory[client] = client_step(
                    self.learner, self.ranker, params, memory, user, client, t, self.seed
                )
            except FloatingPointError as error:
                raise FloatingPointError(f"{where}: {error}") from None
            direction = self.learner.decode(update.payload, params)
            _check(update, direction, params, where)
            updates.append(Update(client, direction, update.weight))
            ndcg[i], max_rr[i] = user.ndcg / user.made, user.max_rr / user.made
        return Cohort.stack(updates), Observed(ndcg, max_rr)


def _check(update: Update, direction: Array, params: Array, where: str) -> None:
    if update.payload.ndim != 1 or direction.shape != params.shape:
        shapes = f"{update.payload.shape} -> {direction.shape}"
        raise ValueError(f"{where}: a payload is one flat vector that means {params.shape}, got {shapes}")
    if not np.isfinite(direction).all():
        raise FloatingPointError(f"{where}: the update is not finite")
    if not (np.isfinite(update.weight) and update.weight > 0):
        raise ValueError(f"{where}: a weight must be > 0, got {update.weight}")
