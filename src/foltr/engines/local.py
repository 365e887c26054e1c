"""All clients in this process: compiled kernels, threads over clients; the same bits for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Cohort, Learner, Observed, Privatizer, Ranker
from foltr.engines.debug import Debug
from foltr.federation import privatized
from foltr.kernels import frozen
from foltr.kernels.twins import learn_twin, noise_twin
from foltr.metrics import DEPTH, discounts, gains
from foltr.seeds import key, stream
from foltr.simulation import Population
from foltr.threads import Threads

ALONE = 64  # sessions too few to be worth a second thread


@dataclass
class Local:
    learner: Learner
    ranker: Ranker
    population: Population
    seed: int
    memory: Array  # (clients, numbers) what each device keeps between rounds
    threads: Threads
    privacy: Privatizer | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        p = self.population
        self.twin = learn_twin(self.learner, self.ranker, p.data.width, self.privacy, p.sessions)
        clicks = p.tables(self.learner.k) if self.twin else None  # type: ignore[attr-defined]
        if self.twin is None or clicks is None:
            parts = (self.learner, self.ranker, *p.click_models, *((self.privacy,) if self.privacy else ()))
            names = ", ".join(type(part).__name__ for part in parts)
            self.notes = (f"runs plainly: there is no compiled twin for {names} together",)
            self.twin = None
            return
        self.keys = np.array([key(self.seed, name) for name in ("user", "ranking", "privacy")], np.uint64)
        tables = (
            (p.data.storage, p.data.labels),
            (p.starts, p.stops, p.labelling, p.ideals),
            (p.first, p.last, p.models, p.sessions),
            (*clicks, gains(np.arange(p.data.grades)), discounts(DEPTH)),
        )
        data, *others = (tuple(map(frozen, group)) for group in tables)
        self.tables: tuple[Any, ...] = ((*data, p.longest), *others)

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        if self.twin is None:
            plain = Debug(self.learner, self.ranker, self.population, self.seed, self.memory, self.privacy)
            return plain.collect(params, t, clients)
        twin, n, sessions = self.twin, len(clients), self.population.sessions[clients]
        directions, observed = np.empty((n, len(params)), np.float32), np.empty((n, 2))
        sent = np.empty((n, twin.message), np.uint32) if twin.message else directions

        def piece(first: int, last: int) -> None:
            part = slice(first, last)
            filled = (sent[part], observed[part]) + ((directions[part],) if twin.message else ())
            failed = twin.kernel(*self.tables, *twin.settings, params, self.keys, t, clients[part], *filled)
            if failed >= 0:
                raise FloatingPointError(f"client {clients[first + failed]}, round {t}: the scores are not finite")
            if self.privacy is not None and not twin.message:  # kernels of rewards have privatized them already
                privatize(self.privacy, sent[part], clients[part], n, self.seed, t)

        self.threads.share(n, piece, small=int(sessions.sum()) < ALONE)
        observed /= sessions[:, None]
        cohort = Cohort(clients, sent, sessions.astype(np.float64), directions if twin.message else None)
        return cohort, Observed(observed[:, 0], observed[:, 1])


def privatize(privacy: Privatizer, updates: Array, clients: Array, n: int, seed: int, t: int) -> None:
    """Makes of updates (rows, d), in place, what these clients send in round t of n clients."""
    compiled = noise_twin(privacy, n)
    if compiled is not None:
        kernel, settings = compiled
        kernel(settings, n, np.uint64(key(seed, "privacy")), clients, t, updates)
        return
    for i, client in enumerate(clients.tolist()):
        updates[i] = privatized(privacy, updates[i], n, stream(seed, "privacy", client, t))
