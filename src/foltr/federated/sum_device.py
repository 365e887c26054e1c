"""The clients' side of a secure sum on a node: one `SumClient` per client, in memory only.

A node that is restarted during a sum drops out of it: its masks are lost. Nobody can then unmask
its clients' updates with them. Stock SuperNodes start a process for every message; there `begun`
passes the sum from one process to the next (`open_sum`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from foltr.core import Array, Ask, Withheld
from foltr.errors import Mistake
from foltr.federated.frames import Frame, Malformed, Refusal, read_ids, read_parts, write_ids
from foltr.federated.open_sum import Known, OpenSum
from foltr.federated.records import Record
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.messages import Kind as Step
from foltr.secure_sum.messages import Refused
from foltr.secure_sum.protocol import SumProtocol
from foltr.secure_sum.terms import Terms

STEPS = (Step.SHARES, Step.MASKED, Step.SIGNED, Step.UNMASK)  # those that SUM asks for


@dataclass
class SumDevice:
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
        everybody = read_ids(asked, ask.version)
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
        now, mine, everybody = self.begun, set(learned), read_ids(asked, ask.version)
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
        commit: Callable[[int, bytes], None],
        release: Callable[[list[int], int], None],
    ) -> dict[int, bytes]:
        """The clients' answers to one step. Calls `commit` with the round and the ids of all
        clients (`write_ids` of version 1) before masked updates are sent, and `release` before
        anything is revealed."""
        which, terms, *messages = read_parts(ask.payload, 2 + len(ask.clients))
        now = self.begun
        if now is None or now.terms != terms or now.round != ask.round:
            raise Refusal("sum", "this node does not take part in that sum")
        if len(which) != 1 or which[0] not in STEPS:
            raise Malformed(f"{which[:8]!r} is no step of a secure sum")
        step = Step(which[0])
        if step == Step.MASKED:
            commit(ask.round, write_ids(now.everybody, 1))
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
        match step:
            case Step.SHARES:
                answer = client.share(message)
            case Step.MASKED:
                answer = client.mask(message, now.words[id])
            case Step.SIGNED:
                answer = client.agree(message)
            case _:
                answer = client.unmask(message)
        now.answers[id, step] = name, answer
        return answer
