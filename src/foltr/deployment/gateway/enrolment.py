"""The state of a gateway, a SQLite file: invitations, devices, and the answers to the last ask.

Everything is on disk before it is confirmed to a device or to the server. So a gateway that is
killed at any moment loses nothing that it has confirmed. Commands such as `foltr gateway --invite`
change the file while the gateway runs; `changes` tells when to read it again."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from foltr.core.errors import Mistake, require
from foltr.core.system.state_file import StateFile, Unusable

TABLES = """
create table if not exists invitation (
    hash blob primary key, uses integer not null, used integer not null, until real not null);
create table if not exists device (
    client integer primary key, key blob not null unique, state text not null,
    invitation blob not null, enrolled real not null, notice blob);
create table if not exists answer (
    nonce blob not null, client integer not null, frame blob not null,
    primary key (nonce, client)) without rowid;
"""
BUSY = 10_000  # milliseconds to wait for another process's transaction
SHORT, LONG = 50, 1_000  # the same, to empty the log of changes
DAY = 86_400.0
ROUNDS = "rounds"  # name of the number of rounds
STEP = "step"  # name of the nonce of the last ask, and of the time when it first arrived
MODELS = "models"  # name of the models that were passed on
_TIME, _MODEL = struct.Struct("<d"), struct.Struct("<I32s")
OPEN = b"open"  # the invitation of devices that enrolled without one


class Refused(Exception):
    """Why a request of a device is refused: an HTTP status, a text, and more keys of the JSON
    body."""

    def __init__(self, status: int, text: str, **more: object) -> None:
        super().__init__(text)
        self.status, self.more = status, more


class Standing(StrEnum):
    """The state of a device. Only active devices are asked."""

    ACTIVE = "active"
    TO_FORGET = "to be forgotten"  # it has asked to be forgotten
    FORGOTTEN = "forgotten"  # the server has unlearned it; it has not yet been told
    GONE = "gone"  # it was told that it is forgotten
    LEFT = "left"  # it takes part no more; its contributions stay in the model
    REVOKED = "revoked"

    @property
    def said(self) -> str:
        """For a sentence about a device."""
        return SAID[self]


SAID = {
    Standing.ACTIVE: "is active",
    Standing.TO_FORGET: "has asked to be forgotten",
    Standing.FORGOTTEN: "is forgotten",
    Standing.GONE: "is forgotten",
    Standing.LEFT: "has left",
    Standing.REVOKED: "is revoked",
}


@dataclass(frozen=True)
class Enrolled:
    """One device."""

    client: int
    key: bytes  # public Ed25519 key
    standing: Standing
    notice: bytes | None = None  # for a forgotten device: the server's notice, a frame


def _hash(token: str) -> bytes:
    """What is stored of an invitation."""
    return sha256(token.encode()).digest()


DEVICE = "select client, key, state, notice from device"


def _enrolled(row: tuple[int, bytes, str, bytes | None]) -> Enrolled:
    client, key, state, notice = row
    return Enrolled(client, bytes(key), Standing(state), notice)


class Enrolment(StateFile):
    """The state file of a gateway, used by one thread at a time."""

    def __init__(self, path: Path, federation: bytes) -> None:
        pragmas = f"busy_timeout = {BUSY}", "journal_mode = wal", "synchronous = full"
        super().__init__(path, "the gateway's state", TABLES, pragmas)
        if not self.pin("federation", federation):
            raise Mistake(
                f"{path} belongs to another federation: restore the settings, or use another state"
                " folder (there, every device must enrol again)"
            )

    # --- named values ---

    def secret(self) -> bytes:
        """The secret of the tokens, made on first use."""
        kept = self.about("secret")
        if kept is None:
            kept = secrets.token_bytes(32)
            self.set_about("secret", kept)
        return kept

    # --- invitations ---

    def invite(self, uses: int, days: float, now: float) -> str:
        """Make an invitation with which `uses` devices can enrol. Only its hash is stored."""
        require(uses >= 1, f"an invitation must be for at least one device, got {uses}")
        require(0 < days <= 3650, f"days must be in (0, 3650], got {days:g}")
        token = secrets.token_urlsafe(24)
        row = _hash(token), uses, 0, now + days * DAY
        with self._told():
            self._db.execute("insert into invitation values (?, ?, ?, ?)", row)
        return token

    def invitations(self, now: float) -> tuple[int, int]:
        """The number of invitations that are still valid, and of devices that they allow."""
        with self._told():
            row = self._db.execute(
                "select count(*), coalesce(sum(uses - used), 0) from invitation"
                " where used < uses and until > ?",
                (now,),
            ).fetchone()
        return int(row[0]), int(row[1])

    def withdraw(self, token: str | None, now: float) -> int:
        """Make an invitation invalid, or all of them (`token` None). Devices that have enrolled
        with it stay. Returns for how many more devices it was valid."""
        valid, which = "used < uses and until > ?", () if token is None else (_hash(token),)
        one = "" if token is None else " and hash = ?"
        with self._transaction():
            counted = "select count(*), coalesce(sum(uses - used), 0) from invitation"
            row = self._db.execute(f"{counted} where {valid}{one}", (now, *which))
            found, places = row.fetchone()
            if not found:
                raise Mistake(
                    "there is no such invitation that is still valid: nothing to withdraw"
                )
            change = f"update invitation set until = -1 where {valid}{one}"
            self._db.execute(change, (now, *which))
        return int(places)

    # --- devices ---

    def enrol(self, invitation: str | None, key: bytes, numbers: range, now: float) -> int:
        """Enrol a device, and return its client number: the first one that was never used.
        `invitation` None: open enrolment. A device that enrols again gets the same number. Raises
        Refused."""
        with self._transaction():
            row = self._db.execute("select client, state from device where key = ?", (key,))
            if known := row.fetchone():
                if known[1] != Standing.ACTIVE:
                    raise Refused(403, f"the device with this key {Standing(known[1]).said}")
                return int(known[0])
            name = OPEN if invitation is None else _hash(invitation)
            if invitation is not None:
                self._use(name, now)
            row = self._db.execute("select max(client) from device")
            last = row.fetchone()[0]
            client = numbers.start if last is None else int(last) + 1
            if client >= numbers.stop:
                taken = f"all {len(numbers):,} places of this gateway are taken"
                raise Refused(409, f"{taken}: ask its operator for another gateway")
            self._db.execute(
                "insert into device values (?, ?, ?, ?, ?, null)",
                (client, key, Standing.ACTIVE, name, now),
            )
        return client

    def _use(self, name: bytes, now: float) -> None:
        row = self._db.execute("select uses, used, until from invitation where hash = ?", (name,))
        found = row.fetchone()
        if found is None:
            raise Refused(403, "this invitation is unknown: ask the operator for one")
        uses, used, until = found
        if now > until:
            ended = "this invitation has expired or was withdrawn"
            raise Refused(403, f"{ended}: ask the operator for a new one")
        if used >= uses:
            raise Refused(403, "this invitation has been used: ask the operator for a new one")
        self._db.execute("update invitation set used = used + 1 where hash = ?", (name,))

    def devices(self) -> dict[int, Enrolled]:
        with self._told():
            rows = self._db.execute(DEVICE).fetchall()
        return {row[0]: _enrolled(row) for row in rows}

    def set_standing(
        self, notices: Mapping[int, bytes | None], standing: Standing, before: Collection[Standing]
    ) -> dict[int, Enrolled]:
        """Change the standing of these devices, if it is one of `before`. Each gets its notice.
        Returns them as they are then."""
        allowed, found = ", ".join("?" * len(before)), {}
        with self._transaction():
            self._db.executemany(
                "update device set state = ?, notice = ?"
                f" where client = ? and state in ({allowed})",
                [(standing, notice, client, *before) for client, notice in notices.items()],
            )
            for client in notices:
                row = self._db.execute(f"{DEVICE} where client = ?", (client,)).fetchone()
                found[client] = _enrolled(row)
        return found

    def places_left(self, client: int, now: float) -> int:
        """How many more devices can enrol with the invitation of this device."""
        with self._told():
            row = self._db.execute(
                "select uses - used from device join invitation on hash = invitation"
                " where client = ? and until > ?",
                (client, now),
            ).fetchone()
        return 0 if row is None else int(row[0])

    def revoke(self, client: int) -> None:
        """Exclude a device and its key, permanently. Raises a Mistake if it is not active: then it
        is not asked any more."""
        with self._transaction():
            row = self._db.execute("select state from device where client = ?", (client,))
            if (known := row.fetchone()) is None:
                raise Mistake(
                    f"no device has the client number {client}: --keys lists active devices"
                )
            if known[0] != Standing.ACTIVE:
                said = Standing(known[0]).said
                raise Mistake(f"client {client} {said} already, and is not asked any more")
            given = Standing.REVOKED, client
            self._db.execute("update device set state = ? where client = ?", given)

    def replace_key(self, client: int, key: bytes) -> None:
        """Give a device a new key. Raises Refused if another device has it."""
        with self._transaction():
            row = self._db.execute("select client from device where key = ?", (key,)).fetchone()
            if row is not None and int(row[0]) != client:
                raise Refused(409, "another device has this key")
            self._db.execute("update device set key = ? where client = ?", (key, client))

    # --- answers ---

    def begin(
        self, nonce: bytes, round: int, now: float, models: Mapping[int, bytes]
    ) -> tuple[dict[int, bytes], float]:
        """Begin a step, or continue it after a restart: returns the answers that are stored, and
        when the ask first arrived. Answers to earlier asks are deleted. `models` are the digests
        of the models that devices may have, by the round of their first ask."""
        named = b"".join(_MODEL.pack(t, model) for t, model in sorted(models.items()))
        with self._transaction():
            self.set_about(ROUNDS, str(max(round + 1, self.rounds_answered())).encode())
            if self.about(MODELS) != named:
                self.set_about(MODELS, named)
            known = self.about(STEP) or b""
            if known[:16] != nonce:
                known = nonce + _TIME.pack(now)
                self.set_about(STEP, known)
            self._db.execute("delete from answer where nonce != ?", (nonce,))
            rows = self._db.execute("select client, frame from answer").fetchall()
        with suppress(Unusable):  # nothing is left of earlier answers, in no file
            self.truncate_log(SHORT)
        return {client: bytes(frame) for client, frame in rows}, _TIME.unpack(known[16:])[0]

    def models(self) -> dict[int, bytes]:
        """The models that were passed on: the round of the first ask -> the digest."""
        return dict(_MODEL.iter_unpack(self.about(MODELS) or b""))

    def rounds_answered(self) -> int:
        """The number of rounds up to the last one that devices were asked for."""
        return int(self.about(ROUNDS) or b"0")

    def keep(self, answers: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Store answers (nonce, client, frame): all of them, or none if the disk is full."""
        with self._transaction():
            self._db.executemany("insert or ignore into answer values (?, ?, ?)", answers)

    def erase(self, clients: Iterable[int]) -> bool:
        """Delete the stored answers of these clients. Returns whether nothing is left of them on
        disk. While another process reads the file, something is, until the next ask."""
        with self._transaction():
            self._db.executemany("delete from answer where client = ?", [(c,) for c in clients])
        return self.truncate_log(LONG)


# Writes of several requests to disk, in one transaction.

T = TypeVar("T")


@dataclass
class BatchWriter(Generic[T]):
    """Collects items while the disk is busy, and then writes them in one transaction. A flush of
    the disk takes milliseconds, whether it is for one item or for a thousand.

    write: writes a batch; runs in a thread
    written: called in the event loop with every batch that is on disk"""

    write: Callable[[Sequence[T]], None]
    written: Callable[[Sequence[T]], None]
    most: int = 10_000  # items that may wait
    _queue: list[tuple[T, asyncio.Future[None]]] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return len(self._queue) >= self.most

    async def put(self, item: T) -> None:
        """Returns when the item is on disk. Raises what `write` raises."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append((item, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._drain())
        await done

    async def drained(self) -> None:
        """Wait until nothing is left to write."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                items = [item for item, _ in batch]
                try:
                    await asyncio.to_thread(self.write, items)
                    self.written(items)
                except Exception as error:  # noqa: BLE001  # whoever waits gets it
                    for _, done in batch:
                        if not done.done():
                            done.set_exception(error)
                else:
                    for _, done in batch:
                        if not done.done():
                            done.set_result(None)
        finally:
            self._task = None
