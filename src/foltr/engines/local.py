"""All clients in this process: compiled kernels, threads over clients; the same bits for any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Cohort, Learner, Observed, Ranker
from foltr.engines.debug import Debug
from foltr.kernels import frozen
from foltr.kernels.twins import learn_kernel
from foltr.metrics import DEPTH, discounts, gains
from foltr.seeds import key
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
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        p = self.population
        self.compiled = learn_kernel(self.learner, self.ranker, p.data.width)
        clicks = p.tables(self.learner.k) if self.compiled else None  # type: ignore[attr-defined]
        if self.compiled is None or clicks is None:
            names = ", ".join(type(part).__name__ for part in (self.learner, self.ranker, *p.click_models))
            self.notes = (f"runs plainly: there is no compiled twin for {names} together",)
            self.compiled = None
            return
        self.keys = np.array([key(self.seed, "user"), key(self.seed, "ranking")], np.uint64)
        tables = (
            (p.data.storage, p.data.labels),
            (p.starts, p.stops, p.labelling, p.ideals),
            (p.first, p.last, p.models, p.sessions),
            (*clicks, gains(np.arange(p.data.grades)), discounts(DEPTH)),
        )
        data, *others = (tuple(map(frozen, group)) for group in tables)
        self.tables: tuple[Any, ...] = ((*data, p.longest), *others)

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        if self.compiled is None:
            return Debug(self.learner, self.ranker, self.population, self.seed, self.memory).collect(params, t, clients)
        kernel, settings = self.compiled
        sessions = self.population.sessions[clients]
        updates, observed = np.empty((len(clients), len(params)), np.float32), np.empty((len(clients), 2))

        def piece(first: int, last: int) -> None:
            part = slice(first, last)
            failed = kernel(*self.tables, *settings, params, self.keys, t, clients[part], updates[part], observed[part])
            if failed >= 0:
                raise FloatingPointError(f"client {clients[first + failed]}, round {t}: the scores are not finite")

        self.threads.share(len(clients), piece, small=int(sessions.sum()) < ALONE)
        observed /= sessions[:, None]
        return Cohort(clients, updates, sessions.astype(np.float64)), Observed(observed[:, 0], observed[:, 1])
