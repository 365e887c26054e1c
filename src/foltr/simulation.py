"""The simulated population as tables: who holds which documents, judged how, clicking how, how often.

Kernels read the tables; `user` makes one client's plain `User` from the same tables. Labels live here and in what is
made here, nowhere else on the client side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, ClickModel, Show, require
from foltr.data.dataset import Dataset
from foltr.metrics import DEPTH, dcg, ideal_dcg, max_rr
from foltr.seeds import Stream


@dataclass(frozen=True, eq=False)
class Population:
    """Block b is the documents starts[b] .. stops[b], judged by row labelling[b] of the labels; client c draws from
    blocks first[c] .. last[c] and clicks by one of `models[c]`, drawn anew each session if there are several."""

    data: Dataset
    starts: Array  # (blocks,) int64
    stops: Array  # (blocks,) int64
    labelling: Array  # (blocks,) int64
    ideals: Array  # (blocks,) ideal DCG@10 of what the client holds
    first: Array  # (clients,) int64
    last: Array  # (clients,) int64, exclusive
    click_models: tuple[ClickModel, ...]
    models: Array  # (clients, choices) int64, indices of click_models
    sessions: Array  # (clients,) int64 searches per round

    def __post_init__(self) -> None:
        """Kernels read these tables without looking: what they say must exist."""
        rows, blocks, models = self.data.documents, len(self.starts), len(self.click_models)

        def inside(table: Array, low: int, high: int) -> bool:
            return len(table) > 0 and bool(table.min() >= low and table.max() <= high)

        held = inside(self.starts, 0, rows) and inside(self.stops, 0, rows) and bool((self.starts < self.stops).all())
        require(held, f"every block must hold at least one of the {rows} documents")
        judged = inside(self.labelling, 0, len(self.data.labels) - 1)
        require(judged, f"every block must be judged by one of {len(self.data.labels)} labellings")
        drawn = inside(self.first, 0, blocks) and inside(self.last, 0, blocks) and bool((self.first < self.last).all())
        require(drawn, f"every client must draw from at least one of the {blocks} blocks")
        require(inside(self.models, 0, models - 1), f"every client must click by one of {models} click models")
        require(bool((self.sessions >= 1).all()), "every client must search at least once a round")

    @property
    def clients(self) -> int:
        return len(self.first)

    @property
    def longest(self) -> int:
        """The most documents that a block holds."""
        return int((self.stops - self.starts).max())

    def tables(self, depth: int) -> tuple[Array, Array] | None:
        """P(click) and P(stop) of all click models, (models, depth, grades) each; None if one of them has none."""
        pairs = [checked_tables(model, self.data.grades, depth) for model in self.click_models]
        if any(pair is None for pair in pairs):
            return None
        clicks, stops = zip(*(pair for pair in pairs if pair is not None), strict=True)
        return np.stack(clicks), np.stack(stops)

    def user(self, client: int, rng: Stream) -> Simulated:
        return Simulated(self, client, rng)


def checked_tables(model: ClickModel, grades: int, depth: int) -> tuple[Array, Array] | None:
    """A click model's tables, if they are such: kernels read them without looking."""
    pair = model.tables(grades, depth)
    if pair is None:
        return None
    click, stop = (np.asarray(table, np.float64) for table in pair)
    for table in (click, stop):
        shape = f"{type(model).__name__}.tables gave shape {table.shape}, not (depth, grades) = {(depth, grades)}"
        require(table.shape == (depth, grades), shape)
        inside = bool(((table >= 0.0) & (table <= 1.0)).all())
        require(inside, f"{type(model).__name__}.tables gave a number that is no probability")
    return click, stop


def iid(data: Dataset, model: ClickModel, clients: int, sessions: int) -> Population:
    """Every client draws from all queries and clicks alike."""
    checked_tables(model, data.grades, 1)  # a model that does not fit the grades is refused here, not in round 1
    return Population(
        data=data,
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


class Simulated:
    """One client's user in one round; tallies what the recorder may know.

    Session s draws at address s: first the query, then the click model, then for each rank a click and a stop.
    """

    def __init__(self, population: Population, client: int, rng: Stream) -> None:
        self.population, self.client, self.rng = population, client, rng
        self.sessions = int(population.sessions[client])
        self.made = 0
        self.ndcg = self.max_rr = 0.0  # sums over the sessions made

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        p, c, draws = self.population, self.client, self.rng.at(self.made)
        block = p.first[c] + draws.integer(int(p.last[c] - p.first[c]))
        model = p.click_models[p.models[c, draws.integer(p.models.shape[1])]]
        held = slice(p.starts[block], p.stops[block])
        docs = p.data.features[held]
        ranking = show(docs)
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
