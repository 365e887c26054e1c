"""The roster of a running server: which nodes may connect, and which are connected."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.system.log import Event, Tell
from foltr.deployment.keys.device_keys import Signers, server_signers
from foltr.deployment.keys.keys import roster_key
from foltr.deployment.keys.roster import Roster
from foltr.deployment.keys.roster_file import change_node, read_roster, revoke_node
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.messages import LinkDown, NewSession

if TYPE_CHECKING:
    from foltr.deployment.flower.session import Session
    from foltr.deployment.node.flower_client import Seated

LOOK = 2.0  # seconds for which the list of connected nodes is used before it is fetched again


class LiveRoster(Members):
    """The roster file, which is read again when it changes. Its nodes are registered with the
    SuperLink; revoked nodes are unregistered.

    session: registers nodes and lists the connected ones
    device_keys: the file of pinned keys of devices behind gateways; None if there is none"""

    def __init__(
        self, path: Path, session: Session | Seated, tell: Tell, device_keys: Path | None = None
    ) -> None:
        super().__init__({}, pinned=device_keys is not None)
        self.path, self._session, self._tell = path, session, tell
        self._seen = 0, 0  # of the file: its time and size
        self._roster: Roster | None = None
        self._looked = 0.0  # when the nodes were fetched
        self._told = ""
        self._signers: Signers | None = None
        if device_keys is not None:
            self._signers = server_signers(self, path, device_keys, tell)

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
        out = self._session.unregister(key for key in dict.fromkeys(known) if key not in valid)
        for seat in roster.seats:
            for key in () if seat.revoked else seat.keys:
                self._session.register(key)
            if seat.revoked and set(seat.keys) & set(out):
                told = f"{seat.name} is excluded: its key is revoked"
                self._tell(Event(told, "roster", "warning", node=seat.name))
            if set(seat.replaced) & set(out):
                told = f"{seat.name}: the old key is not valid any more"
                self._tell(Event(told, "roster", node=seat.name))
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
            self.nodes, self._looked = found, time.monotonic()
        return self.nodes

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
            self._tell(text)

    def _there(self) -> Iterable[Any]:
        try:
            return self._session.get_nodes()
        except NewSession:  # this request works in the new session, too
            return self._session.get_nodes()

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

    def known(self, clients: Array) -> Mapping[int, bytes]:
        return self().signers(clients) if self._signers is None else self._signers(clients)

    def filled(self, clients: Array, n: int) -> Array:
        if self._signers is not None:
            return self._signers.filled(clients, n)
        others = np.setdiff1d(self().clients, clients)
        return np.append(clients, others[: max(0, n - len(clients))])

    def states(self, refusals: Mapping[int, str] | None = None) -> dict[str, str]:
        """Every node of the roster, and its state when the connected nodes were last fetched.
        `refusals`: connected nodes that do not take part, and why."""
        roster, there, why = self._roster, self.nodes, refusals or {}
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
        own, roster = self.nodes.get(node), self._roster
        return f"node {node}" if own is None or roster is None else roster.node_of(own.start).name
