"""The server's side of an exchange: it sends asks to nodes and collects the answers until a
deadline.

Flower's Grid carries the messages. A node first gets a HELLO with the server's agreement. It is
asked for nothing else until it accepts."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from foltr.core import Array
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    NO_MODEL,
    TEXT,
    Frame,
    Kind,
    Malformed,
    Welcome,
    printable,
    read_ids,
    read_refusal,
)
from foltr.deployment.protocol.messages import (
    AWAY,
    EXPIRED,
    TYPE,
    UNANSWERED,
    LinkDown,
    NewSession,
    packed,
    unpacked,
)

FIRST_WAIT, LONGEST_WAIT = 0.02, 0.5  # seconds between two polls for answers
SLOWER = 1.5  # factor by which waiting times grow
AGAIN = 30.0  # seconds until a node that refused the agreement is asked again
REMINDER = 600.0  # seconds between two calls of `on_wait`
FRESH = 1.0  # seconds for which a node's list of reachable clients is used
PROBE = 1.0  # seconds that a late node has to answer a HELLO; grows with each failure
# the SuperLink's own replies for a node that is late
OF_FLOWER = {
    EXPIRED: "the node did not fetch the ask in time",
    UNANSWERED: "the node did not answer in time",
    AWAY: "the node is not connected",
}


class Interrupted(KeyboardInterrupt):
    """The server stops in the middle of a round. Nodes repeat their answers when the server asks
    for this round again."""


def instruction(content: RecordDict, type: str, node: int, group: str, ttl: float) -> Message:
    return Message(content, node, type, ttl=ttl, group_id=group)


@dataclass
class Members:
    """Who takes part: the connected nodes, and the public keys of their clients. Here they never
    change. Those of a server do (`server/live_roster.py`)."""

    nodes: Mapping[int, range]  # id of each node -> its clients
    keys: Mapping[int, bytes] = field(default_factory=dict)  # client -> key for signed sums
    pinned: bool = False  # whether the keys of devices behind gateways are among them

    def reachable(self) -> Mapping[int, range]:
        """The ids of the connected nodes, and their clients."""
        return self.nodes

    def known(self, clients: Array) -> Mapping[int, bytes]:
        """The public keys that verify the signatures of these clients in secure sums."""
        return {id: self.keys[id] for id in clients.tolist() if id in self.keys}

    def filled(self, clients: Array, n: int) -> Array:
        """The clients that the terms of a signed sum name: these, and others up to n."""
        return clients


@dataclass
class Nodes:
    """The nodes behind a Grid. An answer that does not fit its ask is left out and counted in
    `failures`. What a server does when something happens to nodes is in the methods `on_...`,
    which do nothing here."""

    grid: Grid
    agreement: Agreement
    members: Members
    deadline: float = 60.0  # seconds for each exchange
    patience: float | None = None  # seconds to wait for enough nodes; None: no limit
    # (content, type, node, group, time to live in seconds) -> message
    message: Callable[[RecordDict, str, int, str, float], Message] = instruction
    # (message ids, seconds to wait) -> answers; None polls the Grid
    pull: Callable[[list[str], float], Iterable[Message]] | None = None
    stopping: threading.Event = field(default_factory=threading.Event)  # the server is to stop
    greeted: set[int] = field(default_factory=set)  # nodes that accepted the agreement
    welcomes: dict[int, Welcome] = field(default_factory=dict)  # of these nodes
    # nodes whose clients come and go -> when they were asked, and the clients that can be reached
    present: dict[int, tuple[float, Array]] = field(default_factory=dict)
    refused: dict[int, float] = field(default_factory=dict)  # nodes that did not -> when
    silent: dict[int, float] = field(default_factory=dict)  # late nodes -> seconds for a HELLO
    failures: Counter[str] = field(default_factory=Counter)  # by kind
    models: dict[int, bytes] = field(default_factory=dict)  # round of its first ask -> its digest
    sent_bytes: int = 0  # bytes of frames sent
    got_bytes: int = 0  # bytes of frames received

    def on_failure(self, node: int, kind: str, text: str) -> None:
        """An answer of a node was left out; node 0 is all of them."""

    def on_wait(self, clients: int) -> None:
        """A round waits for nodes, and only so many clients are connected."""

    def on_round(self) -> None:
        """A round is about to be asked, or to be asked again."""

    def on_leaving(self, node: int, clients: Array) -> None:
        """These clients of a node ask to be forgotten."""

    def excluded(self) -> Array:
        """Clients that are asked for nothing, though their node is connected."""
        return np.empty(0, np.int64)

    def reachable(self) -> Mapping[int, range]:
        """The ids of the connected nodes, and their clients."""
        return self.members.reachable()

    def seats(self, clients: Array) -> dict[int, tuple[int, ...]]:
        """Which of these clients each connected node holds. Waits until enough of them are
        connected, or for `patience` seconds."""
        began, told, ordered = time.monotonic(), -math.inf, np.sort(clients)
        while True:
            found, end = {}, 0
            agreeing = sorted(self.agreeing().items(), key=lambda item: (item[1].start, item[0]))
            there = self._present(dict(agreeing))
            for node, own in agreeing:  # of two nodes with one client, the first is asked for it
                first, last = np.searchsorted(ordered, [max(own.start, end), own.stop]).tolist()
                end = max(end, own.stop)
                asked = ordered[first:last]
                asked = asked[np.isin(asked, there[node])] if node in there else asked
                if len(asked):
                    found[node] = tuple(asked.tolist())
            many = sum(map(len, found.values()))
            waited = time.monotonic() - began
            out_of_patience = self.patience is not None and waited > self.patience
            if many >= self.agreement.fewest or out_of_patience:
                return found
            told = self._wait_for_more(many, began, told)

    def there(self, without: Array) -> Array:
        """The clients that can be asked, in ascending order: those of connected nodes that
        accepted the agreement, without these and `excluded` ones. Waits until there are enough for
        a round."""
        began, told = time.monotonic(), -math.inf
        while True:
            try:
                agreeing = self.agreeing()
                there = self._present(agreeing)
                found = [np.asarray(there.get(node, own)) for node, own in agreeing.items()]
            except NewSession:
                found = []
            ids = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
            ids = np.setdiff1d(ids, np.union1d(without, self.excluded()), assume_unique=True)
            if len(ids) >= self.agreement.fewest:
                return ids
            told = self._wait_for_more(len(ids), began, told)

    def _wait_for_more(self, clients: int, began: float, told: float) -> float:
        """Wait for a moment until more than these clients are connected, and say so now and then.
        Returns when that was last said."""
        now = time.monotonic()
        if now - told > REMINDER:
            told = now
            self.on_wait(clients)
        self._go_on()
        time.sleep(min(1.0, 0.1 + (now - began) / 10))
        return told

    def agreeing(self) -> dict[int, range]:
        """The connected nodes that have the same agreement, and their clients.

        Each node gets one HELLO. A node that refuses gets another one later, because its settings
        may have been corrected. A node that was late gets only HELLOs, with a short timeout, until
        it answers one. So a node that was killed delays one round by the deadline, and not every
        round until Flower notices that it is gone."""
        there, now = dict(self.reachable()), time.monotonic()
        self.greeted &= there.keys()
        self.welcomes = {node: known for node, known in self.welcomes.items() if node in there}
        self.refused = {node: when for node, when in self.refused.items() if node in there}
        self.silent = {node: wait for node, wait in self.silent.items() if node in there}
        late, left_out = set(self.silent), {n for n, t in self.refused.items() if now - t < AGAIN}
        new = there.keys() - self.greeted - left_out
        wait = max(self.silent.values(), default=0.0)
        self._greet({node: there[node] for node in new - late}, self.deadline)
        self._greet({node: there[node] for node in new & late}, wait)
        self.refused |= dict.fromkeys(new - self.greeted - self.silent.keys(), now)
        return {node: own for node, own in there.items() if node in self.greeted}

    def _greet(self, nodes: Mapping[int, range], seconds: float) -> None:
        text = self.agreement.text.encode()
        hellos = {node: self._about(Kind.HELLO, tuple(own), text) for node, own in nodes.items()}
        for node, answer in (self.exchange(hellos, seconds) if hellos else {}).items():
            try:
                self.welcomes[node] = Welcome.from_bytes(answer.payload)
            except Malformed as error:
                self._fail(node, "malformed", str(error))
                continue
            self.greeted.add(node)

    def _about(self, kind: Kind, clients: tuple[int, ...], payload: bytes = b"") -> Frame:
        """An ask that belongs to no round."""
        agreed, nonce = self.agreement, secrets.token_bytes(16)
        names = agreed.id, 0, 0, NO_MODEL, agreed.feature_hash, nonce, agreed.asked
        return Frame(kind, *names, clients, payload)

    def rolls(self, node: int) -> bool:
        """Whether the node's clients come and go, so that it must be asked who can be reached."""
        return node in self.welcomes and self.welcomes[node].roll

    def _present(self, agreeing: Mapping[int, range]) -> dict[int, Array]:
        """The nodes whose clients come and go, and the clients that they can reach now. A node
        that does not say so can reach none."""
        now = time.monotonic()
        rolls = [node for node in agreeing if self.rolls(node)]
        self.present = {
            node: (asked, ids)
            for node, (asked, ids) in self.present.items()
            if node in rolls and now - asked < FRESH
        }
        nodes = [node for node in rolls if node not in self.present]
        answers = self._called(nodes)
        # those that were restarted
        again = {n: agreeing[n] for n in nodes if n not in self.greeted and n not in self.silent}
        self._greet(again, self.deadline)
        answers |= self._called([node for node in again if node in self.greeted])
        for node, answer in answers.items():
            own = agreeing[node]
            ids = np.array([id for id in answer.clients if id in own], np.int64)
            try:
                leaving = read_ids(answer.payload)
            except Malformed as error:
                self._fail(node, "malformed", str(error))
                continue
            self.present[node] = time.monotonic(), ids
            if len(leaving := leaving[(own.start <= leaving) & (leaving < own.stop)]):
                self.on_leaving(node, leaving)
        nobody = np.empty(0, np.int64)
        return {node: self.present[node][1] if node in self.present else nobody for node in rolls}

    def _called(self, nodes: Iterable[int]) -> dict[int, Frame]:
        """The answers of these nodes to ROLL."""
        asks = {node: self._about(Kind.ROLL, ()) for node in nodes}
        return self.exchange(asks) if asks else {}

    def call_roll(self) -> None:
        """Ask all nodes whose clients come and go for those who want to leave."""
        with suppress(NewSession):
            self._present(self.agreeing())

    def farewell(self, node: int, clients: Iterable[int]) -> bool | None:
        """Tell a node that the server has unlearned these clients of it. Returns whether the node
        accepts that; None if it did not answer."""
        ask = self._about(Kind.FORGOTTEN, tuple(clients))
        try:
            answered = node in self.exchange({node: ask})
        except NewSession:
            return None
        return None if node in self.silent else answered

    def wait(self, seconds: float) -> None:
        """Wait. Raises Interrupted if the server is to stop."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0.0:
            self._go_on()
            time.sleep(min(left, LONGEST_WAIT))

    def _go_on(self) -> None:
        if self.stopping.is_set():
            raise Interrupted("stopped while waiting for nodes: the same command continues")

    def exchange(
        self, asks: Mapping[int, Frame], seconds: float | None = None
    ) -> dict[int, Frame]:
        """Send an ask to each node. Returns the answers that arrive before the deadline, or within
        `seconds` if that is shorter. The timeout starts again after an outage of the SuperLink.
        Raises NewSession if the asks are lost."""
        deadline = self.deadline if seconds is None else min(seconds, self.deadline)
        answers, until = dict[int, Frame](), time.monotonic() + deadline
        pending = self._push(asks, deadline)
        wait = FIRST_WAIT
        while pending and (left := until - time.monotonic()) > 0.0:
            self._go_on()
            try:
                replies = self._pulled(list(pending), min(left, 1.0))
            except LinkDown:
                until = time.monotonic() + deadline
                continue
            for reply in replies:
                id, sender = reply.metadata.reply_to_message_id, reply.metadata.src_node_id
                # only the node itself may answer, or Flower with an error
                if id in pending and (reply.has_error() or pending[id] == sender):
                    node = pending.pop(id)
                    self._take(node, asks[node], reply, answers)
            wait = FIRST_WAIT if replies else min(LONGEST_WAIT, wait * SLOWER)
            if pending and self.pull is None:
                time.sleep(min(wait, max(0.0, until - time.monotonic())))
        for node in pending.values():
            self._late(node, f"no answer within {deadline:g} s")
        return answers

    def _late(self, node: int, text: str) -> None:
        self.greeted.discard(node)
        self.silent[node] = SLOWER * self.silent[node] if node in self.silent else PROBE
        self._fail(node, "late", text)

    def _pulled(self, ids: list[str], seconds: float) -> list[Message]:
        if self.pull is None:
            return list(self.grid.pull_messages(ids))
        return list(self.pull(ids, seconds))

    def _push(self, asks: Mapping[int, Frame], deadline: float) -> dict[str, int]:
        """Send the asks, repeatedly while the SuperLink is down. Returns message id -> node."""
        messages = []
        for node, frame in asks.items():
            text, group = frame.to_bytes(), str(frame.round)
            self.sent_bytes += len(text)
            messages.append(self.message(packed(text), TYPE, node, group, deadline))
        while messages:
            try:
                ids = list(self.grid.push_messages(messages))
                break
            except LinkDown:
                self._go_on()
        else:
            ids = []
        pushed = {id: node for id, node in zip(ids, asks, strict=False) if id}
        for node in asks.keys() - set(pushed.values()):
            self._fail(node, "unsent", "Flower did not accept the message")
        return pushed

    def _take(self, node: int, ask: Frame, reply: Message, answers: dict[int, Frame]) -> None:
        if reply.has_error() and reply.error.code in OF_FLOWER:
            self._late(node, OF_FLOWER[reply.error.code])
            return
        self.silent.pop(node, None)
        if reply.has_error():
            if ask.kind == Kind.ROLL:  # perhaps it was restarted
                self.greeted.discard(node)
            self._fail(node, "failed", f"error code {reply.error.code}: {reply.error.reason}")
            return
        try:
            text = unpacked(reply.content)
            self.got_bytes += len(text)
            answer = Frame.from_bytes(text)
            if not answer.answers(ask, self.agreement.separation or 0):
                raise Malformed("the answer does not fit the ask")
            earlier = answer.model_round != ask.model_round
            if earlier and self.models.get(answer.model_round) != answer.model:
                raise Malformed("the answer was made on a model that this server did not send")
            if answer.kind == Kind.REFUSED:
                code, reason = read_refusal(answer.payload)
                if code in ("hello", "agreement"):
                    self.greeted.discard(node)
                if ask.kind != Kind.ROLL or code != "hello":  # which a restarted gateway needs
                    self._fail(node, code, reason)
                return
        except ValueError as error:
            self._fail(node, "malformed", str(error))
            return
        answers[node] = answer

    def _fail(self, node: int, kind: str, text: str) -> None:
        self.failures[kind] += 1
        self.on_failure(node, kind, printable(text, TEXT))  # a node may have chosen it
