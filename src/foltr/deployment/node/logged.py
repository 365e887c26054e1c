"""Clicks from a log of real searches, instead of a simulated user. Each line is a search, as JSON:

    {"query": "17", "shown": [4, 0, 2], "clicked": [0], "client": 3}

`query` is the id of a query in the data. `shown` is the list that the user saw: numbers of the
query's documents, in the order of the data file, from 0. `clicked` are ranks in that list, from 0.
`client` is the number of the client on this node (default 0). The log may grow while the node
runs. A client takes part when it has enough new searches. It learns from each search once."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort, Learner, Privatizer, Ranker
from foltr.core.errors import Mistake, require, shown
from foltr.core.federation import Client
from foltr.core.seeds import stream
from foltr.core.stepwise import ReplayedUser
from foltr.core.system.files import regular
from foltr.core.world.dataset import Dataset
from foltr.simulation.runs.execution import from_system


@dataclass(frozen=True)
class Search:
    query: int  # row of the data's queries
    shown: tuple[int, ...]
    clicked: tuple[int, ...]

    def on(self, data: Dataset) -> tuple[Array, Array, Array]:
        """Its documents, the list that was shown, and its clicks."""
        first, last = data.offsets[self.query : self.query + 2]
        docs = data.storage[first:last][:, : data.width]
        clicks = np.zeros(len(self.shown), bool)
        clicks[list(self.clicked)] = True
        return docs, np.array(self.shown), clicks


@dataclass
class Log:
    """A file of searches, which may grow."""

    path: Path
    data: Dataset
    clients: int
    found: dict[int, list[Search]] = field(default_factory=dict)
    _read: int = 0  # bytes
    _line: int = 0

    def __post_init__(self) -> None:
        names = [name.decode(errors="replace") for name in self.data.query_ids.tolist()]
        self._queries = {name: row for row, name in enumerate(names)}
        self.look()

    def look(self) -> None:
        """Read the new lines; the last one only if it is complete."""
        try:
            with regular(self.path) as file:
                size = file.seek(0, os.SEEK_END)
                shorter = f"{self.path} is shorter than before: restore it, a log may only grow"
                require(size >= self._read, shorter)
                file.seek(self._read)
                text = file.read()
        except OSError as error:
            raise Mistake(f"cannot read {self.path}: {error.strerror}") from None
        whole = text[: text.rfind(b"\n") + 1]
        lines = [line for line in enumerate(whole.splitlines(), self._line + 1) if line[1].strip()]
        new = [self._parsed(number, line) for number, line in lines]  # all of them, or none
        for client, search in new:
            self.found.setdefault(client, []).append(search)
        self._read += len(whole)
        self._line += whole.count(b"\n")

    def _parsed(self, number: int, line: bytes) -> tuple[int, Search]:
        where = f"{self.path}, line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Mistake(f"{where} is not JSON: {error}") from None
        known = {"query", "shown", "clicked", "client"}
        fits = isinstance(content, dict) and {"query", "shown", "clicked"} <= set(content) <= known
        keys = "must have query, shown and clicked, and may have client"
        require(fits, f"{where} {keys}: got {shown(content)}")
        query, client = str(content["query"]), content.get("client", 0)
        unknown = f"{where}: the data has no query {shown(query)}"
        require(query in self._queries, f"{unknown}: remove the line, or correct the id")
        row = self._queries[query]
        documents = int(self.data.offsets[row + 1] - self.data.offsets[row])
        listed = _places(content["shown"], documents, f"{where}: shown")
        require(bool(listed), f"{where}: no document was shown: remove the line")
        clicked = _places(content["clicked"], len(listed), f"{where}: clicked")
        own = isinstance(client, int) and 0 <= client < self.clients
        require(own, f"{where}: client {shown(client)} is not in 0 .. {self.clients - 1}")
        return client, Search(row, listed, clicked)


def _places(value: object, count: int, where: str) -> tuple[int, ...]:
    fits = isinstance(value, list) and all(type(i) is int and 0 <= i < count for i in value)
    require(fits, f"{where} must be numbers in 0 .. {count - 1}, got {shown(value)}")
    assert isinstance(value, list)
    require(len(set(value)) == len(value), f"{where} names one twice: {shown(value)}")
    return tuple(value)


@dataclass
class Logged:
    """The engine of a node whose clicks come from a log. The position of a client is the number of
    searches that it has learned from."""

    learner: Learner
    ranker: Ranker
    log: Log
    sessions: int  # searches of a round
    seed: int
    memory: Array  # (clients, numbers)
    privacy: Privatizer | None = None
    notes: tuple[str, ...] = ()
    positions: Array = field(init=False)  # (clients,) int64

    def __post_init__(self) -> None:
        self.positions = np.zeros(len(self.memory), np.int64)
        rewards = f"{type(self.learner).__name__} sends rewards for lists that it chooses itself"
        require(
            self.learner.reward_levels == 0,
            f"{rewards}: it cannot learn from a log; use another learner, or leave clicks out",
        )

    def collect(self, ask: Ask, clients: Array) -> Answers:
        """The messages of the clients that have enough new searches."""
        self.log.look()
        updates, ids = [], []
        for id in clients.tolist():
            position = int(self.positions[id])
            searches = self.log.found.get(id, [])[position : position + self.sessions]
            if len(searches) < self.sessions:
                continue
            ranking = stream(self.seed, "ranking", id)
            parts = self.learner, self.ranker, self.privacy, ranking, from_system(id)
            user = ReplayedUser([search.on(self.log.data) for search in searches])
            update, self.memory[id] = Client(id, *parts).step(ask, self.memory[id], user)
            self.positions[id] = position + self.sessions
            updates.append(update)
            ids.append(id)
        arrived = Cohort.stack(updates) if updates else Cohort.empty(len(ask.params))
        return Answers(clients, arrived, None)
