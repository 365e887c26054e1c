"""Which SuperNode of a stock deployment has which seat in the roster.

With Flower's node authentication, the SuperLink has checked each node's key, and the roster knows
it. Without (and so without TLS), a SuperNode has a new key after every start. It is then asked to
sign a fresh challenge with the key by which it signs in secure sums. So nobody gets a seat without
its key, also not by passing on another's signature: the node's id is signed, too. That does not
make an open connection safe: who can change what travels there can answer in a node's name
afterwards."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from foltr.errors import Mistake
from foltr.federated.keys import flower_key, public_of_sign_key, roster_key
from foltr.federated.messages import packed, unpacked
from foltr.federated.roster import Peer, Roster, Seat
from foltr.secure_sum.keys import PUBLIC, SIGNATURE, node_keys, sign, signed_by

ASK = "query.seat"  # the type of a message with a challenge
CHALLENGE = 32  # bytes
AGAIN = 60.0  # seconds until a node without a seat is asked again


def proof(challenge: bytes, node: int, private: bytes) -> bytes:
    """A node's answer: its public key, and a signature."""
    if len(challenge) != CHALLENGE:
        raise ValueError(f"a challenge has {CHALLENGE} bytes, got {len(challenge)}")
    return public_of_sign_key(private) + sign(private, _text(challenge, node))


def seat_by(answer: bytes, challenge: bytes, node: int, roster: Roster) -> Seat | None:
    """The seat of the roster that the answer proves."""
    public, signature = answer[:PUBLIC], answer[PUBLIC:]
    if len(signature) != SIGNATURE:
        return None
    (known,) = node_keys({0: public}).values()
    if not signed_by(known, signature, _text(challenge, node)):
        return None
    return next((seat for seat in roster.seats if seat.signs == public), None)


def _text(challenge: bytes, node: int) -> bytes:
    return b"foltr seat 1" + challenge + node.to_bytes(8, "little")


@dataclass
class Seated:
    """The nodes of a SuperLink that others operate: they register nodes and shut them out. Nodes
    that have no seat in the roster, or a revoked one, are not asked to learn."""

    grid: Grid
    roster: Callable[[], Roster]
    seconds: float  # for an answer
    _asked: dict[int, float] = field(default_factory=dict)  # node -> when
    _pending: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # message -> challenge
    _proven: dict[str, int] = field(default_factory=dict)  # seat -> the last node that proved it

    def register(self, public_key: bytes) -> None:
        pass

    def unregister(self, public_keys: Iterable[bytes]) -> list[bytes]:
        return []

    def get_nodes(self) -> list[Peer]:
        """The nodes that have a seat. Others are asked who they are; this does not wait for
        them."""
        roster, there = self.roster(), list(self.grid.get_nodes())
        found = [Peer(peer.node_id, peer.public_key) for peer in there if _known(peer, roster)]
        strangers = {peer.node_id for peer in there} - {peer.node_id for peer in found}
        self._take(roster)
        self._challenge(strangers - set(self._proven.values()))
        for name, node in self._proven.items():
            if node in strangers:
                found.append(Peer(node, flower_key(roster.seat(name).key)))
        return found

    def _challenge(self, nodes: set[int]) -> None:
        now = time.monotonic()
        new = [node for node in sorted(nodes) if now - self._asked.get(node, -AGAIN) >= AGAIN]
        if not new:
            return
        asks = [(node, secrets.token_bytes(CHALLENGE)) for node in new]
        messages = [Message(packed(text), node, ASK, ttl=self.seconds) for node, text in asks]
        self._asked |= dict.fromkeys(new, now)
        for id, ask in zip(self.grid.push_messages(messages), asks, strict=False):
            if id:
                self._pending[id] = ask

    def _take(self, roster: Roster) -> None:
        """The answers that are there. If two nodes have one key, the last one has the seat."""
        if not self._pending:
            return
        for reply in self.grid.pull_messages(list(self._pending)):
            ask = self._pending.pop(reply.metadata.reply_to_message_id, None)
            if ask is None or reply.has_error():
                continue
            node, challenge = ask
            try:
                seat = seat_by(unpacked(reply.content), challenge, node, roster)
            except ValueError:
                continue
            if seat is not None:
                self._proven[seat.name] = node


def _known(peer: Any, roster: Roster) -> bool:
    """Whether the roster has the key by which Flower knows a node."""
    try:
        return roster.seat_of(roster_key(peer.public_key)) is not None
    except Mistake:
        return False  # not a key that a roster can hold
