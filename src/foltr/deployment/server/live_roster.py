"""The roster of a running server: which nodes may connect, and which are connected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.system.log import Event
from foltr.deployment.keys.keys import roster_key
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import change_node, read_roster, revoke_node
from foltr.deployment.protocol.messages import LinkDown, NewSession

LOOK = 2.0  # seconds for which the list of connected nodes is used before it is fetched again


class Peers(Protocol):
    """Registers nodes and lists the connected ones: a session on a SuperLink."""

    def register(self, public_key: bytes) -> Any: ...

    def unregister(self, public_keys: Iterable[bytes]) -> list[bytes]: ...

    def get_nodes(self) -> Iterable[Any]: ...


@dataclass
class LiveRoster:
    """The roster file, which is read again when it changes. Its nodes are registered with the
    SuperLink; revoked nodes are unregistered."""

    path: Path
    session: Peers
    tell: Callable[[str], None]
    looked: Callable[[], None] = lambda: None  # called when the connected nodes were fetched
    _seen: tuple[int, int] = (0, 0)
    _roster: Roster | None = None
    _nodes: dict[int, range] = field(default_factory=dict)
    _looked: float = 0.0
    _told: str = ""

    def __call__(self) -> Roster:
        """The current roster. A changed file with a mistake is reported, and the previous roster
        is kept."""
        try:
            status = self.path.stat()
            now = status.st_mtime_ns, status.st_size
            if now != self._seen:
                self._take(read_roster(self.path))
                self._seen = now
        except (OSError, Mistake) as error:
            if self._roster is None:
                raise Mistake(f"{error}") from None
            told = f"the roster file has a mistake, the previous roster stays in use: {error}"
            self._say(Event(told, "roster", "warning"))
        assert self._roster is not None
        return self._roster

    def _take(self, roster: Roster) -> None:
        before = self._roster
        require(
            before is None or roster.follows(before),
            f"{self.path}: a node was removed or changed: restore its entry. New nodes are added"
            " at the end; revoke a node instead of removing it; `foltr keys replace` replaces its"
            " key",
        )
        valid = {key for seat in roster.active for key in seat.keys}
        seats = (*roster.seats, *(() if before is None else before.seats))
        known = [key for seat in seats for key in (*seat.keys, *seat.replaced)]
        out = self.session.unregister(key for key in dict.fromkeys(known) if key not in valid)
        for seat in roster.seats:
            for key in () if seat.revoked else seat.keys:
                self.session.register(key)
            if seat.revoked and set(seat.keys) & set(out):
                told = f"{seat.name} is excluded: its key is revoked"
                self.tell(Event(told, "roster", "warning", node=seat.name))
            if set(seat.replaced) & set(out):
                told = f"{seat.name}: the old key is not valid any more"
                self.tell(Event(told, "roster", node=seat.name))
        self._roster, self._looked = roster, 0.0

    def reachable(self, fresh: bool = False) -> Mapping[int, range]:
        """The ids of the connected nodes, and their clients. With `fresh`, the list is fetched
        now. A node that has connected with its new key is asked there, and loses the old key. No
        ask is unanswered at that moment: this is called between rounds."""
        roster = self()
        if fresh or time.monotonic() - self._looked > LOOK:
            try:
                peers = self._there()
            except (LinkDown, NewSession):
                return {}  # no node can be reached now
            found, renewed = dict[int, range](), dict[str, int]()
            for peer in peers:
                try:
                    key = roster_key(peer.public_key)
                except Mistake:
                    continue  # not a key that a roster can hold
                clients, seat = roster.clients_of(key), roster.seat_of(key)
                if seat is not None and len(clients):
                    found[peer.node_id] = clients
                    if key == seat.next_key:
                        renewed[seat.name] = peer.node_id
            for name, node in renewed.items():
                own = found[node]
                found = {id: of for id, of in found.items() if id == node or of != own}
                self._settle(name)
            self._nodes, self._looked = found, time.monotonic()
            self.looked()
        return self._nodes

    def _settle(self, name: str) -> None:
        """Drop the old key of a node that has connected with its new one."""
        try:
            change_node(
                self.path, name, lambda now: now.with_seat(now.seat(name).with_replaced_keys())
            )
        except Mistake as error:  # a disk that is full or read-only
            told = f"{name}: the old key stays valid for now: {error}"
            self._say(Event(told, "roster", "warning", node=name))
            return
        self()

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self.tell(text)

    def _there(self) -> Iterable[Any]:
        try:
            return self.session.get_nodes()
        except NewSession:  # this request works in the new session, too
            return self.session.get_nodes()

    def shut_out(self, name: str) -> None:
        """Exclude a node that was unlearned: revoke its key, also in the roster file. The mark in
        the file outlives the server's state, if that is restored from an older backup."""
        seat = self().seat(name)
        if not (seat.revoked and seat.forgotten):
            revoke_node(self.path, name, forgotten=True)
        self()

    def register_again(self) -> None:
        """Register all nodes again at the next use: a restarted SuperLink may know none."""
        self._seen = 0, 0

    def known(self, clients: Array) -> dict[int, bytes]:
        """The public keys that sign for these clients in a secure sum."""
        return self().signers(clients)

    def filled(self, clients: Array, n: int) -> Array:
        """These clients, and others that take part in the federation, up to n."""
        others = np.setdiff1d(self().clients, clients)
        return np.append(clients, others[: max(0, n - len(clients))])

    def states(self, refusals: Mapping[int, str] | None = None) -> dict[str, str]:
        """Every node of the roster, and its state when the connected nodes were last fetched.
        `refusals`: connected nodes that do not take part, and why."""
        roster, there, why = self._roster, self._nodes, refusals or {}
        if roster is None:
            return {}
        ids = {roster.node_of(own.start).name: node for node, own in there.items()}
        found = {}
        for seat in roster.seats:
            node = ids.get(seat.name)
            if seat.revoked:
                found[seat.name] = "revoked"
            elif node is None:
                found[seat.name] = "away"
            else:
                found[seat.name] = f"refused: {why[node]}" if node in why else "connected"
        return found

    def name_of(self, node: int) -> str:
        """The name of a connected node."""
        own, roster = self._nodes.get(node), self._roster
        return f"node {node}" if own is None or roster is None else roster.node_of(own.start).name


def wait_for_nodes(
    live: LiveRoster, seconds: float, stopping: threading.Event, tell: Callable[[str], None]
) -> None:
    """Wait until all nodes of the roster are connected, or for this many seconds."""
    until, told = time.monotonic() + seconds, False
    while time.monotonic() < until and not stopping.is_set():
        there, active = len(live.reachable(fresh=True)), len(live().active)
        if there >= active:
            return
        if not told:
            tell(f"{there} of {active} nodes are connected; waiting up to {seconds:g} s for all")
            told = True
        stopping.wait(0.2)
