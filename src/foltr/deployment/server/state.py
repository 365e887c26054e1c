"""The state of a federation's server: one SQLite file, and the model as a file beside it.

state.db      the agreement, the seed, the roster so far, the server's state after the last round,
              the models of the last rounds, a line per round, who was asked and has answered, who
              was forgotten, and the backups that were made
ranker.json   the model when the server last stopped, for `foltr.load_ranker`

`state_folder.py` begins a folder, and converts one of an earlier foltr."""

from __future__ import annotations

import io
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.federation import State
from foltr.core.scoring import numbered
from foltr.core.system.state_file import StateFile
from foltr.deployment.keys.roster import Roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.simulation.runs.trained import TrainedRanker

FILE, RANKER = "state.db", "ranker.json"
FORMAT = b"1"  # of the tables
BUSY_MILLISECONDS = 10_000  # for which a process waits while another one writes
PRAGMAS = (f"busy_timeout = {BUSY_MILLISECONDS}", "journal_mode = wal", "synchronous = full")
TABLES = """
create table if not exists array (
    part text not null, number integer not null, value blob not null,
    primary key (part, number)) without rowid;
create table if not exists model (round integer primary key, params blob not null);
create table if not exists round (round integer primary key, about text not null);
create table if not exists asked (
    round integer not null, client integer not null, primary key (round, client)) without rowid;
create table if not exists took_part (
    round integer not null, client integer not null, primary key (round, client)) without rowid;
create table if not exists contributor (client integer primary key);
create table if not exists forgotten_node (
    name text not null unique, pending integer not null, wished integer not null);
create table if not exists forgotten_client (
    client integer not null unique, pending integer not null, untold integer not null);
create table if not exists backup (path text not null unique, round integer not null,
    made text not null);
"""


@dataclass(frozen=True)
class Plan:
    """How to unlearn some nodes, and some clients of gateways."""

    nodes: tuple[str, ...]  # names
    first: int  # first round of unlearning
    stored: tuple[int, ...]  # stored rounds that are repeated
    sessions: int  # searches of each client in these rounds
    erased: bool = False  # whether the earlier models are deleted
    clients: tuple[int, ...] = ()  # clients of gateways

    @property
    def whom(self) -> str:
        many = len(self.clients)
        devices = [f"{many:,} device{'s' if many > 1 else ''}"] if many else []
        return ", ".join([*self.nodes, *devices])


@dataclass(frozen=True)
class Forgotten:
    """Who was unlearned, and who waits for it: nodes, and clients of gateways."""

    nodes: tuple[str, ...] = ()  # unlearned
    pending: tuple[str, ...] = ()  # nodes that are to be unlearned before the next round
    wished: tuple[str, ...] = ()  # nodes of both kinds that asked for it themselves
    clients: tuple[int, ...] = ()  # unlearned
    pending_clients: tuple[int, ...] = ()
    untold_clients: tuple[int, ...] = ()  # unlearned, and their gateway does not know yet
    since: int = 0  # first round whose model can be restored
    compared: int = 0  # round from which the guard compares models
    restarted: int = 0  # round in which the model started again
    plan: Plan | None = None  # that is carried out now


@dataclass(frozen=True)
class Restored:
    """The backup from which a state was restored; the server has not continued since then."""

    backup: str
    round: int  # rounds that were done
    made: str
    restored: str  # when


class ServerState(StateFile):
    """The state of a server in the file `path`; None keeps it in memory."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "the server's state", TABLES, PRAGMAS)
        later = f"{path} was made by a later foltr: update foltr"
        require(self.pin("format", FORMAT), later)

    @property
    def folder(self) -> Path:
        assert self.path is not None
        return self.path.parent

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written within is on disk at the end: all of it, or nothing."""
        with self._lock:
            if self._db.in_transaction:
                yield
            else:
                with self._transaction():
                    yield

    # --- the federation ---

    def check_agreement(self, agreed: Agreement) -> None:
        """Refuse the state of another federation. A new state belongs to this one."""
        if not self.pin("agreement", agreed.text.encode()):
            found = agreed.differences(self.agreement, "in the settings", "in the folder")
            raise Mistake(
                f"{self.folder} is the state of another federation: {'; '.join(found)}. Use"
                " another state folder, or its original settings"
            )

    @property
    def agreement(self) -> str:
        """The text of the agreement; "" if there is none yet."""
        return (self.about("agreement") or b"").decode()

    def check_roster(self, roster: Roster) -> None:
        """Refuse a roster from which a node was removed or in which one was changed, because the
        numbers of clients would change. New nodes are stored, and keys that replaced others."""
        seats = [[seat.name, seat.clients, seat.key.decode()] for seat in roster.seats]
        known = json.loads(self.about("roster") or b"[]")
        fits = len(seats) >= len(known) and all(
            now[:2] == before[:2] and before[2].encode() in (seat.key, *seat.replaced)
            for now, before, seat in zip(seats, known, roster.seats, strict=False)
        )
        require(
            fits,
            f"the roster does not fit {self.folder}: a node was removed or changed: restore its"
            " entry, and revoke it instead",
        )
        if seats != known:
            self.set_about("roster", json.dumps(seats).encode())

    def seed(self, given: int | None) -> int:
        """The seed of the server's random draws: the given one, or one that is drawn once and
        stored."""
        if given is not None:
            return given
        self.pin("seed", str(secrets.randbits(63)).encode())
        return int(self.about("seed") or b"")

    # --- the model ---

    def save(self, state: State) -> None:
        """Store the server's state after a round."""
        arrays = [("params", 0, state.params)]
        arrays += [("aggregator", i, each) for i, each in enumerate(state.aggregator)]
        arrays += [("optimizer", i, each) for i, each in enumerate(state.optimizer)]
        with self.together():
            self._db.execute("delete from array")
            rows = [(part, number, _blob(each)) for part, number, each in arrays]
            self._db.executemany("insert into array values (?, ?, ?)", rows)
            self.set_about("rounds", json.dumps([state.t, state.withheld]).encode())

    def load(self) -> State | None:
        rounds = self.about("rounds")
        if rounds is None:
            return None
        parts: dict[str, list[Array]] = {"params": [], "aggregator": [], "optimizer": []}
        for part, value in self._rows("select part, value from array order by part, number"):
            parts[part].append(_array(value))
        (params,) = parts["params"]
        t, withheld = json.loads(rounds)
        return State(params, tuple(parts["aggregator"]), tuple(parts["optimizer"]), t, withheld)

    def keep_model(self, t: int, params: Array, keep: int) -> None:
        """Store the model after t rounds, and delete the oldest ones beyond `keep`."""
        oldest = "select round from model order by round desc limit -1 offset ?"
        with self.together():
            self._db.execute("insert or replace into model values (?, ?)", (t, _blob(params)))
            self._db.execute(f"delete from model where round in ({oldest})", (keep,))

    def models(self) -> list[int]:
        """The rounds after which a model is kept."""
        return [t for (t,) in self._rows("select round from model order by round")]

    def model(self, t: int) -> Array:
        rows = self._rows("select params from model where round = ?", (t,))
        if not rows:
            known = self.models()
            nearest = (
                f"choose one of rounds {known[0]} .. {known[-1]}" if known else "none is kept"
            )
            raise Mistake(f"no model of round {t} is kept: {nearest}")
        return _array(rows[0][0])

    def erase_models(self) -> None:
        """Delete all models, and temporary files that a crash left. `truncate_log` then deletes
        them in SQLite's log of changes, too."""
        with self.together():
            self._db.execute("delete from model")
        for file in (self.folder / RANKER, *self.folder.glob(".*")):
            if file.is_file():
                file.unlink(missing_ok=True)

    def save_ranker(self, agreed: Agreement, params: Array) -> Path:
        """Save the model as a file that `foltr.load_ranker` reads, with the names of the features
        if they are more than numbers. Returns its path."""
        model, width = params.astype(np.float32), len(agreed.features)
        names = None if agreed.features == numbered(width) else agreed.features
        TrainedRanker(agreed.ranker, model, width, names).save(self.folder / RANKER)
        return self.folder / RANKER

    # --- rounds, and who takes part in them ---

    def add_round(self, about: Mapping[str, Any]) -> None:
        with self.together():
            row = about["round"], json.dumps(about)
            self._db.execute("insert or replace into round values (?, ?)", row)

    def rounds(self) -> list[dict[str, Any]]:
        rows = self._rows("select about from round order by round")
        return [json.loads(about) for (about,) in rows]

    def add_asked(self, t: int, clients: Array, oldest: int) -> None:
        """For `separation`: store which clients are asked in round t, beside those that were asked
        in it before. Rounds before `oldest` are deleted."""
        with self.together():
            self._db.execute("delete from asked where round < ?", (oldest,))
            self._add("asked", t, clients)

    def asked_between(self, oldest: int, t: int) -> Array:
        """The clients that were asked in the rounds oldest .. t - 1, in ascending order."""
        asked = "select distinct client from asked where ? <= round and round < ? order by client"
        return _ids(self._rows(asked, (oldest, t)))

    def add_participants(self, t: int, clients: Array) -> None:
        """For unlearning: store who answered in a round that devices stored."""
        with self.together():
            self._add("took_part", t, clients)

    def participants(self) -> dict[int, Array]:
        """Stored round -> the clients that answered, since the last unlearning."""
        found: dict[int, list[int]] = {}
        for t, client in self._rows("select round, client from took_part order by round, client"):
            found.setdefault(t, []).append(client)
        return {t: np.array(clients, int) for t, clients in found.items()}

    def contributors(self) -> Array | None:
        """The clients whose updates may be in the model, in ascending order; None if the state is
        of a foltr that did not store them."""
        if self.about("contributors") == b"unknown":
            return None
        return _ids(self._rows("select client from contributor order by client"))

    def add_contributors(self, clients: Array) -> None:
        with self.together():
            rows = ((id,) for id in clients.tolist())
            self._db.executemany("insert or ignore into contributor values (?)", rows)

    def erase_clients(self, left: Array | None) -> None:
        """Delete these clients from the stored rounds and from the contributors; None deletes
        all."""
        with self.together():
            for table in ("took_part", "contributor"):
                if left is None:
                    self._db.execute(f"delete from {table}")
                else:
                    rows = ((id,) for id in left.tolist())
                    self._db.executemany(f"delete from {table} where client = ?", rows)
            if left is None:
                self.delete_about("contributors")

    # --- who was forgotten ---

    @property
    def forgotten(self) -> Forgotten:
        about = json.loads(self.about("forgotten") or b"{}")
        if plan := about.pop("plan", None):
            plan = plan_of(plan)
        nodes = self._rows("select name, pending, wished from forgotten_node order by rowid")
        clients = self._rows("select client, pending, untold from forgotten_client order by rowid")
        return Forgotten(
            nodes=tuple(name for name, pending, _ in nodes if not pending),
            pending=tuple(name for name, pending, _ in nodes if pending),
            wished=tuple(name for name, _, wished in nodes if wished),
            clients=tuple(id for id, pending, _ in clients if not pending),
            pending_clients=tuple(id for id, pending, _ in clients if pending),
            untold_clients=tuple(id for id, _, untold in clients if untold),
            plan=plan,
            **about,
        )

    def set_forgotten(self, now: Forgotten) -> None:
        about = {"since": now.since, "compared": now.compared, "restarted": now.restarted}
        plan = None if now.plan is None else asdict(now.plan)
        wished, untold = set(now.wished), set(now.untold_clients)
        nodes = [
            (name, pending, name in wished) for name, pending in _both(now.nodes, now.pending)
        ]
        both = _both(now.clients, now.pending_clients)
        clients = [(id, pending, id in untold) for id, pending in both]
        with self.together():
            self.set_about("forgotten", json.dumps({**about, "plan": plan}).encode())
            self._db.execute("delete from forgotten_node")
            self._db.executemany("insert into forgotten_node values (?, ?, ?)", nodes)
            self._db.execute("delete from forgotten_client")
            self._db.executemany("insert into forgotten_client values (?, ?, ?)", clients)

    # --- backups ---

    def copy(self) -> bytes:
        """The whole file as it is at one moment, also while another process writes it."""
        with self._told(), closing(sqlite3.connect(":memory:")) as copy:
            self._db.backup(copy)
            content = copy.serialize()
        return (
            content[:18] + b"\1\1" + content[20:]
        )  # without a log beside it, unlike the original

    @classmethod
    def from_copy(cls, content: bytes) -> ServerState:
        """The state in a copy, in memory."""
        state = cls(None)
        with state._told():
            state._db.deserialize(content)
        state.check()
        return state

    @property
    def restored(self) -> Restored | None:
        """The backup from which this state was restored, until the server continues."""
        about = self.about("restored")
        return None if about is None else Restored(**json.loads(about))

    def set_restored(self, restored: Restored) -> None:
        self.set_about("restored", json.dumps(asdict(restored)).encode())

    def continue_restored(self, state: State, forgotten: Forgotten) -> None:
        """Store what a restored server continues with."""
        with self.together():
            self.save(state)
            self.set_forgotten(forgotten)
            self.delete_about("restored")

    def add_backup(self, path: Path, round: int, made: str) -> None:
        with self.together():
            row = str(path.resolve()), round, made
            self._db.execute("insert or replace into backup values (?, ?, ?)", row)

    def backups(self) -> list[tuple[str, int]]:
        """The backups that still exist where they were written, and their rounds."""
        rows = self._rows("select path, round from backup order by rowid")
        return [(path, round) for path, round in rows if Path(path).exists()]

    # --- rows ---

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        with self._told():
            return self._db.execute(query, values).fetchall()

    def _add(self, table: str, t: int, clients: Array) -> None:
        rows = ((t, id) for id in clients.tolist())
        self._db.executemany(f"insert or ignore into {table} values (?, ?)", rows)


def plan_of(content: Mapping[str, Any]) -> Plan:
    """A plan that was stored as JSON."""
    lists = {name: tuple(content.get(name, ())) for name in ("nodes", "stored", "clients")}
    return Plan(**{**content, **lists})


def _both(done: Iterable[Any], pending: Iterable[Any]) -> list[tuple[Any, bool]]:
    """Each of them, and whether it is pending."""
    return [*((each, False) for each in done), *((each, True) for each in pending)]


def _ids(rows: list[tuple[int]]) -> Array:
    return np.array([id for (id,) in rows], np.int64)


def _blob(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _array(blob: bytes) -> Array:
    return np.asarray(np.load(io.BytesIO(blob), allow_pickle=False))
