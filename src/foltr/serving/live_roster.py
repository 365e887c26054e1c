"""The roster of a running server: which nodes may connect, and which are there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake, require
from foltr.federated.keys import roster_key
from foltr.federated.messages import LinkDown, NewSession
from foltr.federated.roster import Roster
from foltr.federated.roster_file import read_roster, revoke_node

LOOK = 2.0  # seconds between two looks at which nodes are there


class Peers(Protocol):
    """Where nodes are registered and seen: a session on a SuperLink."""

    def register(self, public_key: bytes) -> Any: ...

    def unregister(self, public_keys: Iterable[bytes]) -> list[bytes]: ...

    def get_nodes(self) -> Iterable[Any]: ...


@dataclass
class LiveRoster:
    """The roster file, read again when it changes: its nodes are registered with the SuperLink,
    and those that were revoked are shut out."""

    path: Path
    session: Peers
    tell: Callable[[str], None]
    looked: Callable[[], None] = lambda: None  # called after every look at which nodes are there
    _seen: tuple[int, int] = (0, 0)
    _roster: Roster | None = None
    _nodes: dict[int, range] = field(default_factory=dict)
    _looked: float = 0.0

    def __call__(self) -> Roster:
        try:
            status = self.path.stat()
            now = status.st_mtime_ns, status.st_size
            if now != self._seen:
                self._take(read_roster(self.path))
                self._seen = now
        except (OSError, Mistake) as error:
            if self._roster is None:
                raise Mistake(f"{error}") from None
            self.tell(f"the roster is left as it was: {error}")
        assert self._roster is not None
        return self._roster

    def _take(self, roster: Roster) -> None:
        before = () if self._roster is None else self._roster.seats
        kept = [replace(seat, revoked=False) for seat in roster.seats[: len(before)]]
        same = kept == [replace(seat, revoked=False) for seat in before]
        require(same, f"{self.path}: nodes are added at the end, and none is taken out or changed")
        out = self.session.unregister(seat.key for seat in roster.seats if seat.revoked)
        for seat in roster.seats:
            if not seat.revoked:
                self.session.register(seat.key)
            elif seat.key in out:
                self.tell(f"{seat.name} is shut out: its key is revoked")
        self._roster, self._looked = roster, 0.0

    def reachable(self, fresh: bool = False) -> Mapping[int, range]:
        """The nodes that are connected, and their clients."""
        roster = self()
        if fresh or time.monotonic() - self._looked > LOOK:
            found = {}
            try:
                peers = self._there()
            except (LinkDown, NewSession):
                return {}  # nobody can be reached now
            for peer in peers:
                try:
                    clients = roster.clients_of(roster_key(peer.public_key))
                except Mistake:
                    continue  # not a key that a roster can hold
                if len(clients):
                    found[peer.node_id] = clients
            self._nodes, self._looked = found, time.monotonic()
            self.looked()
        return self._nodes

    def _there(self) -> Iterable[Any]:
        try:
            return self.session.get_nodes()
        except NewSession:  # nothing is under way that could be lost with the old one
            return self.session.get_nodes()

    def shut_out(self, name: str) -> None:
        """Revoke a node's key, in the file too."""
        if not self().seat(name).revoked:
            revoke_node(self.path, name)
        self()

    def register_again(self) -> None:
        """Tell the SuperLink all nodes again: it was started anew, and may know none."""
        self._seen = 0, 0

    def known(self, clients: Array) -> dict[int, bytes]:
        """The public keys that sign for these clients in a secure sum."""
        return self().signers(clients)

    def filled(self, clients: Array, n: int) -> Array:
        """These clients, and others that take part in the federation, up to n."""
        others = np.setdiff1d(self().clients, clients)
        return np.append(clients, others[: max(0, n - len(clients))])

    def states(self, refusals: Mapping[int, str] | None = None) -> dict[str, str]:
        """Every node of the roster and how it was at the last look. `refusals`: connected nodes
        that take no part, and why."""
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
    """Wait until all nodes of the roster are there, or for so long."""
    until, told = time.monotonic() + seconds, False
    while time.monotonic() < until and not stopping.is_set():
        there, active = len(live.reachable(fresh=True)), len(live().active)
        if there >= active:
            return
        if not told:
            tell(f"{there} of {active} nodes are there; waiting for them for {seconds:g} s")
            told = True
        stopping.wait(0.2)
