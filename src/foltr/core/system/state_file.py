"""A SQLite file that keeps the state of a process: transactions, named values, and one error."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foltr.core.errors import Mistake

OPENING_SECONDS = 10.0  # for which another process may be making the same file
OPENING_PAUSE_SECONDS = 0.01
NAMED = "create table if not exists about (name text primary key, value blob not null);"


class Unusable(Mistake):
    """The state cannot be read or written: the disk is full, the folder is not writable, or
    another process has changed the file."""


class Damaged(Unusable):
    """The file is not of SQLite, or its content is destroyed."""


DESTROYED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def code_of(error: Exception) -> int:
    """SQLite's code of an error; 0 for an error that is not SQLite's."""
    return int(vars(error).get("sqlite_errorcode", 0)) & 0xFF  # without what kind of it


class StateFile:
    """A SQLite file of mode 0600, in which deleted values are overwritten. With `path` None it is
    kept in memory.

    what: what the file is, for error messages
    tables, pragmas: statements that make its tables, and more settings of SQLite"""

    def __init__(
        self, path: Path | None, what: str, tables: str, pragmas: tuple[str, ...] = ()
    ) -> None:
        self.path, self._what = path, what
        # Threads share the connection, and Python shares a statement between those that execute
        # the same text: one would take the other's rows.
        self._lock = threading.RLock()
        with self._told():
            if path is not None:  # other users of this machine must not read it
                path.touch(mode=0o600)
            where = ":memory:" if path is None else str(path)
            self._db = sqlite3.connect(where, isolation_level=None, check_same_thread=False)
            for pragma in (*pragmas, "secure_delete = on"):
                self._set(pragma)
            self._db.executescript(NAMED + tables)

    def _set(self, pragma: str) -> None:
        """A setting of SQLite. For `journal_mode` SQLite does not wait while another process makes
        the same file."""
        end = time.monotonic() + OPENING_SECONDS
        while True:
            try:
                self._db.execute(f"pragma {pragma}")
                return
            except sqlite3.OperationalError as error:
                if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(OPENING_PAUSE_SECONDS)

    def about(self, name: str) -> bytes | None:
        """A named value; None if it is not set."""
        with self._told():
            row = self._db.execute("select value from about where name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def set_about(self, name: str, value: bytes) -> None:
        with self._told():
            self._db.execute("insert or replace into about values (?, ?)", (name, value))

    def delete_about(self, name: str) -> None:
        with self._told():
            self._db.execute("delete from about where name = ?", (name,))

    def pin(self, name: str, value: bytes) -> bool:
        """Set a named value, unless it is set already. Returns whether it has this value."""
        known = self.about(name)
        if known is None:
            self.set_about(name, value)
        return known in (None, value)

    @property
    def changes(self) -> int:
        """A number that changes when another process changes the file."""
        with self._told():
            return int(self._db.execute("pragma data_version").fetchone()[0])

    def truncate_log(self, milliseconds: int) -> bool:
        """Empty SQLite's log of changes, which has earlier contents. Returns whether it is empty:
        while another process reads the file, it cannot be. Waits for that at most so long."""
        with self._told():
            usual = self._db.execute("pragma busy_timeout").fetchone()[0]
            self._db.execute(f"pragma busy_timeout = {milliseconds}")
            try:
                busy, _, _ = self._db.execute("pragma wal_checkpoint(truncate)").fetchone()
            finally:
                self._db.execute(f"pragma busy_timeout = {usual}")
        return not busy

    def check(self) -> None:
        """Raise Damaged if the content is destroyed."""
        with self._told():
            (found,) = self._db.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise Damaged(
                f"{self._what} {self.path} is damaged ({found}): restore it, or delete it"
            )

    def close(self) -> None:
        self._db.close()

    def _begun(self) -> None:
        """Called at the beginning of a transaction; may refuse it."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._db.execute("begin immediate")
            try:
                self._begun()
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """One thread at a time uses the file. Errors of SQLite and the system are told."""
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            if code_of(error) in DESTROYED:
                raise Damaged(
                    f"{self._what} {self.path} is damaged ({error}): restore it, or delete it and"
                    " begin anew"
                ) from None
            raise Unusable(
                f"{self._what} {self.path} cannot be used ({error}): free some space, or check the"
                " folder's permissions"
            ) from None
