"""Both sides of a secure sum between machines. The server has a `SumRound`; a node has one
`SumClient` per client (`SumParticipant`), in memory only.

A node that is restarted during a sum drops out of it: its masks are lost. Nobody can then unmask
its clients' updates with them. Stock SuperNodes start a process for every message; there `begun`
passes the sum from one process to the next (`open_sum`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

import numpy as np

from foltr.core import Array, Ask, Withheld
from foltr.core.errors import Mistake
from foltr.deployment.protocol.frames import Frame, Malformed, Refusal, read_ids, read_parts
from foltr.deployment.protocol.records import Record
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.messages import HEADER, Refused
from foltr.secure_sum.messages import Kind as Step
from foltr.secure_sum.server import SumServer
from foltr.secure_sum.terms import SumProtocol, Terms

STEPS = (Step.SHARES, Step.MASKED, Step.SIGNED, Step.UNMASK)  # those that SUM asks for


@dataclass
class SumParticipant:
    """The secure sums of a node's clients, one at a time.

    `key` signs for all clients of the node. `known` returns the public keys of the clients that
    are asked; `consistency` needs it. `begun` is the unfinished sum, if there is one."""

    protocol: SumProtocol
    fewest: int  # smallest number of clients in a sum that is released
    key: bytes | None = None
    known: Known | None = None
    begun: OpenSum | None = None

    def check(self, ask: Frame, params: Array, asked: bytes, terms: bytes) -> None:
        """Refuse terms that protect less than the agreement, before any client learns."""
        everybody = read_ids(asked)
        if len(everybody) > ask.n or not np.isin(ask.clients, everybody).all():
            raise Malformed(f"{len(everybody)} clients are named in a round of {ask.n}")
        try:
            self.protocol.check(
                Terms.from_bytes(terms), Ask(params, ask.round, ask.n), self.fewest
            )
        except Mistake as error:
            raise Refusal("terms", str(error)) from None
        if self.protocol.consistency:
            known = {} if self.known is None else self.known(everybody)
            if self.key is None or len(known) < ask.n:
                missing = f"{ask.n - len(known)} of {ask.n} clients have no valid key here"
                raise Refusal("terms", f"this node cannot check signatures: {missing}")

    def open(
        self, ask: Frame, params: Array, learned: Mapping[int, Record], tell: Callable[[str], None]
    ) -> dict[int, bytes]:
        """Begin a sum. Returns the KEYS message of each client that has learned. `tell` writes to
        the node's own log."""
        asked, named, _ = read_parts(ask.payload, 3)
        now, mine, everybody = self.begun, set(learned), read_ids(asked)
        if now is not None and now.terms == named:  # asked again
            if now.everybody.tolist() != everybody.tolist() or not mine & now.clients.keys():
                raise Refusal("sum", "these terms belong to a sum of other clients")
            return {id: now.answers[id, Step.KEYS][1] for id in now.clients if id in mine}
        terms, now = Terms.from_bytes(named), OpenSum(ask.round, named, everybody)
        seats = {int(id): seat for seat, id in enumerate(everybody)}
        by_seat = now.known_by_seat(self.known)
        for id, record in learned.items():
            try:
                words = self.protocol.words(record.payload, record.weight, ask.n)
            except Mistake as error:  # its text contains a number of the update
                tell(f"client {id}, round {ask.round + 1}: {error}")
                continue
            try:  # `check` has been stricter than `least`
                client = SumClient(terms, seats[id], params, self.key, by_seat, least=None)
            except Mistake as error:
                raise Refusal("terms", str(error)) from None
            now.clients[id], now.words[id] = client, words
            now.answers[id, Step.KEYS] = b"", client.advertise()
        if not now.clients:
            raise Refusal("failed", "no client's update is in the range of a secure sum")
        self.begun = now
        return {id: now.answers[id, Step.KEYS][1] for id in now.clients}

    def step(
        self,
        ask: Frame,
        commit: Callable[[int, Array], None],
        release: Callable[[list[int], int], None],
    ) -> dict[int, bytes]:
        """The clients' answers to one step. Calls `commit` with the round and the ids of all
        clients before masked updates are sent, and `release` before
        anything is revealed."""
        which, terms, *messages = read_parts(ask.payload, 2 + len(ask.clients))
        now = self.begun
        if now is None or now.terms != terms or now.round != ask.round:
            raise Refusal("sum", "this node does not take part in that sum")
        if len(which) != 1 or which[0] not in STEPS:
            raise Malformed(f"{which[:8]!r} is no step of a secure sum")
        step = Step(which[0])
        if step == Step.MASKED:
            commit(ask.round, now.everybody)
        if step == Step.UNMASK:  # every client that sent masked words can be unmasked by others
            release([id for id in now.clients if (id, Step.MASKED) in now.answers], ask.round)
        found = {}
        for id, message in zip(ask.clients, messages, strict=True):
            try:
                found[id] = self._answer(now, id, step, message)
            except (Refused, Withheld, KeyError):
                continue  # this client drops out
        if not found:
            raise Refusal("sum", f"no client of this node can continue with {step.name}")
        return found

    def _answer(self, now: OpenSum, id: int, step: Step, message: bytes) -> bytes:
        name, client = sha256(message).digest(), now.clients[id]
        if (id, step) in now.answers:
            before, answer = now.answers[id, step]
            if before != name:
                raise Refused(f"client {id} has already answered {step.name} to another message")
            return answer
        answer = client.answer(step, message, now.words[id])
        now.answers[id, step] = name, answer
        return answer


# The state of a secure sum on a node, and how it is handed to the node's next process.

Known = Callable[[Array], Mapping[int, bytes]]  # clients -> the public keys that sign for them


@dataclass
class OpenSum:
    """The clients of one node in an unfinished sum.

    The result of `to_bytes` contains their secrets. Keep it in memory only, delete it when the
    round ends, and use it once: see `SumClient.from_state`."""

    round: int
    terms: bytes
    everybody: Array  # ids of all clients that are asked, ascending; the position is the seat
    clients: dict[int, SumClient] = field(default_factory=dict)
    words: dict[int, Array] = field(default_factory=dict)
    # (client, step) -> hash of what was asked, and the answer, for asks that are repeated
    answers: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)

    def known_by_seat(self, known: Known | None) -> dict[int, bytes]:
        """Seat -> the public key that verifies its signatures."""
        found = {} if known is None else known(self.everybody)
        seats = {int(id): seat for seat, id in enumerate(self.everybody)}
        return {seats[id]: key for id, key in found.items() if id in seats}

    @property
    def over(self) -> bool:
        """Whether every client has made its last step."""
        return all(client.over for client in self.clients.values())

    def to_bytes(self) -> bytes:
        content = {
            "round": self.round,
            "terms": self.terms.hex(),
            "everybody": self.everybody.tolist(),
            "clients": {id: client.to_state() for id, client in self.clients.items()},
            "words": {id: words.astype("<u8").tobytes().hex() for id, words in self.words.items()},
            "answers": [
                [id, int(step), name.hex(), answer.hex()]
                for (id, step), (name, answer) in self.answers.items()
            ],
        }
        return json.dumps(content).encode()

    @classmethod
    def from_bytes(cls, text: bytes, key: bytes | None, known: Known | None) -> Self:
        """Restore a sum that another process of this node has begun."""
        content = json.loads(text)
        named = bytes.fromhex(content["terms"])
        now = cls(content["round"], named, np.array(content["everybody"], np.int64))
        terms, by_seat = Terms.from_bytes(named), now.known_by_seat(known)
        for id, state in content["clients"].items():
            now.clients[int(id)] = SumClient.from_state(terms, state, key, by_seat)
        for id, words in content["words"].items():
            now.words[int(id)] = np.frombuffer(bytes.fromhex(words), "<u8").astype(np.uint64)
        for id, step, name, answer in content["answers"]:
            now.answers[id, step] = bytes.fromhex(name), bytes.fromhex(answer)
        return now


# The server's side of a secure sum between machines: it gives each client a seat in the sum,
# and checks that a node sends messages only for its own clients.

SENDER = 5  # field of a message's header


class SumRound:
    """One sum. `clients` (n,) are all clients that are asked, ascending; the position is the
    seat."""

    def __init__(
        self,
        terms: Terms,
        clients: Array,
        known: Mapping[int, bytes],
        fail: Callable[[int, str, str], None],
    ) -> None:
        self.ids = clients.tolist()
        self.seats = {id: seat for seat, id in enumerate(self.ids)}
        by_seat = {self.seats[id]: key for id, key in known.items() if id in self.seats}
        self._server, self._fail = SumServer(terms, by_seat), fail

    def take(self, node: int, messages: Mapping[int, bytes]) -> None:
        """Take the messages that a node sent for its clients."""
        for id, message in messages.items():
            try:
                if len(message) < HEADER.size:
                    raise Refused(f"a message of {len(message)} bytes is too short")
                if HEADER.unpack_from(message)[SENDER] != self.seats[id]:
                    raise Refused("the message names another client as its sender")
                self._server.take(message)
            except Refused as error:
                self._fail(node, "sum", f"client {id}: {self._with_ids(str(error))}")

    def _with_ids(self, text: str) -> str:
        """A text of the sum's server, which numbers clients by their seats, with their ids."""
        return re.sub(r"\bclient (\d+)", lambda found: f"client {self.ids[int(found[1])]}", text)

    def close(self) -> tuple[Step | None, dict[int, bytes]]:
        """End a step. Returns the next step, and the message for each remaining client. Raises
        Withheld if too few clients remain."""
        post = self._server.close()
        return self._server.due, {self.ids[seat]: message for seat, message in post.items()}

    @property
    def survivors(self) -> frozenset[int]:
        return self._server.survivors

    def total(self) -> Array:
        return self._server.total()
