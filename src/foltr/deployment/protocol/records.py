"""The records of a node, a SQLite file. For each client: the memory of its device between rounds,
its position in its log of searches if it learns from one, its last answer, the part of its budget
that is spent, and the norms that unlearning needs.

A round is one transaction. It is on disk before the answer is sent. So after a crash at any moment
the node has all of a round or nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.system.state_file import StateFile, Unusable

CLIENTS = """
create table if not exists client (
    id integer primary key, round integer not null, ask blob not null,
    memory_before blob not null, memory_after blob not null, position_before integer,
    position_after integer, payload blob not null, weight real not null, spent integer not null,
    released integer not null);
"""
NORMS = """
create table if not exists norm (
    round integer not null, client integer not null, norm real not null,
    primary key (round, client)) without rowid;
"""
# Earlier versions stored the position as the last number of the memory, in columns of other names.
# Their rows are converted, and kept in this table; those versions refuse the converted file.
CONVERTED = "client_before_positions"
# set while it is not known whether converted memories end with a position
UNSETTLED = "unsettled"
EARLIER = "earlier"  # name of the numbers that a device had before
COLUMNS = (
    "id, round, ask, memory_before, memory_after, position_before, position_after, payload,"
    " weight, spent, released"
)


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
    # where in its log of searches that round began, and where the next one begins: the number of
    # searches before it or, on a user's device, the upload window; None for clients without a log
    position_before: int | None = None
    position_after: int | None = None


class Records(StateFile):
    """The records of a node's clients. With `path` None they are kept in memory, for
    simulations."""

    def __init__(
        self,
        path: Path | None,
        federation: bytes,
        text: str = "",
        differs: Callable[[str], list[str]] | None = None,
        with_log: bool | None = False,
    ) -> None:
        """`federation` is the agreement's id, `text` its text; `differs` compares it with another
        text, for an error message. `with_log`: the clients learn from logs of searches; None: the
        first engine says so (`settle`)."""
        super().__init__(path, "the node's records", CLIENTS + NORMS)
        self._seen = self.changes
        if not self.pin("federation", federation):
            raise Mistake(
                f"{path} belongs to another federation{self._differences(differs)}: restore the"
                " settings, or use another state folder. There, clients start with a whole budget,"
                " whatever they have spent here"
            )
        self._convert(with_log)
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
                    f"insert or replace into client ({COLUMNS}) values (?,?,?,?,?,?,?,?,?,?,?)",
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
            self._delete_clients()
        with self._told():
            self._db.execute("vacuum")

    def _delete_clients(self) -> None:
        self._db.execute("delete from client")
        self._db.execute("delete from norm")
        self._db.execute(f"drop table if exists {CONVERTED}")

    # --- the file of an earlier version ---

    def _convert(self, with_log: bool | None) -> None:
        """Convert the table of an earlier version, all of it or nothing."""
        if not self._is_earlier():
            return
        with self._transaction():
            if not self._is_earlier():  # another process was faster
                return
            self._db.execute(f"alter table client rename to {CONVERTED}")
            self._db.execute(CLIENTS)
            rows = self._db.execute(
                "select id, round, ask, before, after, payload, weight, spent, released from"
                f" {CONVERTED}"
            ).fetchall()
            if with_log is None:
                self.set_about(UNSETTLED, b"")
            for id, round, ask, before, after, *rest in rows:
                memories, positions = (before, after), (None, None)
                if with_log:
                    memories, positions = zip(*map(self._split, memories), strict=True)
                self._db.execute(
                    f"insert into client ({COLUMNS}) values (?,?,?,?,?,?,?,?,?,?,?)",
                    (id, round, ask, *memories, *positions, *rest),
                )

    def settle(self, with_log: bool) -> bool:
        """Say whether the clients learn from logs, if that was not known when the file of an
        earlier version was converted. Returns whether records changed."""
        if self.about(UNSETTLED) is None:
            return False
        self._seen = self.changes
        with self._transaction():
            self.delete_about(UNSETTLED)
            if not with_log:
                return False
            rows = self._db.execute("select id, memory_before, memory_after from client")
            for id, *memories in rows.fetchall():
                memories, positions = zip(*map(self._split, memories), strict=True)
                self._db.execute(
                    "update client set memory_before = ?, memory_after = ?, position_before = ?,"
                    " position_after = ? where id = ?",
                    (*memories, *positions, id),
                )
        return True

    def _is_earlier(self) -> bool:
        with self._told():
            columns = self._db.execute("select name from pragma_table_info('client')").fetchall()
        return ("before",) in columns

    def _split(self, memory: bytes) -> tuple[bytes, int]:
        """The memory and the position in what an earlier version stored of them."""
        numbers = np.frombuffer(memory, np.float32)
        if not len(numbers) or not np.isfinite(numbers[-1]):
            raise Unusable(
                f"{self.path} has no position in the log of searches: restore it from a backup"
            )
        return memory[:-4], self._position(numbers[-1])

    def _position(self, number: np.float32) -> int:
        """The position that an earlier version stored as a float32."""
        return int(number)

    def _begun(self) -> None:
        if self.changes != self._seen:  # a client could answer twice in a round
            raise Unusable(
                f"{self.path} was changed by another process: run only one node in a state folder"
            )


def _row(record: Record) -> tuple[object, ...]:
    payload = record.payload.dtype.kind.encode() + record.payload.tobytes()
    return (
        record.client, record.round, record.ask, record.before.tobytes(), record.after.tobytes(),
        record.position_before, record.position_after, payload, record.weight, record.spent,
        record.released,
    )  # fmt: skip


def _record(row: tuple[Any, ...]) -> Record:
    client, round, ask, before, after, begin, end, payload, weight, spent, released = row
    return Record(
        client=client,
        round=round,
        ask=ask,
        before=np.frombuffer(before, np.float32),
        after=np.frombuffer(after, np.float32),
        payload=np.frombuffer(payload, np.float32 if payload[:1] == b"f" else np.uint32, offset=1),
        weight=weight,
        spent=spent,
        released=released,
        position_before=begin,
        position_after=end,
    )
