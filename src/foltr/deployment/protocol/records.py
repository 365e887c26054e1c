"""The records of a node, a SQLite file. For each client: the memory of its device between rounds,
its last answer, the part of its budget that is spent, and the norms that unlearning needs.

A round is one transaction. It is on disk before the answer is sent. So after a crash at any moment
the node has all of a round or nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.system.state_file import StateFile, Unusable

TABLES = """
create table if not exists client (
    id integer primary key, round integer not null, ask blob not null, before blob not null,
    after blob not null, payload blob not null, weight real not null, spent integer not null,
    released integer not null);
create table if not exists norm (
    round integer not null, client integer not null, norm real not null,
    primary key (round, client)) without rowid;
"""
EARLIER = "earlier"  # name of the numbers that a device had before
COLUMNS = "id, round, ask, before, after, payload, weight, spent, released"


@dataclass(frozen=True)
class Record:
    """The state of one client after the last round in which it answered."""

    client: int
    round: int
    ask: bytes  # hash of the ask that it answered
    before: Array  # memory of its device before that round
    after: Array  # memory of its device after that round
    payload: Array  # the message that it sent (p,)
    weight: float
    spent: int  # number of rounds in which it answered, without repeated answers
    released: int  # last round whose released secure sum includes its update; -1 for none


class Records(StateFile):
    """The records of a node's clients. With `path` None they are kept in memory, for
    simulations."""

    def __init__(
        self,
        path: Path | None,
        federation: bytes,
        text: str = "",
        differs: Callable[[str], list[str]] | None = None,
    ) -> None:
        """`federation` is the agreement's id, `text` its text; `differs` compares it with another
        text, for an error message."""
        super().__init__(path, "the node's records", TABLES)
        self._seen = self.changes
        if not self.pin("federation", federation):
            raise Mistake(
                f"{path} belongs to another federation{self._differences(differs)}: restore the"
                " settings, or use another state folder. There, clients start with a whole budget,"
                " whatever they have spent here"
            )
        if text:
            self.set_about("agreement", text.encode())

    def _differences(self, differs: Callable[[str], list[str]] | None) -> str:
        kept = self.about("agreement")
        if kept is None or differs is None:
            return ""
        return f" ({'; '.join(differs(kept.decode('utf-8', 'replace')))})"

    def of(self, clients: Iterable[int]) -> dict[int, Record]:
        """The records of these clients. Clients that have never answered have none."""
        found, self._seen = {}, self.changes
        with self._told():
            for client in clients:
                row = self._db.execute(
                    f"select {COLUMNS} from client where id = ?", (client,)
                ).fetchone()
                if row is not None:
                    found[client] = _record(row)
        return found

    def keep(self, records: Iterable[Record], norms: dict[int, float] | None = None) -> None:
        """Store these clients' records of a round: all of them, or none if the disk is full."""
        with self._transaction():
            for record in records:
                self._db.execute(
                    f"insert or replace into client ({COLUMNS}) values (?,?,?,?,?,?,?,?,?)",
                    _row(record),
                )
                if norms and record.client in norms:
                    self._db.execute(
                        "insert or replace into norm values (?, ?, ?)",
                        (record.round, record.client, norms[record.client]),
                    )

    def release(self, clients: Iterable[int], round: int) -> None:
        """Record that a secure sum with these clients' updates of a round is released."""
        with self._transaction():
            for client in clients:
                self._db.execute("update client set released = ? where id = ?", (round, client))

    def norm(self, round: int, client: int) -> float | None:
        """The norm that a client stored in a round, if it did."""
        with self._told():
            found = self._db.execute(
                "select norm from norm where round = ? and client = ?", (round, client)
            ).fetchone()
        return None if found is None else float(found[0])

    def last_round(self) -> int | None:
        """The last round in which a client answered; None if none did."""
        with self._told():
            found = self._db.execute("select max(round) from client").fetchone()
        return None if found[0] is None else int(found[0])

    def rounds_answered(self) -> int:
        """The number of rounds up to the last one in which a client answered."""
        last = self.last_round()
        return 0 if last is None else last + 1

    def renumber(self, client: int) -> None:
        """Give the only client of these records another number. What it has answered and spent
        stays."""
        self._seen = self.changes
        with self._transaction():
            rows = self._db.execute("select id from client union select client from norm")
            if len(found := rows.fetchall()) > 1:
                raise Mistake(f"{self.path} has the records of {len(found)} clients, expected one")
            before = [id for (id,) in found if id != client]
            named = " ".join(map(str, dict.fromkeys([*self.earlier, *before])))
            self.set_about(EARLIER, named.encode())
            self._db.execute("update client set id = ?", (client,))
            self._db.execute("update norm set client = ?", (client,))

    @property
    def earlier(self) -> list[int]:
        """The numbers that the only client of these records had before, and answered under."""
        return [int(word) for word in (self.about(EARLIER) or b"").split()]

    def forget(self) -> None:
        """Delete all records of clients, and return the disk space."""
        self._seen = self.changes  # changes by another process do not matter here
        with self._transaction():
            self._db.execute("delete from client")
            self._db.execute("delete from norm")
        with self._told():
            self._db.execute("vacuum")

    def _begun(self) -> None:
        if self.changes != self._seen:  # a client could answer twice in a round
            raise Unusable(
                f"{self.path} was changed by another process: run only one node in a state folder"
            )


def _row(record: Record) -> tuple[object, ...]:
    payload = record.payload.dtype.kind.encode() + record.payload.tobytes()
    memory = record.before.tobytes(), record.after.tobytes()
    of_round = record.client, record.round, record.ask
    return (*of_round, *memory, payload, record.weight, record.spent, record.released)


def _record(row: tuple[object, ...]) -> Record:
    client, round, ask, before, after, payload, weight, spent, released = row
    assert isinstance(before, bytes) and isinstance(after, bytes) and isinstance(payload, bytes)
    kind = np.float32 if payload[:1] == b"f" else np.uint32
    kept = np.frombuffer(before, np.float32), np.frombuffer(after, np.float32)
    sent = np.frombuffer(payload, kind, offset=1)
    return Record(client, round, ask, *kept, sent, weight, spent, released)  # type: ignore[arg-type]
