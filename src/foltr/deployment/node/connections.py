"""The connection of a node to the server, and a second one while the node's keys are replaced.

`foltr keys rotate` puts new keys into the folder `next` of the node's keys. The node then connects
with them, too, as soon as the server knows them. It answers on both connections. When the server
has dropped the old key, the old connection ends, and the new keys take the place of the old ones.
So no ask is lost, and a secure sum that was begun with the old key ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from foltr.core.errors import Mistake
from foltr.core.system.log import Event, Tell
from foltr.deployment.flower.node import STRANGER, Asked, Node
from foltr.deployment.keys.keys import NODE_KEY, SIGN_KEY, read_sign_key
from foltr.deployment.keys.rotation import NEXT, promote

LOOK = 0.5  # seconds between two looks at the connections
WAITING = (
    "the server does not know the new key yet (`foltr keys replace`, on the server); the node uses"
    " the old one, and tries again"
)


class Connection:
    """A connection in a thread of its own. Secure sums that are begun on it are signed by the
    private key that is beside its key."""

    def __init__(self, of: Connections, folder: Path, stranger: str) -> None:
        self._of, self._sign_key = of, read_sign_key(folder / SIGN_KEY)
        self.quiet = False
        self.node = Node(
            of.address,
            self._answer,
            folder / NODE_KEY,
            of.roots,
            of.insecure,
            home=of.home,
            stranger=stranger,
            tell=self._tell,
        )
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="foltr-node", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.node.serve(self._stop)
        except BaseException as error:  # noqa: BLE001  # raised again by `check`
            self._failure = error

    def _answer(self, ask: Asked) -> bytes:
        with self._of.alone:
            return self._of.answer(ask, self._sign_key)

    def _tell(self, text: str) -> None:
        if not self.quiet:
            self._of.tell(text)

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


@dataclass
class Connections:
    """The connections of one node, which answers one ask at a time.

    keys: folder of the node's keys
    address, roots, insecure, home: as of `Node`
    answer: function from an ask, and the private key for secure sums, to the answer"""

    keys: Path
    address: str
    answer: Callable[[Asked, bytes], bytes]
    roots: Path | None = None
    insecure: bool = False
    home: str = ""
    tell: Tell = lambda text: None
    alone: threading.Lock = field(default_factory=threading.Lock)
    next: Connection | None = None
    _refused: tuple[int, int] | None = None  # new keys that cannot be used

    def __post_init__(self) -> None:
        self.current = Connection(self, self.keys, STRANGER)

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
        self.current.quiet = True  # it is refused soon, and not asked any more
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
            self.next = Connection(self, self.keys / NEXT, WAITING)
        except (Mistake, OSError) as error:
            self._give_up(found, error)
            return
        self.tell(Event(f"new keys in {self.keys / NEXT}: connecting with them, too", "keys"))

    def _give_up(self, found: tuple[int, int], error: Exception) -> None:
        self._refused, self.next = found, None
        told = f"the new keys cannot be used, the old ones stay in use: {error}"
        self.tell(Event(told, "keys", "warning"))

    def _promote(self) -> None:
        try:
            promote(self.keys)
            self.tell(Event(f"the new keys are in use, and are now those in {self.keys}", "keys"))
        except (Mistake, OSError) as error:
            self._refused = self._next_keys()
            told = f"the new keys are in use, but stay in {self.keys / NEXT}: {error}"
            self.tell(Event(told, "keys", "warning"))
