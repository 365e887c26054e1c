"""The log of searches and clicks, in the file of the index. It never leaves the device: what is
sent is computed from it.

A search is logged when its list is looked at. It stays open for clicks until the next one begins;
then it is learned from, once, and later clicks do not count. So the searches of the log, replayed,
give the ranker that learned from them one by one.

An epoch is the time between two messages of this device (of a device that has not joined a
federation: every 50 searches). The log has the parameters at the beginning of each epoch, so that
what was learned can be computed again without a search that its user wants forgotten. A period is
the time in one federation, or outside of any: its epochs have one learner."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.device.guard import click_order, winner
from foltr.device.index import PRAGMAS, IndexFile

TABLES = """
create table if not exists search (
    id integer primary key autoincrement, time real not null, query text not null,
    epoch integer not null, shown_by text not null, documents blob not null,
    features blob not null, ranking blob not null, teams blob not null, clicks blob not null,
    learned integer not null, sent integer);
create table if not exists opened (
    search integer not null, document integer not null, time real not null, how text not null);
create table if not exists epoch (
    epoch integer primary key, round integer not null, params blob not null,
    memory blob not null);
create table if not exists message (
    federation blob not null, ask blob not null, round integer not null, epoch integer not null,
    time real not null, counted real not null, primary key (federation, ask));
create index if not exists search_epoch on search (epoch);
create index if not exists opened_search on opened (search);
"""
PERIOD = "period"  # name of the present one
AGREEMENT = "agreement "  # beginning of the names of the texts of agreements
COLUMNS = (
    "id, time, query, epoch, shown_by, documents, features, ranking, teams, clicks, learned, sent"
)


@dataclass(frozen=True, eq=False)
class LoggedSearch:
    """A search of the log.

    Fields
        id, time, query: its number, when it was, and what was typed
        epoch: the number of its epoch
        shown_by: which ranker made the list: learned, bm25 or mixed
        documents: the candidates' ids (m,)
        features: theirs (m, f)
        ranking: the list that was shown, as indices into the candidates (k,)
        teams: for a mixed list, whose choice each place is (k,): 1 learned, 2 BM25, 0 both
        clicks: which places were clicked (k,)
        learned: whether it was learned from; its clicks are then final
        sent: the server's round whose message it is in; None for none yet"""

    id: int
    time: float
    query: str
    epoch: int
    shown_by: str
    documents: Array
    features: Array
    ranking: Array
    teams: Array
    clicks: Array
    learned: bool = False
    sent: int | None = None

    @property
    def session(self) -> tuple[Array, Array, Array]:
        return self.features, self.ranking, self.clicks


class Epoch(NamedTuple):
    """What the ranker starts from in an epoch."""

    epoch: int
    round: int  # rounds that the server had made; 0 before the first one, or without a server
    params: Array  # the server's parameters (d,)
    memory: Array  # what the learner keeps on the device


class Period(NamedTuple):
    """The epochs since the device joined a federation, or left one."""

    first: int = 0  # the first of them
    federation: bytes = b""  # the agreement's id; empty if the device is in no federation


class ClickLog(IndexFile):
    """The log in the index file at `path`; None for one in memory."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "the index", TABLES, PRAGMAS)

    # --- searches ---

    def add(self, search: LoggedSearch) -> LoggedSearch:
        """Log a search. Returns it with its number."""
        packed = zlib.compress(search.features.astype(np.float32).tobytes(), 1)
        row = (
            search.time, search.query, search.epoch, search.shown_by,
            search.documents.astype(np.int64).tobytes(), packed,
            search.ranking.astype(np.int32).tobytes(), search.teams.astype(np.uint8).tobytes(),
            click_order(search.clicks).tobytes(), int(search.learned), search.sent,
        )  # fmt: skip
        with self._transaction():
            id = self._db.execute(
                f"insert into search ({COLUMNS}) values (null,{','.join('?' * 11)})", row
            ).lastrowid
        assert id is not None
        return replace(search, id=id)

    def click(self, id: int, document: int, time: float, how: str) -> bool:
        """Note that a document of a list was opened. Returns whether it is a click to learn from:
        not if the search is closed already."""
        with self._transaction():
            rows = self._rows(
                "select documents, ranking, clicks, learned from search where id = ?", (id,)
            )
            if not rows:
                raise Mistake(f"there is no search {id} in the log")
            documents, ranking, clicks, learned = rows[0]
            shown = np.frombuffer(documents, np.int64)[np.frombuffer(ranking, np.int32)]
            places = np.flatnonzero(shown == document)
            if not len(places):
                raise Mistake(f"document {document} is not in the list of search {id}")
            self._db.execute("insert into opened values (?,?,?,?)", (id, document, time, how))
            if learned:
                return False
            # the stored clicks say which was first, second, ...; 0 where there was none
            order = np.frombuffer(clicks, np.uint8).copy()
            order[places[0]] = min(int(order.max()) + 1, 255)
            self._db.execute("update search set clicks = ? where id = ?", (order.tobytes(), id))
        return True

    def close_search(self, id: int) -> LoggedSearch:
        """Make a search's clicks final: it is learned from now. Returns it with them."""
        with self._transaction():
            self._db.execute("update search set learned = 1 where id = ?", (id,))
            return self.one(id)

    def one(self, id: int) -> LoggedSearch:
        for search in self._searches("where id = ?", id):
            return search
        raise Mistake(f"there is no search {id} in the log")

    def of_epoch(self, epoch: int) -> list[LoggedSearch]:
        """The searches that were learned from in an epoch, in order."""
        return self._searches("where epoch = ? and learned = 1 order by id", epoch)

    def unfinished(self) -> list[LoggedSearch]:
        """The searches that are still open for clicks."""
        return self._searches("where learned = 0 order by id")

    def last(self, most: int, before: int | None = None) -> list[LoggedSearch]:
        """The last searches, newest first."""
        older = 2**62 if before is None else before
        return self._searches("where id < ? order by id desc limit ?", older, most)

    def _searches(self, which: str, *values: object) -> list[LoggedSearch]:
        return [
            _search(*row) for row in self._rows(f"select {COLUMNS} from search {which}", values)
        ]

    def opened(self, id: int) -> list[int]:
        """The documents of a search that were opened, in order."""
        rows = self._rows("select document from opened where search = ? order by time", (id,))
        return list(dict.fromkeys(document for (document,) in rows))

    def outcomes(self, most: int) -> list[int]:
        """Who won the last mixed lists, oldest first (`guard.winner`)."""
        rows = self._rows(
            "select teams, clicks from search where shown_by = 'mixed' and learned = 1 order by id"
            " desc limit ?",
            (most,),
        )
        return [
            winner(np.frombuffer(teams, np.uint8), np.frombuffer(order, np.uint8))
            for teams, order in reversed(rows)
        ]

    def learned(self) -> int:
        """The number of searches that were learned from."""
        ((count,),) = self._rows("select count(*) from search where learned = 1")
        return int(count)

    def counts(self) -> tuple[int, int]:
        """The number of searches, and of those with a click."""
        ((searches, clicked),) = self._rows(
            "select count(*), coalesce(sum(ltrim(hex(clicks), '0') <> ''), 0) from search"
        )
        return int(searches), int(clicked)

    def forget(self, ids: Sequence[int] | None, epochs: Sequence[Epoch], first: int) -> None:
        """Delete searches (None for all) with what was opened in them, and store epochs that were
        computed without them. Epochs before `first` are deleted. All of it happens, or nothing."""
        with self._transaction():
            if ids is None:
                self._db.execute("delete from search")
                self._db.execute("delete from opened")
            for id in ids or ():
                self._db.execute("delete from search where id = ?", (id,))
                self._db.execute("delete from opened where search = ?", (id,))
            for each in epochs:
                self._store(each)
            self._db.execute("delete from epoch where epoch < ?", (first,))

    # --- messages ---

    def note_message(
        self, federation: bytes, ask: bytes, round: int, epoch: int, memory: Array, time: float
    ) -> bool:
        """Note that the searches of an epoch are in the message to `ask` (its hash), the answer
        in a round. `memory` is what the device keeps then. Returns whether this was new: noting it
        again changes nothing. For the budget message times never decrease, even if the clock is
        set back."""
        with self._transaction():
            ((last,),) = self._rows("select max(counted) from message")
            row = federation, ask, round, epoch, time, max(time, last or 0.0)
            new = self._db.execute("insert or ignore into message values (?,?,?,?,?,?)", row)
            if not new.rowcount:
                return False
            self._db.execute(
                "update search set sent = ? where epoch = ? and learned = 1", (round, epoch)
            )
            self._db.execute(
                "update epoch set memory = ? where epoch = ?",
                (memory.astype(np.float32).tobytes(), epoch + 1),
            )
        return True

    def messages_by_federation(self, since: float) -> dict[bytes, int]:
        """The number of messages to each federation since a time."""
        return dict(
            self._rows(
                "select federation, count(*) from message where counted >= ? group by federation",
                (since,),
            )
        )

    def messages(self, federation: bytes | None = None) -> list[tuple[int, float]]:
        """Round and time of the messages, in order; to one federation, or to all."""
        which, values = ("", ()) if federation is None else ("where federation = ?", (federation,))
        return self._rows(f"select round, time from message {which} order by rowid", values)

    def round_before(self, period: Period) -> int:
        """The last round for which a message was made to the federation of a period before the
        period began; -1 for none."""
        ((last,),) = self._rows(
            "select max(round) from message where federation = ? and epoch < ?",
            (period.federation, period.first),
        )
        return -1 if last is None else int(last)

    def waiting(self, first: int) -> int:
        """The number of searches since an epoch that are learned from and in no message."""
        ((count,),) = self._rows(
            "select count(*) from search where epoch >= ? and learned = 1 and sent is null",
            (first,),
        )
        return int(count)

    # --- periods ---

    @property
    def period(self) -> Period:
        first, _, federation = (self.about(PERIOD) or b"0 ").partition(b" ")
        return Period(int(first), bytes.fromhex(federation.decode()))

    def agreement(self, federation: bytes) -> str:
        """The text of the agreement of a federation that the device has joined once."""
        return (self.about(AGREEMENT + federation.hex()) or b"").decode()

    def keep_agreement(self, federation: bytes, text: str) -> None:
        """Keep the text of a federation's agreement: its messages count for the budget also when
        the device has left it."""
        self.pin(AGREEMENT + federation.hex(), text.encode())

    def begin_period(self, epoch: Epoch, federation: bytes = b"") -> None:
        """Begin a period with this epoch, in a federation or in none. Searches that are open
        belong to it."""
        with self._transaction():
            self._store(epoch)
            self._db.execute("update search set epoch = ? where learned = 0", (epoch.epoch,))
            self.set_about(PERIOD, f"{epoch.epoch} {federation.hex()}".encode())

    # --- epochs ---

    def epoch(self) -> Epoch | None:
        """The present epoch; None before the first one."""
        return next(iter(self._epochs("order by epoch desc limit 1")), None)

    def epochs(self, first: int) -> list[Epoch]:
        """The epochs from `first` on."""
        return self._epochs("where epoch >= ? order by epoch", first)

    def _epochs(self, which: str, *values: object) -> list[Epoch]:
        rows = self._rows(f"select epoch, round, params, memory from epoch {which}", values)
        return [
            Epoch(n, t, np.frombuffer(params, np.float32), np.frombuffer(memory, np.float32))
            for n, t, params, memory in rows
        ]

    def set_epochs(self, epochs: Sequence[Epoch], most: int | None = None) -> None:
        """Store epochs, all or none. With `most`, the epoch before the first of them keeps so many
        of its searches; the rest belong to the new one."""
        with self._transaction():
            for each in epochs:
                self._store(each)
            if most is not None:
                begun, before = epochs[0].epoch, epochs[0].epoch - 1
                self._db.execute(
                    "update search set epoch = ? where epoch = ? and id not in (select id from"
                    " search where epoch = ? and learned = 1 order by id limit ?)",
                    (begun, before, before, most),
                )

    def drop_epochs(self) -> None:
        """Delete all epochs: the ranker begins again."""
        with self._transaction():
            self._db.execute("delete from epoch")

    def _store(self, epoch: Epoch) -> None:
        row = epoch.epoch, epoch.round, epoch.params.tobytes(), epoch.memory.tobytes()
        self._db.execute("insert or replace into epoch values (?,?,?,?)", row)


def _search(
    id: int, time: float, query: str, epoch: int, shown_by: str, documents: bytes,
    features: bytes, ranking: bytes, teams: bytes, clicks: bytes, learned: int, sent: int | None,
) -> LoggedSearch:  # fmt: skip
    ids = np.frombuffer(documents, np.int64)
    return LoggedSearch(
        id, time, query, epoch, shown_by,
        documents=ids,
        features=np.frombuffer(zlib.decompress(features), np.float32).reshape(len(ids), -1),
        ranking=np.frombuffer(ranking, np.int32).astype(np.int64),
        teams=np.frombuffer(teams, np.uint8),
        clicks=np.frombuffer(clicks, np.uint8).astype(bool),
        learned=bool(learned),
        sent=sent,
    )  # fmt: skip
