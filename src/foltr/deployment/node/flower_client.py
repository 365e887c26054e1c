"""foltr's ClientApp, for stock SuperNodes (`foltr.deployment.node.flower_client:client_app`).

A SuperNode starts a process for every message. The node's state folder keeps what must persist
between messages, except for the secrets of a secure sum. Those are kept in the SuperNode's memory
(`Context.state`) and are never written to disk. The state folder has a hash of the newest secrets,
so that a process does not continue from older ones."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from foltr.core import Engine
from foltr.core.errors import Mistake
from foltr.core.system.lock import only_one
from foltr.deployment.keys.keys import (
    SIGN_KEY,
    flower_key,
    public_of_sign_key,
    read_sign_key,
    roster_key,
)
from foltr.deployment.keys.roster import Peer, Roster, Seat
from foltr.deployment.node.clients import keys_known, learning, participant_with, records_in
from foltr.deployment.protocol.frames import Frame, Kind, Malformed
from foltr.deployment.protocol.messages import FAILED, REFUSED, packed, unpacked
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.settings import NodeTable, beside, read_node, settings_file
from foltr.experiment.user_files import Code
from foltr.secure_sum.keys import PUBLIC, SIGNATURE, node_keys, sign, signed_by

RECORD, FIELD = "foltr", "sum"  # record and field of `Context.state` with an unfinished sum
KEPT = "sum"  # name of its hash in the node's records
NOTHING = b"none"  # in place of the hash, if there is no unfinished sum
BUSY = 30.0  # seconds for which a message waits for the previous one

client_app = ClientApp()


@client_app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer one ask. If this fails, the server gets only the class of the error, because the text
    may contain a path or a document of this node."""
    try:
        text = unpacked(message.content)
        answered, kept = answered_by(
            settings_file(context.node_config, "node"), text, kept_in(context)
        )
    except Malformed as error:  # the server's frame, for example of another version
        tell(str(error))
        return Message(Error(REFUSED, str(error)[:200]), reply_to=message)
    except Exception as error:  # noqa: BLE001  # also errors in the user's own components
        tell(f"{type(error).__name__}: {error}")
        return Message(Error(FAILED, type(error).__name__), reply_to=message)
    context.state.pop(RECORD, None)
    if kept is not None:
        context.state[RECORD] = ConfigRecord({FIELD: kept})
    return Message(packed(answered), reply_to=message)


@client_app.query("seat")
def seat(message: Message, context: Context) -> Message:
    """Prove the node's identity to a server, where Flower does not authenticate nodes."""
    try:
        file = settings_file(context.node_config, "node")
        key = sign_key(file, read_node(file, Code())[1])
        if key is None:
            raise Mistake(
                f"{file}: [node] needs keys, the folder that `foltr keys node NAME` makes"
            )
        return Message(
            packed(proof(unpacked(message.content), context.node_id, key)), reply_to=message
        )
    except (Mistake, ValueError) as error:
        tell(f"{type(error).__name__}: {error}")
        return Message(Error(FAILED, type(error).__name__), reply_to=message)


def sign_key(file: Path, table: NodeTable) -> bytes | None:
    return None if table.keys is None else read_sign_key(beside(file, table.keys) / SIGN_KEY)


def answered_by(file: Path, text: bytes, kept: bytes | None) -> tuple[bytes, bytes | None]:
    """The answer to a frame, and the unfinished sum for the next process, if there is one."""
    agreed, table = read_node(file, Code())
    state = beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        only_one(state, "node", BUSY),
        closing(records_in(state, agreed, with_log=table.clicks is not None)) as records,
    ):
        key = sign_key(file, table)
        known = keys_known(agreed, table, file, tell)

        def engine_for(sessions: int) -> Engine:
            return learning(agreed, table, file, records)(sessions)

        participant = participant_with(agreed, table, records, engine_for, tell, key, known)
        if Frame.from_bytes(text).kind == Kind.HELLO:
            learning(agreed, table, file, records)  # reports a mistake in the data at once
        resume(participant, kept)
        return participant.answer(text), handed_on(participant)


def resume(participant: Participant, kept: bytes | None) -> None:
    """Continue the sum that the SuperNode kept, unless another process has continued it."""
    if participant.sums is None or kept is None:
        return
    if participant.records.about(KEPT) != sha256(kept).digest():
        tell("the SuperNode's secure sum is outdated: the clients of this node drop out of it")
        return
    from foltr.deployment.protocol.sums import OpenSum  # needs cryptography

    participant.sums.begun = OpenSum.from_bytes(kept, participant.sums.key, participant.sums.known)


def handed_on(participant: Participant) -> bytes | None:
    """The unfinished sum, for the next process. Its hash is on disk before the answer is sent."""
    sums = participant.sums
    if sums is None:
        return None
    goes_on = sums.begun is not None and not sums.begun.over
    kept = sums.begun.to_bytes() if goes_on and sums.begun is not None else None
    participant.records.set_about(KEPT, NOTHING if kept is None else sha256(kept).digest())
    return kept


def kept_in(context: Context) -> bytes | None:
    record = context.state.get(RECORD)
    kept = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    return kept if isinstance(kept, bytes) else None


def tell(text: str) -> None:
    """Write a line to the log of the SuperNode."""
    print(f"{time.strftime('%H:%M:%S')} foltr: {text}", file=sys.stderr, flush=True)


# Which SuperNode of a stock Flower deployment has which seat (entry) in the roster.

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
