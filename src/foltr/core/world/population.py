"""The simulated population as tables: what each client holds, how it clicks, how often it
searches.

Kernels read the tables. `user.SimulatedUser` is the plain `User` of one client, made from the same
tables. On the client side, labels are in this folder only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr.core import Array, ClickModel, Show
from foltr.core.errors import Mistake, require
from foltr.core.guards import check_list
from foltr.core.metrics import DEPTH, dcg, ideal_dcg, max_rr
from foltr.core.seeds import Stream
from foltr.core.world.dataset import Dataset

HOSTS = 2  # most clients of the server: one for a warm-up, one for a trusted update


@dataclass(frozen=True, eq=False)
class Population:
    """All clients of an experiment, as tables of blocks of documents.

    Block b is the documents rows[starts[b] : stops[b]], judged by row labelling[b] of the labels.
    Client c draws its searches from blocks first[c] .. last[c] and clicks by one of `models[c]`;
    if there are several, each session draws one.

    The last `server_clients` clients belong to the server: they hold data that the server has, and
    take part in no ordinary round. The first of them learns alone for `warmup` rounds before the
    federation begins. Malicious users click by model `malicious_model`."""

    data: Dataset
    rows: Array  # (documents of all blocks,) int32, rows of the data
    starts: Array  # (blocks,) int64
    stops: Array  # (blocks,) int64
    labelling: Array  # (blocks,) int64
    ideals: Array  # (blocks,) ideal DCG@10 of the block
    first: Array  # (clients,) int64
    last: Array  # (clients,) int64, exclusive
    click_models: tuple[ClickModel, ...]
    models: Array  # (clients, choices) int64, indices of click_models
    sessions: Array  # (clients,) int64 searches per round; who makes none sends nothing
    server_clients: int = 0
    warmup: int = 0
    malicious_model: int | None = None  # index of click_models

    def __post_init__(self) -> None:
        """Check all indices, because kernels read these tables without bounds checks."""
        rows, blocks, models = len(self.rows), len(self.starts), len(self.click_models)
        for tables in (
            ("starts", "stops", "labelling", "ideals"),
            ("first", "last", "models", "sessions"),
            ("rows",),
        ):
            for name in tables:
                table = getattr(self, name)
                shape = np.shape(table)[:1] == np.shape(getattr(self, tables[0]))[:1]
                kind = isinstance(table, np.ndarray) and table.dtype.kind == (
                    "f" if name == "ideals" else "i"
                )
                flat = np.ndim(table) == 1 + (name == "models")
                require(
                    kind and flat and shape,
                    f"the table {name} of a population has the wrong kind or shape",
                )
        require(bool(np.isfinite(self.ideals).all()), "the ideals of a population are not finite")
        own = self.server_clients
        require(
            0 <= own <= HOSTS and (own > 0 or not self.warmup),
            f"a population has 0 .. {HOSTS} clients of the server, and a warm-up needs one: got"
            f" {own}",
        )

        def inside(table: Array, low: int, high: int) -> bool:
            return len(table) > 0 and bool(table.min() >= low and table.max() <= high)

        there = inside(self.rows, 0, self.data.documents - 1)
        require(there, f"every row must be one of the {self.data.documents} documents")
        held = (
            inside(self.starts, 0, rows)
            and inside(self.stops, 0, rows)
            and bool((self.starts < self.stops).all())
        )
        require(held, f"every block must hold at least one of the {rows} documents")
        judged = inside(self.labelling, 0, len(self.data.labels) - 1)
        require(judged, f"every block must be judged by one of {len(self.data.labels)} labellings")
        drawn = (
            inside(self.first, 0, blocks)
            and inside(self.last, 0, blocks)
            and bool((self.first < self.last).all())
        )
        require(drawn, f"every client must draw from at least one of the {blocks} blocks")
        known = self.malicious_model is None or 0 <= self.malicious_model < models
        clicked = inside(self.models, 0, models - 1) and known
        require(clicked, f"every client must click by one of {models} click models")
        never = "sessions must be >= 0, and some client must search"
        require(bool((self.sessions >= 0).all() and (self.sessions > 0).any()), never)

    @property
    def clients(self) -> int:
        """The number of clients without those of the server."""
        return len(self.first) - self.server_clients

    @property
    def longest(self) -> int:
        """The most documents that a block holds."""
        return int((self.stops - self.starts).max())

    def searching(self, clients: Array) -> Array:
        """Those of the clients that search at all: the others have nothing to send."""
        return clients if (self.sessions > 0).all() else clients[self.sessions[clients] > 0]

    def tables(self, depth: int) -> tuple[Array, Array] | None:
        """P(click) and P(stop) of all click models, (models, depth, grades) each; None if a model
        has no tables."""
        pairs = [checked_tables(model, self.data.grades, depth) for model in self.click_models]
        if any(pair is None for pair in pairs):
            return None
        clicks, stops = zip(*(pair for pair in pairs if pair is not None), strict=True)
        return np.stack(clicks), np.stack(stops)

    def held(self, client: int) -> tuple[Array, Array, Array]:
        """The documents of a client's blocks in order: rows of the data, their labels as this
        client judges them, and where each block begins (blocks + 1,)."""
        blocks = slice(self.first[client], self.last[client])
        lengths = self.stops[blocks] - self.starts[blocks]
        offsets = np.append(0, np.cumsum(lengths))
        rows = self.rows[
            np.arange(offsets[-1]) + np.repeat(self.starts[blocks] - offsets[:-1], lengths)
        ]
        return rows, self.data.labels[np.repeat(self.labelling[blocks], lengths), rows], offsets

    def models_with_malicious(self, malicious: Array) -> Array:
        """`models` with the click model of malicious users for these clients (indices): (clients,
        choices)."""
        if self.malicious_model is None or not len(malicious):
            return self.models
        models = self.models.copy()
        models[malicious] = self.malicious_model
        return models


def nobody(t: int, clients: Array) -> Array:
    """No client is malicious in round t."""
    return np.zeros(len(clients), bool)


def checked_tables(model: ClickModel, grades: int, depth: int) -> tuple[Array, Array] | None:
    """The tables of a click model; raises unless they have the right shape and hold
    probabilities."""
    pair, name = model.tables(grades, depth), f"{type(model).__name__}.tables"
    if pair is None:
        return None
    two = "not two tables (P(click), P(stop | click))"
    require(isinstance(pair, tuple | list) and len(pair) == 2, f"{name} gave one value, {two}")
    click, stop = (np.asarray(table, np.float64) for table in pair)
    for table, what in ((click, "P(click)"), (stop, "P(stop | click)")):
        shape = f"{name} gave shape {table.shape}, not (depth, grades) = {(depth, grades)}"
        require(table.shape == (depth, grades), shape)
        for rank, grade in np.argwhere(~((table >= 0.0) & (table <= 1.0)))[:1]:
            value = f"{table[rank, grade]:g} for {what} at rank {rank}, grade {grade}"
            raise Mistake(f"{name} gave {value}, which is no probability")
    return click, stop


def iid(data: Dataset, model: ClickModel, clients: int, sessions: int) -> Population:
    """A population in which every client draws from all queries, with one labelling and one click
    model."""
    # raises now, not in round 1, if the model does not fit the grades
    checked_tables(model, data.grades, 1)
    return Population(
        data=data,
        rows=np.arange(data.documents, dtype=np.int32),
        starts=data.offsets[:-1].astype(np.int64),
        stops=data.offsets[1:].astype(np.int64),
        labelling=np.zeros(data.queries, np.int64),
        ideals=ideal_dcg(data.labels[0], data.offsets),
        first=np.zeros(clients, np.int64),
        last=np.full(clients, data.queries, np.int64),
        click_models=(model,),
        models=np.zeros((clients, 1), np.int64),
        sessions=np.full(clients, sessions, np.int64),
    )


def holding(data: Dataset, model: ClickModel, held: Sequence[Array], sessions: int) -> Population:
    """A population in which client c holds the documents held[c] (rows of the data, each once) and
    draws from the queries of which it holds any; otherwise as `iid`."""
    clients, queries = len(held), np.repeat(np.arange(data.queries), np.diff(data.offsets))
    for client, documents in enumerate(held):
        require(
            len(documents) > 0,
            f"client {client} holds no document: take fewer clients, or more data",
        )
    rows = np.concatenate([np.sort(documents) for documents in held])
    owner = np.repeat(np.arange(clients), [len(documents) for documents in held])
    place = owner * data.queries + queries[rows]  # one number per client and query, ascending
    starts = np.append(0, np.flatnonzero(np.diff(place)) + 1)
    return replace(
        iid(data, model, clients, sessions),
        rows=rows.astype(np.int32),
        starts=starts,
        stops=np.append(starts[1:], len(rows)),
        labelling=np.zeros(len(starts), np.int64),
        ideals=ideal_dcg(data.labels[0][rows], np.append(starts, len(rows))),
        first=np.searchsorted(owner[starts], np.arange(clients)),
        last=np.searchsorted(owner[starts], np.arange(clients), side="right"),
    )


def with_server_client(
    p: Population, queries: Array, model: ClickModel, sessions: int, warmup: int = 0
) -> Population:
    """The population with one more client, of the server, which holds whole queries by the first
    labelling."""
    data, blocks = p.data, len(p.starts)
    offsets, lengths = (
        np.append(0, np.cumsum(np.diff(data.offsets)[queries])),
        np.diff(data.offsets)[queries],
    )
    rows = np.concatenate(
        [np.arange(data.offsets[q], data.offsets[q + 1], dtype=np.int32) for q in queries]
    )
    same = p.click_models.index(model) if model in p.click_models else len(p.click_models)
    return replace(
        p,
        rows=np.append(p.rows, rows),
        starts=np.append(p.starts, len(p.rows) + offsets[:-1]),
        stops=np.append(p.stops, len(p.rows) + offsets[:-1] + lengths),
        labelling=np.append(p.labelling, np.zeros(len(queries), np.int64)),
        ideals=np.append(p.ideals, ideal_dcg(data.labels[0][rows], offsets)),
        first=np.append(p.first, blocks),
        last=np.append(p.last, blocks + len(queries)),
        click_models=p.click_models if same < len(p.click_models) else (*p.click_models, model),
        models=np.append(p.models, np.full((1, p.models.shape[1]), same), axis=0),
        sessions=np.append(p.sessions, sessions),
        server_clients=p.server_clients + 1,
        warmup=p.warmup or warmup,
    )


def with_malicious_model(p: Population, model: ClickModel) -> Population:
    """The population with a click model for malicious users."""
    checked_tables(model, p.data.grades, 1)
    return replace(p, click_models=(*p.click_models, model), malicious_model=len(p.click_models))


# The simulated user. Labels turn into clicks only here and in its compiled twin
# (`kernels/interaction.py`).


class SimulatedUser:
    """The user of one client in one round; it also sums the measures for the recorder.

    Session s draws from the stream at address s: first the query, then the click model, then a
    click and a stop for each rank."""

    def __init__(
        self, population: Population, client: int, rng: Stream, malicious: bool = False
    ) -> None:
        self.population, self.client, self.rng = population, client, rng
        self.malicious = malicious and population.malicious_model is not None
        self.sessions = int(population.sessions[client])
        self.made = 0
        self.ndcg = self.max_rr = 0.0  # sums over the sessions so far

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        p, c, draws = self.population, self.client, self.rng.at(self.made)
        block = p.first[c] + draws.integer(int(p.last[c] - p.first[c]))
        drawn = p.models[c, draws.integer(p.models.shape[1])]
        model = p.click_models[
            p.malicious_model if self.malicious and p.malicious_model is not None else drawn
        ]
        held = p.rows[p.starts[block] : p.stops[block]]
        # a view of padded rows: other strides would round differently
        docs = p.data.storage[held][:, : p.data.width]
        ranking = show(docs)
        check_list(show, ranking, len(docs))
        shown = p.data.labels[p.labelling[block], held][ranking]
        clicks = np.asarray(model.clicks(shown, p.data.grades, draws), bool)
        given = f"{type(model).__name__}.clicks gave {clicks.shape} for a list of {shown.shape}"
        require(clicks.shape == shown.shape, given)
        self._tally(shown, clicks, float(p.ideals[block]))
        return docs, ranking, clicks

    def _tally(self, shown: Array, clicks: Array, ideal: float) -> None:
        self.made += 1
        if ideal > 0.0:
            self.ndcg += dcg(shown[:DEPTH]) / ideal
        self.max_rr += max_rr(clicks)
