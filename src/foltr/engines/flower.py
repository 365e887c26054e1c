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
    NO_MODEL,
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
AGAIN = 30.0  # seconds until a node that refused the agreement is asked again
LARGEST = 1e6  # L2 norm of an update that is accepted


class Stopping(Exception):
    """The server stops in the middle of a round, which is then made again."""


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
    greeted: set[int] = field(default_factory=set)  # nodes that have agreed
    refused: dict[int, float] = field(default_factory=dict)  # nodes that have not: when
    failures: Counter[str] = field(default_factory=Counter)
    took_part: Array = field(default_factory=lambda: np.empty(0, np.int64))  # in the last round
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
        seats, self.took_part = self._seats(clients), np.empty(0, np.int64)
        asked = np.array(sorted(id for ids in seats.values() for id in ids), np.int64)
        if self.agreement.protocol is not None:
            arrived = self._summed(self.agreement.protocol, ask, clients, seats)
        else:
            arrived = self._stacked(ask, clients, seats)
        return Answers(asked, arrived, None)

    def _seats(self, clients: Array) -> dict[int, tuple[int, ...]]:
        """Which of these clients each connected node has. Waits for enough of them."""
        began = time.monotonic()
        while True:
            found = {}
            for node, own in sorted(self._agreeing().items()):
                ids = clients[(clients >= own.start) & (clients < own.stop)]
                if len(ids):
                    found[node] = tuple(sorted(ids.tolist()))
            enough = sum(map(len, found.values())) >= self.agreement.fewest
            waited = time.monotonic() - began
            if enough or (self.patience is not None and waited > self.patience):
                return found
            self._check_stopping()
            time.sleep(min(1.0, 0.1 + waited / 10))

    def _agreeing(self) -> dict[int, range]:
        """The connected nodes that have the same agreement. Each is asked once; one that refuses
        is asked again later, for it may have been corrected."""
        there, now = dict(self.reachable()), time.monotonic()
        self.greeted &= there.keys()
        new = {
            node: Frame(Kind.HELLO, *self._about(secrets.token_bytes(16)), tuple(own), self._text)
            for node, own in there.items()
            if node not in self.greeted and now - self.refused.get(node, -AGAIN) >= AGAIN
        }
        if new:
            welcomed = self.exchange(new).keys()
            self.greeted |= welcomed
            self.refused |= dict.fromkeys(new.keys() - welcomed, now)
        return {node: own for node, own in there.items() if node in self.greeted}

    def _about(self, nonce: bytes) -> tuple[bytes, int, int, bytes, bytes, bytes, int]:
        """The header of a HELLO."""
        agreed = self.agreement
        return agreed.id, 0, 0, NO_MODEL, agreed.feature_hash, nonce, agreed.asked

    @property
    def _text(self) -> bytes:
        return self.agreement.text.encode()

    def farewell(self, node: int, clients: range) -> bool:
        """Tell a node that it is unlearned; whether it answered."""
        about = self._about(secrets.token_bytes(16))
        ask = Frame(Kind.FORGOTTEN, *about, tuple(clients))
        return node in self.exchange({node: ask})

    def _check_stopping(self) -> None:
        if self.stopping():
            raise Stopping

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
        self.took_part = np.array(there, np.int64)
        if len(there) < self.agreement.fewest:
            return Cohort.empty(len(ask.params))
        updates = np.stack([rows[id][0] for id in there])
        return Cohort(np.array(there), updates, np.array([rows[id][1] for id in there]))

    def _check(self, update: Array, weight: float, params: Array) -> None:
        """Raises unless this learner could have sent it."""
        agreed, most = self.agreement, self.agreement.sessions
        if self.model is not None and self.model.sessions:
            most = self.model.sessions
        equal = agreed.privacy is not None and agreed.privacy.needs_equal_weights
        wanted = f"{most}" if equal else f"in (0, {most}]"
        fits = weight == most if equal else 0.0 < weight <= most
        require(fits, f"a weight must be {wanted}, got {weight}")
        agreed.device_learner.check_message(update, weight, params)
        if agreed.device_learner.reward_levels == 0:
            norm = float(lengths(update[None])[0])
            long = f"an update of norm {norm:.3g}, and at most {self.largest:.3g} is accepted"
            require(norm <= self.largest, long)

    def exchange(self, asks: Mapping[int, Frame]) -> dict[int, Frame]:
        """Push an ask to each node, and pull the answers until all are there or the deadline is
        over. Answers that are no answers are counted and left out."""
        answers, until, wait = dict[int, Frame](), time.monotonic() + self.deadline, FIRST_WAIT
        pending = self._push(asks)
        while pending and time.monotonic() < until:
            self._check_stopping()
            try:
                replies = list(self.grid.pull_messages(list(pending)))
            except NewSession:
                left = {node: asks[node] for node in pending.values()}
                pending, replies = self._push(left), []
            for reply in replies:
                node = pending.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    self._take(node, asks[node], reply, answers)
            wait = FIRST_WAIT if replies else min(LONGEST_WAIT, wait * SLOWER)
            if pending:
                time.sleep(min(wait, max(0.0, until - time.monotonic())))
        for node in pending.values():
            self._fail(node, "late", f"no answer within {self.deadline:g} s")
        return answers

    def _push(self, asks: Mapping[int, Frame]) -> dict[str, int]:
        """Message id -> node."""
        while True:
            messages = []
            for node, frame in asks.items():
                text = frame.to_bytes()
                self.sent_bytes += len(text)
                group = str(frame.round)
                messages.append(self.message(packed(text), "query", node, group, self.deadline))
            try:
                ids = list(self.grid.push_messages(messages)) if messages else []
            except NewSession:
                continue
            pairs = zip(ids, asks, strict=False)
            return {id: node for id, node in pairs if id}

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
                code, reason = read_refusal(answer.payload)
                if code in ("hello", "agreement"):
                    self.greeted.discard(node)
                self._fail(node, code, reason)
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
        norm = float(lengths(update[None])[0])
        if not norm <= self.largest:
            self._fail(0, "huge", f"a mean of norm {norm:.3g}: a client sent a huge number")
            return Cohort.empty(len(ask.params))
        self.took_part, many = everybody[sorted(now.survivors)], len(now.survivors)
        return Cohort(np.array([-1]), update[None], np.array([weight]), mean_of=many)
