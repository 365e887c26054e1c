"""What clients gain: the final ranker, and those of clients that have their own, measured on
held-out queries and on what each client holds.

The definition is `Evaluator`, ranker by ranker. Compiled, a part of the rankers is measured in one
call, on all threads, with the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from foltr.core import Array
from foltr.core.metrics import DEPTH, discounts, gains
from foltr.core.world.population import Population
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.context import Context

STEP_SECONDS = 0.2  # from one report of the progress to the next
FIRST_STEP_CLIENTS, MAX_STEP_CLIENTS = 16, 4096
T = TypeVar("T")


@dataclass(frozen=True)
class Held:
    """The lists that each of n rankers is measured on."""

    first: Array  # (n,) ranker i has lists[first[i]:last[i]]
    last: Array  # (n,)
    lists: Array  # blocks of documents, all with a relevant document
    numbers: Array  # the place of each list in the stream that breaks ties

    @property
    def place(self) -> Array:
        """Where the values of each ranker begin: (n + 1,)."""
        return np.append(0, np.cumsum(self.last - self.first))


@dataclass(frozen=True)
class Documents:
    """Blocks of documents as kernels read them, and the relevant documents of each."""

    storage: Array
    where: tuple[
        Array, Array, Array
    ]  # starts, lengths and rows as in `placed` of the local engine
    ideals: Array  # (blocks,)
    # those of block b are relevant[0][b]:relevant[0][b + 1] of their places in it and their gains
    relevant: tuple[Array, Array, Array]

    @classmethod
    def of(
        cls, storage: Array, where: tuple[Array, Array, Array], ideals: Array, gained: Array
    ) -> Documents:
        """`gained`: the gain of each document, block after block."""
        ends = np.cumsum(where[1])
        some = np.flatnonzero(gained > 0.0)
        block = np.searchsorted(ends, some, side="right")
        counts = np.bincount(block, minlength=len(ends))
        places = some - (ends - where[1])[block]
        relevant = np.append(0, np.cumsum(counts)), places, gained[some]
        return cls(storage, where, ideals, relevant)


@dataclass
class ClientEvaluator:
    """Measures rankers of clients: nDCG@10 of each."""

    evaluate: Evaluator  # on held-out queries
    population: Population
    shared: Array  # (d,) float32, the server's ranker

    def __post_init__(self) -> None:
        self.layers: dict[str, Array] = {}  # the server's hidden layer, by set of documents
        self.compiled = self.evaluate.kernel is not None
        if not self.compiled:
            return
        from foltr.simulation.engines.local import placed

        p, data = self.population, self.evaluate.data
        starts, lengths, rows = placed(p.starts, p.stops, p.rows)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        held = p.rows[np.repeat(p.starts, lengths) + within]
        gained = gains(p.data.labels[np.repeat(p.labelling, lengths), held])
        self.own = Documents.of(p.data.storage, (starts, lengths, rows), p.ideals, gained)
        where = data.offsets[:-1], np.diff(data.offsets), np.empty(0, np.int32)
        self.held_out = [
            Documents.of(data.storage, where, judged.ideals, gains(judged.labels))
            for judged in self.evaluate.judged[: len(data.labels)]
        ]

    def on_held_out(self, rankers: Array) -> list[float]:
        """Each of the rankers (n, d) on all held-out queries, as `Evaluator` measures it."""
        if not self.compiled:
            return [self.evaluate(ranker)["ndcg@10"] for ranker in rankers]
        found = []
        for documents in self.held_out:
            queries = np.flatnonzero(documents.ideals > 0.0)
            none, all_ = np.zeros(len(rankers), np.int64), np.full(len(rankers), len(queries))
            held = Held(none, all_, queries, queries)
            values = np.full((len(rankers), self.evaluate.data.queries), np.nan)
            measured = self._measured("held out", rankers, documents, held)
            values[:, queries] = measured.reshape(len(rankers), len(queries))
            found.append(values)
        return [self.evaluate.mean_ndcg(list(each)) for each in zip(*found, strict=True)]

    def on_own(self, rankers: Array, clients: Array) -> list[float]:
        """Each of the rankers (n, d) on what its client holds, as that client judges it; NaN for a
        client without a relevant document."""
        p = self.population
        if not self.compiled:
            pairs = zip(rankers, clients.tolist(), strict=True)
            return [self.evaluate.of_client(ranker, p, client) for ranker, client in pairs]
        ranges = np.stack([p.first[clients], p.last[clients]], axis=1)
        unique, which = np.unique(ranges, axis=0, return_inverse=True)
        lists = [a + np.flatnonzero(p.ideals[a:b] > 0.0) for a, b in unique.tolist()]
        ends = np.cumsum([len(each) for each in lists])
        begins = np.append(0, ends[:-1])
        numbers = np.concatenate([np.arange(len(each)) for each in lists])
        which = which.ravel()
        held = Held(begins[which], ends[which], np.concatenate(lists), numbers)
        values, place = self._measured("own", rankers, self.own, held), held.place
        return [
            float(values[a:b].mean()) if b > a else float("nan")
            for a, b in zip(place[:-1].tolist(), place[1:].tolist(), strict=True)
        ]

    def _measured(self, split: str, rankers: Array, documents: Documents, held: Held) -> Array:
        """nDCG of every list of every ranker, one ranker after the other."""
        from foltr.kernels import frozen
        from foltr.kernels.evaluation import ndcg_of_rankers

        twin, place = self.evaluate.kernel, held.place
        assert twin is not None
        how = twin.address, twin.parts
        layer = np.empty((0, 0), np.float32)
        if self._same_body(rankers):
            layer = self._layer(split, documents)
        out, storage = np.empty(place[-1]), frozen(documents.storage)
        blocks = tuple(map(frozen, (*documents.where, documents.ideals)))
        whose = held.first, held.last, held.lists, held.numbers, place[:-1]
        given = tuple(map(frozen, whose)), tuple(map(frozen, documents.relevant))
        rest = frozen(discounts(DEPTH)), np.uint64(self.evaluate.key)
        matrix = frozen(rankers)

        def work(a: int, b: int) -> None:
            here = how, storage, layer, twin.network, matrix, a, b, blocks
            if ndcg_of_rankers(*here, *given, *rest, out) >= 0:
                raise FloatingPointError("the scores of held-out documents are not finite")

        self.evaluate.threads.share(len(rankers), work)
        return out

    def _same_body(self, rankers: Array) -> bool:
        """Whether the rankers have the server's hidden layer: it is then computed once."""
        hidden = self.evaluate.kernel.network[0] if self.evaluate.kernel is not None else 0
        body = len(self.shared) - hidden
        return hidden > 0 and bool((rankers[:, :body] == self.shared[:body]).all())

    def _layer(self, split: str, documents: Documents) -> Array:
        """The server's hidden layer of all documents."""
        if split not in self.layers:
            from foltr.kernels import frozen
            from foltr.kernels.evaluation import hidden_into

            twin, storage = self.evaluate.kernel, frozen(documents.storage)
            assert twin is not None
            layer = np.empty((len(storage), twin.network[0]), np.float32)
            shared = frozen(self.shared)

            def work(a: int, b: int) -> None:
                hidden_into(storage, a, b, twin.network, shared, layer, a)

            self.evaluate.threads.share(len(storage), work)
            self.layers[split] = layer
        return self.layers[split]


def of_clients(
    run: Context, params: Array, memory: Array, clients: Array, told: Callable[[int, int], None]
) -> dict[str, float | None]:
    """Means over clients: the final ranker judged by each client on the queries it holds, and,
    where clients have rankers of their own, each of those by its client and on all held-out
    queries. `told(done, of)` is called before each step of a pass over the clients."""
    e, population = run.experiment, run.population
    shared, personal = params.astype(np.float32), memory.shape[1] > 0
    if e.partition.identical_clients and not personal:
        return {}
    measure = ClientEvaluator(run.on_test, population, shared)

    def one_for_all(some: Array) -> list[float]:
        return measure.on_own(np.tile(shared, (len(some), 1)), some)

    def own_rankers(some: Array) -> list[tuple[float, float]]:
        rankers = np.stack([e.device_learner.personal(shared, memory[c]) for c in some])
        return list(zip(measure.on_held_out(rankers), measure.on_own(rankers, some), strict=True))

    # one client for each range of blocks that is held, and the place of each client's range
    ranges = np.stack([population.first[clients], population.last[clients]], axis=1)
    _, one, which = np.unique(ranges, axis=0, return_index=True, return_inverse=True)
    found = in_steps(one_for_all, clients[one], told)
    measures = {"own_ndcg@10": mean_known([found[i] for i in which.ravel().tolist()])}
    if personal:
        on_test, on_own = zip(*in_steps(own_rankers, clients, told), strict=True)
        measures["personal_ndcg@10"] = mean_known(list(on_test))
        measures["personal_own_ndcg@10"] = mean_known(list(on_own))
    return measures


def in_steps(
    work: Callable[[Array], list[T]], clients: Array, told: Callable[[int, int], None]
) -> list[T]:
    """`work` on all clients, some of them at a time."""
    found, step = list[T](), FIRST_STEP_CLIENTS
    while len(found) < len(clients):
        told(len(found), len(clients))
        begun, some = time.monotonic(), clients[len(found) : len(found) + step]
        found += work(some)
        spent = max(1e-9, time.monotonic() - begun) / len(some)
        step = max(1, min(4 * step, int(STEP_SECONDS / spent), MAX_STEP_CLIENTS))
    return found


def mean_known(values: list[float]) -> float | None:
    """The mean of the values that are not NaN; None if there are none."""
    there = [value for value in values if not np.isnan(value)]
    return sum(there) / len(there) if there else None
