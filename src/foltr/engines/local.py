"""All clients in this process: compiled kernels, threads over clients; the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Cohort, Learner, Observed, Ranker
from foltr.engines.debug import Debug
from foltr.kernels.twins import learn_kernel
from foltr.metrics import DEPTH, discounts, gains
from foltr.seeds import key
from foltr.simulation import Population

ALONE = 64  # sessions too few to be worth a second thread
PIECES = 4  # per thread, so that a slow piece is made up for


@dataclass
class Local:
    learner: Learner
    ranker: Ranker
    population: Population
    seed: int
    threads: Threads

    def __post_init__(self) -> None:
        p = self.population
        self.plain = Debug(self.learner, self.ranker, p, self.seed)
        self.compiled = learn_kernel(self.learner, self.ranker, p.data.width)
        clicks = p.tables(self.learner.k) if self.compiled else None  # type: ignore[attr-defined]
        if self.compiled is None or clicks is None:
            self.compiled = None
            return
        self.keys = np.array([key(self.seed, "user"), key(self.seed, "ranking")], np.uint64)
        self.tables: tuple[Any, ...] = (
            (p.data.storage, p.data.labels, p.longest),
            (p.starts, p.stops, p.labelling, p.ideals),
            (p.first, p.last, p.models, p.sessions),
            (*clicks, gains(np.arange(p.data.grades)), discounts(DEPTH)),
        )

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed]:
        if self.compiled is None:
            return self.plain.collect(params, t, clients)
        kernel, settings = self.compiled
        sessions = self.population.sessions[clients]
        updates, observed = np.empty((len(clients), len(params)), np.float32), np.empty((len(clients), 2))

        def piece(first: int, last: int) -> None:
            part = slice(first, last)
            failed = kernel(
                *self.tables, *settings, params, self.keys, t, clients[part], updates[part], observed[part]
            )
            if failed >= 0:
                raise FloatingPointError(f"client {clients[first + failed]}, round {t}: the scores are not finite")

        self.threads.share(len(clients), piece, small=int(sessions.sum()) < ALONE)
        observed /= sessions[:, None]
        return Cohort(clients, updates, sessions.astype(np.float64)), Observed(observed[:, 0], observed[:, 1])


class Threads:
    """Shares a range of independent pieces of work; every piece writes only its own part of the result."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def running(self) -> Iterator[Threads]:
        if self.number > 1:
            self._pool = ThreadPoolExecutor(self.number)
        try:
            yield self
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
                self._pool = None

    def share(self, n: int, work: Callable[[int, int], None], small: bool = False) -> None:
        if self._pool is None or small or n == 1:
            work(0, n)
            return
        edges = np.linspace(0, n, min(n, PIECES * self.number) + 1).astype(int)
        for done in [self._pool.submit(work, int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]:
            done.result()
