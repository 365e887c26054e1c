"""The folder of a device: its index, its keys and its place in a federation.

index.db        documents, click log, local model, records of what was sent (mode 0600)
device.key      the private key, if the device has joined a federation
joined.json     the gateway, the client number and the pinned agreement
terms.json      when this device sends, and its privacy budget
page.json       the address of the page, while it runs
ca.pem          the certificate that the gateway's own authority has
*.lock          folders of processes that must be alone; index.db.writing: who writes next"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_data_path

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.spec import checked
from foltr.core.system.files import text_of
from foltr.core.system.lock import Busy as Locked
from foltr.core.system.lock import Claim, claimed
from foltr.core.system.private import replace_private
from foltr.deployment.gateway.device_folder import JOINED, KEY, NEW_KEY, DeviceFolder
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.records import CONVERTED, Records
from foltr.device.click_log import ClickLog
from foltr.device.index import Index, IndexFile

INDEX, TERMS, PAGE, CA = "index.db", "terms.json", "page.json", "ca.pem"
UNREADABLE = "{} cannot be read: restore it, or delete it"
NOT_INDEXED = "nothing is indexed yet: foltr device index FOLDER"


class DeviceRecords(IndexFile, Records):
    """The records of what this device has answered, in its index file. Other connections of the
    same process change the file as well."""

    def _begun(self) -> None:
        pass  # `Home.alone` makes sure that only one process answers

    def forget(self) -> None:
        """Delete what is stored of answers. The file is not made smaller: it has the index."""
        with self._transaction():
            self._delete_clients()

    def restart(self, memory: Array, window: int) -> None:
        """Let the device start from this memory and upload window, whatever it kept before."""
        kept = memory.astype(np.float32).tobytes()
        with self._transaction():
            self._db.execute(
                "update client set memory_before = ?, memory_after = ?, position_before = ?,"
                " position_after = ?",
                (kept, kept, window, window),
            )

    def blank(self) -> None:
        """Make the last message one of zeros. It was made from searches that its user wants
        forgotten, and has not arrived yet."""
        with self._transaction():
            zeros = "substr(payload, 1, 1) || zeroblob(length(payload) - 1)"  # after its type
            self._db.execute(f"update client set payload = cast({zeros} as blob)")
            self._db.execute(f"drop table if exists {CONVERTED}")

    def set_memory(self, memory: Array) -> None:
        """Replace what the device keeps between messages, because its user wants searches
        forgotten. Which upload window is sent next does not change."""
        kept = memory.astype(np.float32).tobytes()
        with self._transaction():
            self._db.execute("update client set memory_before = ?, memory_after = ?", (kept, kept))
            self._db.execute(f"drop table if exists {CONVERTED}")

    def _position(self, number: np.float32) -> int:
        """Earlier versions stored an upload window as a float32, which tells windows from 2^24 on
        not apart: then it is the last one that it can be, so that no search is sent twice."""
        (last,) = self._db.execute("select max(epoch) from epoch").fetchone()
        return int(last) if last is not None and np.float32(last) == number else int(number)


class FederationFiles(DeviceFolder):
    """The files of a device that is in a federation. Its records are in the index file."""

    @property
    def records_file(self) -> Path:
        return self.folder / INDEX

    def records(self, agreed: Agreement) -> DeviceRecords:
        return DeviceRecords(self.records_file, agreed.id, agreed.text, with_log=True)

    def delete_keys(self) -> None:
        """Delete the device's key: the gateway does not accept it any more."""
        for name in (KEY, NEW_KEY):
            (self.folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget where the device has joined."""
        for name in (TERMS, CA, JOINED):  # without the last one, nothing would tell of the others
            (self.folder / name).unlink(missing_ok=True)


@checked
@dataclass(frozen=True)
class Terms:
    """What the user of this device has agreed to, beside the federation's agreement.

    Fields
        gateway: its address, https://HOST:PORT
        searches: searches after which the device sends
        days: days after which it sends what it has, if there are fewer searches
        epsilon: privacy budget of a period; None where updates are sent without noise
        period: days of the budget's period"""

    gateway: str
    searches: int = 50
    days: float = 7.0
    epsilon: float | None = 1.0
    period: float = 365.0

    def __post_init__(self) -> None:
        require(self.searches >= 1, f"searches must be >= 1, got {self.searches}")
        require(self.days > 0.0, f"days must be > 0, got {self.days}")
        budget = self.epsilon is None or self.epsilon > 0.0
        require(budget, f"epsilon must be > 0, got {self.epsilon}")
        require(self.period > 0.0, f"period must be > 0, got {self.period}")


@dataclass(frozen=True)
class Home:
    """A device's folder."""

    folder: Path

    @property
    def index_file(self) -> Path:
        return self.folder / INDEX

    @property
    def federation(self) -> FederationFiles:
        return FederationFiles(self.folder)

    @property
    def tls(self) -> ssl.SSLContext:
        """The certificates that this device trusts."""
        ca = self.folder / CA
        return trusting(ca if ca.exists() else None)

    def made(self) -> Home:
        """Make the folder, for its owner alone."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Mistake(f"cannot make {self.folder}: {error.strerror}") from None
        return self

    def index(self) -> Index:
        return Index(self.made().index_file)

    def existing(self) -> Index:
        """The index, if there is one."""
        require(self.index_file.exists(), NOT_INDEXED)
        return Index(self.index_file)

    def log(self) -> ClickLog:
        return ClickLog(self.made().index_file)

    def delete_index(self) -> None:
        """Delete the file of the index, with everything in it. No process may use it."""
        for end in ("", "-wal", "-shm", "-journal", ".writing"):
            (self.folder / f"{INDEX}{end}").unlink(missing_ok=True)

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Within it, no other process does `what` (page, indexing) with this folder."""
        lock = self.made().folder / f"{what}.lock"
        lock.mkdir(exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(Claim(lock).held(wait=False))
            except Locked:
                raise Busy(
                    f"another process does this already ({what} of {self.folder})"
                ) from None
            yield

    @contextmanager
    def without_page(self) -> Iterator[None]:
        """Within it, the search page does not run."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.alone("page"))
            except Busy:
                pid = (claimed(self.folder / "page.lock") or {}).get("pid", "unknown")
                raise Mistake(
                    f"the search page of {self.folder} runs (process {pid}): stop it first, then"
                    " try again"
                ) from None
            self.set_page(None)  # of a page that was killed
            yield

    # --- the federation ---

    def agreed(self, log: ClickLog) -> Agreement | None:
        """The agreement of the federation that this device is in; None if it is in none. Files of
        an attempt to join or to leave that was interrupted do not count."""
        joined = self.federation.joined
        found = None if joined is None else Agreement.from_text(joined["agreement"])
        return found if found is not None and found.id == log.period.federation else None

    @property
    def terms(self) -> Terms | None:
        content = self._json(TERMS)
        try:
            return None if content is None else Terms(**content)
        except (TypeError, Mistake):
            raise Mistake(UNREADABLE.format(self.folder / TERMS)) from None

    def set_terms(self, terms: Terms) -> None:
        replace_private(self.folder / TERMS, json.dumps(asdict(terms)).encode())

    @property
    def page(self) -> str | None:
        """The address of the running page, with its token."""
        content = self._json(PAGE)
        return None if content is None else str(content.get("address"))

    def set_page(self, address: str | None) -> None:
        if address is None:
            (self.folder / PAGE).unlink(missing_ok=True)
        else:
            replace_private(self.folder / PAGE, json.dumps({"address": address}).encode())

    def _json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            return {**json.loads(text_of(path))}
        except (OSError, ValueError, TypeError):
            raise Mistake(UNREADABLE.format(path)) from None


class Busy(Mistake):
    """Another process does this with the folder."""


def default_folder() -> Path:
    """The folder of this user's device: FOLTR_DEVICE, or in the user's data folder."""
    named = os.environ.get("FOLTR_DEVICE")
    return Path(named).expanduser() if named else user_data_path("foltr") / "device"
