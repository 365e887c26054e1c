"""Which SuperNode of a stock Flower deployment has which seat (entry) in the roster.

With Flower's node authentication, the SuperLink checks each node's key, and the roster has this
key. Without it (and so without TLS), a SuperNode has a new key after every start. The server then
asks the SuperNode to sign a fresh challenge with the key that it uses in secure sums. A node gets
a seat only if it has the seat's key. It cannot pass on another node's signature, because the
signature includes the node's id.

This does not make a connection without TLS safe: an attacker who can change the traffic can answer
in the node's name afterwards."""

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

ASK = "query.seat"  # message type of a challenge
CHALLENGE = 32  # bytes
AGAIN = 60.0  # seconds until a node without a seat is asked again


def proof(challenge: bytes, node: int, private: bytes) -> bytes:
    """A node's answer to a challenge: its public key and a signature."""
    if len(challenge) != CHALLENGE:
        raise ValueError(f"a challenge must have {CHALLENGE} bytes, got {len(challenge)}")
    return public_of_sign_key(private) + sign(private, _text(challenge, node))


def seat_by(answer: bytes, challenge: bytes, node: int, roster: Roster) -> Seat | None:
    """The seat whose key an answer proves; None if it proves none."""
    public, signature = answer[:PUBLIC], answer[PUBLIC:]
    if len(signature) != SIGNATURE:
        return None
    (known,) = node_keys({0: public}).values()
    if not signed_by(known, signature, _text(challenge, node)):
        return None
    held = (seat for seat in roster.seats if public in (seat.signs, seat.next_signs))
    return next(held, None)


def _text(challenge: bytes, node: int) -> bytes:
    return b"foltr seat 1" + challenge + node.to_bytes(8, "little")


@dataclass
class Seated:
    """The nodes of a stock SuperLink. Its operator registers and unregisters them, not foltr. A
    node without a seat in the roster, or with a revoked one, is not asked to learn."""

    grid: Grid
    roster: Callable[[], Roster]
    seconds: float  # timeout of a challenge
    _asked: dict[int, float] = field(default_factory=dict)  # node -> time of its last challenge
    # message id -> node and challenge
    _pending: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _proven: dict[str, int] = field(default_factory=dict)  # seat -> the last node that proved it

    def register(self, public_key: bytes) -> None:
        pass

    def unregister(self, public_keys: Iterable[bytes]) -> list[bytes]:
        return []

    def get_nodes(self) -> list[Peer]:
        """The connected nodes that have a seat. Other nodes get a challenge; their answers count
        in a later call."""
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
        """Take the answers that have arrived. If two nodes prove the same key, the last one has
        the seat."""
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
    """Whether the roster has the key with which Flower authenticated a node."""
    try:
        return roster.seat_of(roster_key(peer.public_key)) is not None
    except Mistake:
        return False  # not a key that a roster can hold
