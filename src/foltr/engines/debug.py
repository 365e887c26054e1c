"""Plain definitions, one client after another, every shape and number checked: slow, loud, and the
yardstick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Cohort, Learner, Observed, Privatizer, Ranker, Update, require
from foltr.federation import client_step, nobody
from foltr.seeds import stream
from foltr.world.population import Population
from foltr.world.user import SimulatedUser


@dataclass
class Debug:
    learner: Learner
    ranker: Ranker
    population: Population
    seed: int
    memory: Array  # (clients, numbers) what each device keeps between rounds
    privacy: Privatizer | None = None
    notes: tuple[str, ...] = ()
    malicious: Callable[[int, Array], Array] = (
        nobody  # (t, clients) -> (n,) whose users click by `population.deceit`
    )

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        params = params.view()
        params.flags.writeable = False  # what one client did to them, all later ones would get
        updates, ndcg, max_rr = [], np.empty(len(clients)), np.empty(len(clients))
        turned = self.malicious(t, clients)
        for i, client in enumerate(map(int, clients)):
            users, own = (
                stream(self.seed, "user", client, t),
                stream(self.seed, "ranking", client, t),
            )
            user = SimulatedUser(
                self.population, client, self.learner.luck(users, own), bool(turned[i])
            )
            where = f"client {client}, round {t}"
            try:
                update, kept = client_step(
                    self.learner,
                    self.ranker,
                    self.privacy,
                    params,
                    self.memory[client],
                    user,
                    client,
                    len(clients),
                    t,
                    self.seed,
                )
            except FloatingPointError as error:
                raise FloatingPointError(f"{where}: {error}") from None
            except Exception as error:
                error.add_note(where)
                raise
            _check(update, kept, self.memory[client], where)
            self.memory[client] = kept
            updates.append(update)
            ndcg[i], max_rr[i] = user.ndcg / max(user.made, 1), user.max_rr / max(user.made, 1)
        return Cohort.stack(updates), Observed(ndcg, max_rr)


def _check(update: Update, kept: Array, before: Array, where: str) -> None:
    flat = f"{where}: a payload is one flat vector, got shape {np.shape(update.payload)}"
    require(np.ndim(update.payload) == 1, flat)
    memory = f"{where}: the learner was given memory {before.shape} and returned {np.shape(kept)}"
    require(np.shape(kept) == before.shape, memory)
    require(update.weight > 0.0, f"{where}: a weight must be > 0, got {update.weight}")
    if not np.isfinite(update.payload).all():
        raise FloatingPointError(f"{where}: the update is not finite")
