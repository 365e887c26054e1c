"""Clients on other machines: Flower carries the asks of a round to nodes, and the answers back."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from foltr.cohorts import lengths
from foltr.core import Answers, Array, Ask, Cohort, Withheld
from foltr.errors import Mistake, require
from foltr.federated.agreement import Agreement
from foltr.federated.frames import (
    Frame,
    Kind,
    Malformed,
    Model,
    read_parts,
    read_refusal,
    read_updates,
    write_parts,
)
from foltr.federated.messages import packed, unpacked
from foltr.secure_sum.protocol import SumProtocol
from foltr.secure_sum.terms import model_digest

FIRST_WAIT, LONGEST_WAIT, SLOWER = 0.02, 0.5, 1.5  # seconds between two looks for answers
LARGEST = 1e6  # L2 norm of an update that is accepted


class Interrupted(KeyboardInterrupt):
    """The run is to stop, in the middle of a round: asked again, it gets the same answers."""


class NewSession(Exception):
    """The connection to Flower was lost, and a new run has begun: what was pushed is gone."""


def instruction(content: RecordDict, type: str, node: int, group: str, ttl: float) -> Message:
    return Message(content, node, type, ttl=ttl, group_id=group)


@dataclass
class Flower:
    """The engine of a real federation: it groups the clients of a round by node, asks each node
    once, and takes what arrives before the deadline.

    Every answer is checked: that it is the answer to this ask, by the node that was asked, for
    clients of that node, with messages that the learner could have sent. One that is not is left
    out and counted (`failures`), as if its clients had not answered. With a channel, the engine is
    the server of the secure sum, and gives one row: the mean."""

    grid: Grid
    agreement: Agreement
    reachable: Callable[[], Mapping[int, range]]  # node id -> its clients, of connected nodes
    deadline: float = 60.0  # seconds for each exchange
    patience: float | None = None  # seconds to wait for enough nodes; None for ever
    largest: float = LARGEST
    known: Callable[[Array], Mapping[int, bytes]] | None = None  # public keys that sign in sums
    # (content, type, node, group, seconds to live) -> message
    message: Callable[[RecordDict, str, int, str, float], Message] = instruction
    model: Model | None = None  # how the next rounds learn, if not as agreed: for unlearning
    model_round: int | None = None  # of the model, if not the round: after a rollback
    tell: Callable[[str, str, str], None] = lambda node, kind, text: None
    stopping: Callable[[], bool] = lambda: False
    memory: Array = field(default_factory=lambda: np.empty((1, 0), np.float32))  # on devices
    failures: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0  # of frames, both ways
    got_bytes: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.failures:
            return ()
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.failures.items()))
        return (f"answers that were left out: {kinds}",)

    def collect(self, ask: Ask, clients: Array) -> Answers:
        agreed = self.agreement.asked
        require(ask.n == agreed, f"{ask.n} clients are asked, and agreed are {agreed}")
        seats = self._seats(clients)
        asked = np.array(sorted(id for ids in seats.values() for id in ids), np.int64)
        if self.agreement.protocol is not None:
            arrived = self._summed(self.agreement.protocol, ask, clients, seats)
        else:
            arrived = self._stacked(ask, clients, seats)
        return Answers(asked, arrived, None)

    def _seats(self, clients: Array) -> dict[int, tuple[int, ...]]:
        """Which of these clients each connected node has. Waits for enough of them."""
        began, ordered = time.monotonic(), np.sort(clients)
        while True:
            found, end = {}, 0
            by_first = sorted(self.reachable().items(), key=lambda item: (item[1].start, item[0]))
            for node, own in by_first:  # of two nodes with one client, the first is asked for it
                first, last = np.searchsorted(ordered, [max(own.start, end), own.stop]).tolist()
                end = max(end, own.stop)
                if first < last:
                    found[node] = tuple(ordered[first:last].tolist())
            enough = sum(map(len, found.values())) >= self.agreement.fewest
            waited = time.monotonic() - began
            over = self.patience is not None and waited > self.patience
            if enough or over:
                return found
            self._go_on()
            time.sleep(min(1.0, 0.1 + waited / 10))

    def _go_on(self) -> None:
        if self.stopping():
            raise Interrupted("stopped while waiting for devices: the same command continues")

    def _frame(self, kind: Kind, ask: Ask, ids: tuple[int, ...], payload: bytes) -> Frame:
        agreed = self.agreement
        of_model = (
            ask.t if self.model_round is None else self.model_round,
            model_digest(ask.params),
        )
        about = agreed.id, ask.t, *of_model, agreed.feature_hash, secrets.token_bytes(16), ask.n
        return Frame(kind, *about, ids, payload)

    def _model(self, ask: Ask) -> bytes:
        how = (0, -1) if self.model is None else (self.model.sessions, self.model.stored)
        return Model(ask.params, *how).to_bytes()

    def _stacked(self, ask: Ask, clients: Array, seats: Mapping[int, tuple[int, ...]]) -> Cohort:
        """The messages of all who answered, in the order of the clients."""
        payload, rows = self._model(ask), dict[int, tuple[Array, float]]()
        asks = {node: self._frame(Kind.LEARN, ask, ids, payload) for node, ids in seats.items()}
        for node, answer in self.exchange(asks).items():
            try:
                updates, weights = read_updates(answer.payload, len(answer.clients))
            except Malformed as error:
                self._fail(node, "malformed", str(error))
                continue
            for id, update, weight in zip(answer.clients, updates, weights.tolist(), strict=True):
                try:
                    self._check(update, weight, ask.params)
                except Mistake as error:
                    self._fail(node, "message", f"client {id}: {error}")
                    continue
                rows[id] = update, weight
        there = [id for id in clients.tolist() if id in rows]
        if len(there) < self.agreement.fewest:
            return Cohort.empty(len(ask.params))
        updates = np.stack([rows[id][0] for id in there])
        return Cohort(np.array(there), updates, np.array([rows[id][1] for id in there]))

    def _check(self, update: Array, weight: float, params: Array) -> None:
        """Raises unless this learner could have sent it."""
        agreed = self.agreement
        agreed.check_weight(weight)
        agreed.device_learner.check_message(update, weight, params)
        if agreed.device_learner.reward_levels == 0:
            norm = float(lengths(update[None])[0])
            long = f"an update of norm {norm:.3g}, and at most {self.largest:.3g} is accepted"
            require(norm <= self.largest, long)

    def exchange(self, asks: Mapping[int, Frame]) -> dict[int, Frame]:
        """Push an ask to each node, and pull the answers until all are there or the deadline is
        over. Answers that are no answers are counted and left out."""
        answers, until, wait = dict[int, Frame](), time.monotonic() + self.deadline, FIRST_WAIT
        pending = self._push(asks, until)
        while pending and time.monotonic() < until:
            self._go_on()
            try:
                replies = list(self.grid.pull_messages(list(pending)))
            except NewSession:
                left = {node: asks[node] for node in pending.values()}
                pending, replies = self._push(left, until), []
            for reply in replies:
                id, sender = reply.metadata.reply_to_message_id, reply.metadata.src_node_id
                # an error may be Flower's own; nobody else answers for a node
                if id in pending and (reply.has_error() or pending[id] == sender):
                    node = pending.pop(id)
                    self._take(node, asks[node], reply, answers)
            wait = FIRST_WAIT if replies else min(LONGEST_WAIT, wait * SLOWER)
            if pending:
                time.sleep(min(wait, max(0.0, until - time.monotonic())))
        for node in pending.values():
            self._fail(node, "late", f"no answer within {self.deadline:g} s")
        return answers

    def _push(self, asks: Mapping[int, Frame], until: float) -> dict[str, int]:
        """Message id -> node. Tried again in a new session, as long as there is time."""
        pushed = dict[str, int]()
        while asks:
            messages = []
            for node, frame in asks.items():
                text = frame.to_bytes()
                self.sent_bytes += len(text)
                group = str(frame.round)
                messages.append(self.message(packed(text), "query", node, group, self.deadline))
            try:
                ids = list(self.grid.push_messages(messages))
            except NewSession:
                self._go_on()
                if time.monotonic() < until:
                    time.sleep(FIRST_WAIT)
                    continue
                ids = []
            pushed = {id: node for id, node in zip(ids, asks, strict=False) if id}
            break
        for node in asks.keys() - set(pushed.values()):
            self._fail(node, "unsent", "Flower did not take the message")
        return pushed

    def _take(self, node: int, ask: Frame, reply: Message, answers: dict[int, Frame]) -> None:
        if reply.has_error():
            self._fail(node, "failed", f"Flower's code {reply.error.code}")
            return
        try:
            text = unpacked(reply.content)
            self.got_bytes += len(text)
            answer = Frame.from_bytes(text)
            if not answer.answers(ask):
                raise Malformed("it is not the answer to what was asked")
            if answer.kind == Kind.REFUSED:
                self._fail(node, *read_refusal(answer.payload))
                return
        except ValueError as error:
            self._fail(node, "malformed", str(error))
            return
        answers[node] = answer

    def _fail(self, node: int, kind: str, text: str) -> None:
        self.failures[kind] += 1
        self.tell(str(node), kind, text)

    def _summed(
        self, protocol: SumProtocol, ask: Ask, clients: Array, seats: Mapping[int, tuple[int, ...]]
    ) -> Cohort:
        """One row, the mean of those who went through all steps; none if they were too few."""
        from foltr.federated.sum_rounds import SumRound  # needs cryptography

        everybody = np.sort(clients)
        known = {} if self.known is None else self.known(everybody)
        terms = protocol.terms(ask, self.agreement.fewest)
        named, now = terms.to_bytes(), SumRound(terms, everybody, known, self._fail)
        opening = write_parts([everybody.astype("<u4").tobytes(), named, self._model(ask)])
        asks = {node: self._frame(Kind.OPEN, ask, ids, opening) for node, ids in seats.items()}
        try:
            while asks:
                for node, answer in self.exchange(asks).items():
                    try:
                        parts = read_parts(answer.payload, len(answer.clients))
                    except Malformed as error:
                        self._fail(node, "malformed", str(error))
                        continue
                    now.take(node, dict(zip(answer.clients, parts, strict=True)))
                step, post = now.close()
                asks = {}
                for node, ids in () if step is None else seats.items():
                    left = tuple(id for id in ids if id in post)
                    if left:
                        assert step is not None
                        parts = [bytes([step]), named, *(post[id] for id in left)]
                        asks[node] = self._frame(Kind.SUM, ask, left, write_parts(parts))
            update, weight = protocol.mean(now.total())
        except (Withheld, Mistake) as error:
            self._fail(0, "withheld", str(error))
            return Cohort.empty(len(ask.params))
        norm, many = float(lengths(update[None])[0]), len(now.survivors)
        if not norm <= self.largest:
            self._fail(0, "huge", f"a mean of norm {norm:.3g}: a client sent a huge number")
            return Cohort.empty(len(ask.params))
        try:
            self.agreement.check_weight(weight / many)
        except Mistake as error:
            self._fail(0, "weight", f"the mean of {many} messages: {error}")
            return Cohort.empty(len(ask.params))
        return Cohort(np.array([-1]), update[None], np.array([weight]), mean_of=many)
