"""All clients in this process: compiled kernels, threads over clients; the same bits for any
number of threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foltr.components.learners.es import PERTURBATION
from foltr.core import Answers, Array, Ask, Cohort, Observed, Privatizer
from foltr.core.guards import privatized
from foltr.core.metrics import DEPTH, discounts, gains
from foltr.core.seeds import key, stream
from foltr.core.system.process import Threads
from foltr.kernels import check_compiles, frozen
from foltr.kernels.interaction import room_of
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.twins import learn_twin, noise_twin

# Microseconds of a search without its products, of one multiplication of the scoring, and of a
# round that is too short for a second thread. Rough estimates: they affect speed only.
SEARCH, PRODUCT, ALONE = 0.8, 1e-4, 200.0


@dataclass
class Local(Debug):
    """The plain engine, with a kernel for all of `Client.step` where there is one."""

    threads: Threads = field(kw_only=True)

    def __post_init__(self) -> None:
        check_compiles("the local engine")
        p = self.population
        self.twin = learn_twin(self.learner, self.ranker, p.data.width, self.privacy, p.sessions)
        if self.noise is not None and self.privacy is not None and self.learner.reward_levels:
            self.twin = None  # kernels draw the noise of rewards by address
        clicks = p.tables(self.twin.depth) if self.twin else None
        if self.twin is None or clicks is None:
            privacy = (self.privacy,) if self.privacy else ()
            parts = (self.learner, self.ranker, *p.click_models, *privacy)
            names = ", ".join(type(part).__name__ for part in parts)
            slow = f"runs as plain Python: there is no compiled kernel for {names} together"
            self.notes = (slow,)
            self.twin = None
            return
        purposes = "user", "ranking", "privacy"
        drawn = [*(key(self.seed, name) for name in purposes), PERTURBATION]
        self.keys = np.array(drawn, np.uint64)
        self.longest = p.longest
        data = (frozen(p.data.storage), frozen(p.data.labels), self.longest)
        blocks = tuple(map(frozen, (*placed(p.starts, p.stops, p.rows), p.labelling, p.ideals)))
        tables = tuple(map(frozen, (*clicks, gains(np.arange(p.data.grades)), discounts(DEPTH))))
        # a kernel's arguments before and after those that say how each client clicks
        how = self.twin.settings, self.twin.rewards, self.twin.network
        self.around: tuple[Any, Any] = ((data, blocks), (tables, *how))
        self.honest = self._given(p.models)
        # who was malicious in the last round, and the arguments for them
        self.last_malicious: tuple[bytes, tuple[Any, ...]] = (b"", self.honest)
        products = float((p.stops - p.starts).mean()) * p.data.width * max(1, self.twin.network[0])
        self.client_time = float(p.sessions.mean()) * (SEARCH + PRODUCT * products)
        self.all_search = bool((p.sessions > 0).all())

    def room(self) -> tuple[Array, ...]:
        """Scratch arrays of a learner's kernel, for one thread."""
        assert self.twin is not None
        width = self.population.data.storage.shape[1]
        return room_of(self.longest, self.twin.depth, width)

    def on_one_thread(self, n: int) -> bool:
        """Whether a round of n clients runs on one thread: there is no other, or it would not
        pay."""
        return self.threads.number == 1 or (self.twin is not None and n * self.client_time < ALONE)

    def _given(self, models: Array) -> tuple[Any, ...]:
        """A kernel's arguments that are the same in every round."""
        p, (before, after) = self.population, self.around
        people = (p.first, p.last, models, p.sessions)
        return (*before, tuple(frozen(np.ascontiguousarray(part)) for part in people), *after)

    def _with_malicious(self, t: int, clients: Array) -> tuple[Any, ...]:
        who = clients[self.malicious(t, clients)]
        if who.tobytes() != self.last_malicious[0]:
            models = self.population.models_with_malicious(who)
            self.last_malicious = who.tobytes(), self._given(models)
        return self.last_malicious[1]

    def collect(self, ask: Ask, clients: Array) -> Answers:
        if self.twin is None:
            return super().collect(ask, clients)
        asked = clients
        clients = clients if self.all_search else self.population.searching(clients)
        twin, params, t, n = self.twin, ask.params, ask.t, len(clients)
        honest = self.population.malicious_model is None
        given = self.honest if honest else self._with_malicious(t, clients)
        directions, seen = np.empty((n, len(params)), np.float32), np.empty((3, n))
        payloads = np.empty((n, twin.message), np.uint32)
        sent, filled = payloads if twin.message else directions, (payloads, directions, seen)

        ids = frozen(clients)  # read-only: one compiled version serves all callers

        def piece(first: int, last: int) -> None:
            these = self.keys, t, ids, first, last, self.memory
            failed = twin.kernel(*given, params, *these, *filled, self.room())
            if failed >= 0:
                where = f"client {clients[failed]}, round {t}"
                raise FloatingPointError(f"{where}: the scores are not finite")
            if self.privacy is not None and not twin.message:  # kernels privatize rewards
                some = slice(first, last)
                self._privatize(self.privacy, sent[some], clients[some], ask)

        self.threads.share(n, piece, small=self.on_one_thread(n))
        ndcg, max_rr, weights = seen
        cohort = Cohort(clients, sent, weights, directions if twin.message else None)
        return Answers(asked, cohort, Observed(ndcg, max_rr))

    def _privatize(self, privacy: Privatizer, updates: Array, clients: Array, ask: Ask) -> None:
        """Makes of updates (rows, d), in place, what these clients send."""
        if self.noise is None:
            privatize(privacy, updates, clients, ask.n, self.seed, ask.t)
            return
        for i, client in enumerate(clients.tolist()):
            noise = self.noise(client).at(ask.t)
            updates[i] = privatized(privacy, updates[i], ask.n, noise)


def privatize(
    privacy: Privatizer, updates: Array, clients: Array, n: int, seed: int, t: int
) -> None:
    """Makes of updates (rows, d), in place, what these clients send in round t of n clients, with
    noise by address."""
    compiled = noise_twin(privacy, n)
    if compiled is not None:
        kernel, settings, chances = compiled
        kernel(settings, chances, np.uint64(key(seed, "privacy")), frozen(clients), t, updates)
        return
    for i, client in enumerate(clients.tolist()):
        updates[i] = privatized(privacy, updates[i], n, stream(seed, "privacy", client, t))


def placed(starts: Array, stops: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Where each block begins and how long it is, and the rows: block b is documents starts[b],
    starts[b] + 1, ..., or, where that is negative, rows[~starts[b]], ... Nearly all blocks are of
    consecutive documents: kernels need not look their rows up, which would cost 3 to 6 % of a
    round of the linear ranker."""
    breaks = np.append(0, np.cumsum(np.diff(rows) != 1))
    consecutive = breaks[starts] == breaks[stops - 1]
    return np.where(consecutive, rows[starts], ~starts), stops - starts, rows
