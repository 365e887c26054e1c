"""The connection of a node to the server, and a second one while the node's keys are replaced.

`foltr keys rotate` puts new keys into the folder `next` of the node's keys. The node then connects
with them, too, as soon as the server knows them. It answers on both connections. When the server
has dropped the old key, the old connection ends, and the new keys take the place of the old ones.
So no ask is lost, and a secure sum that was begun with the old key ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from foltr.core.errors import Mistake
from foltr.core.system.log import Event, Tell
from foltr.core.system.state_file import Unusable
from foltr.deployment.flower.node import Node
from foltr.deployment.keys.keys import NODE_KEY, SIGN_KEY, read_sign_key
from foltr.deployment.keys.rotation import NEXT, promote
from foltr.deployment.protocol.participant import Participant

LOOK = 0.5  # seconds between two looks at the connections
WAITING = (
    "the server does not know the new key yet (`foltr keys replace`, on the server); the node uses"
    " the old one, and tries again"
)


class Connection:
    """A connection in a thread of its own."""

    def __init__(self, node: Node) -> None:
        self.node, self._stop = node, threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="foltr-node", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.node.serve(self._stop)
        except BaseException as error:  # noqa: BLE001  # raised again by `check`
            self._failure = error

    def check(self) -> None:
        """Raise the error that ended the connection, if one did."""
        if self._failure is not None:
            raise self._failure

    def leave(self) -> None:
        """End the connection soon."""
        self._stop.set()

    def end(self) -> None:
        """End the connection, after the answer that is being computed."""
        self.leave()
        self._thread.join()


class Connections:
    """The connections of one node.

    keys: folder of the node's keys.
    connect: makes the connection of a key file and the private key for secure sums."""

    def __init__(
        self, keys: Path, connect: Callable[[Path, bytes], Node], tell: Tell = lambda text: None
    ) -> None:
        self.keys, self._connect, self._tell = keys, connect, tell
        self._refused: tuple[int, int] | None = None  # new keys that cannot be used
        self.next: Connection | None = None
        self.current = self._open(keys)

    def _open(self, folder: Path) -> Connection:
        return Connection(self._connect(folder / NODE_KEY, read_sign_key(folder / SIGN_KEY)))

    def serve(self, stop: threading.Event, looked: Callable[[Node], None]) -> None:
        """Answer asks until `stop` is set. `looked` is called twice a second. Raises the error
        that ended the connection."""
        try:
            while not stop.wait(LOOK):
                self.look()
                self.current.check()
                looked(self.current.node)
        finally:
            open = [each for each in (self.current, self.next) if each is not None]
            for each in open:
                each.leave()
            for each in open:
                each.end()

    def look(self) -> None:
        """Connect with new keys if there are some, and end the connection that they replace."""
        found = self._next_keys()
        if found is None:
            if self.next is not None:  # the user has deleted them
                self.next.end()
                self.next = None
            return
        if self.next is None and found != self._refused:
            self._begin(found)
        if self.next is None:
            return
        try:
            self.next.check()
        except Mistake as error:
            self._give_up(found, error)
            return
        if not self.next.node.connected:
            return
        self.current.node.tell = lambda text: None  # it is refused soon, and not asked any more
        if self.current.node.unknown:
            self.current.end()
            self.current, self.next = self.next, None
            self._promote()

    def _next_keys(self) -> tuple[int, int] | None:
        """What identifies the new keys; None if there are none."""
        try:
            found = (self.keys / NEXT / NODE_KEY).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def _begin(self, found: tuple[int, int]) -> None:
        try:
            self.next = self._open(self.keys / NEXT)
        except (Mistake, OSError) as error:
            self._give_up(found, error)
            return
        self.next.node.stranger = WAITING
        self._tell(Event(f"new keys in {self.keys / NEXT}: connecting with them, too", "keys"))

    def _give_up(self, found: tuple[int, int], error: Exception) -> None:
        self._refused, self.next = found, None
        told = f"the new keys cannot be used, the old ones stay in use: {error}"
        self._tell(Event(told, "keys", "warning"))

    def _promote(self) -> None:
        try:
            promote(self.keys)
            self._tell(Event(f"the new keys are in use, and are now those in {self.keys}", "keys"))
        except (Mistake, OSError) as error:
            self._refused = self._next_keys()
            told = f"the new keys are in use, but stay in {self.keys / NEXT}: {error}"
            self._tell(Event(told, "keys", "warning"))


@dataclass
class Answering:
    """How the connections of one participant answer: one ask at a time."""

    participant: Participant
    answer: Callable[[bytes], bytes]
    last_round: int | None = None  # the last one in which a client answered
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.last_round = self.participant.records.last_round()

    def by(self, sign_key: bytes) -> Callable[[bytes], bytes]:
        """The function that answers on the connection of a key. Secure sums that are begun there
        are signed by `sign_key`."""

        def answered(text: bytes) -> bytes:
            with self._alone:
                if self.participant.sums is not None:
                    self.participant.sums.key = sign_key
                made = self.answer(text)
                with suppress(Unusable):  # a full disk
                    self.last_round = self.participant.records.last_round()
                return made

        return answered
