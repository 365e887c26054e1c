"""How a node answers: the bytes of an ask -> the bytes of the answer. No network is involved."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from foltr.components.unlearners.fed_eraser import calibrated
from foltr.core import Array, Ask, Engine
from foltr.core.cohorts import lengths
from foltr.core.errors import Mistake, require
from foltr.core.system.state_file import Unusable
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    LARGEST,
    WORDS,
    Frame,
    Kind,
    Malformed,
    Model,
    Refusal,
    Welcome,
    read_ids,
    read_parts,
    refusal,
    write_parts,
    write_updates,
)
from foltr.deployment.protocol.records import Record, Records
from foltr.secure_sum.terms import model_digest

if TYPE_CHECKING:
    from foltr.deployment.protocol.sums import SumParticipant  # needs cryptography

NONE = -1  # no round
FORGET = "forget"  # set in the records when the node has asked to be forgotten
FORGOTTEN = "forgotten"  # set when the server has unlearned it
MASKED = "masked"  # the last round in which masked updates were sent, and a hash of its clients
WORD, SUM_WORD = 4, 8  # bytes of a number, in an update and in a secure sum


@runtime_checkable
class LearnsFromLog(Protocol):
    """An engine whose clients learn from logs of searches that were made before."""

    positions: Array  # (clients,) int64: where in its log each client goes on


class Kept(NamedTuple):
    """What a client keeps between rounds."""

    memory: Array
    position: int | None  # in its log of searches; None without one


@dataclass
class Participant:
    """The clients of one node. It answers only what the agreement allows, whatever the server
    asks: it checks the federation, the features, the model, n, the budget of each client, and the
    terms of a secure sum.

    Each client stores its last answer. A round that is asked again gets the same answer, bit for
    bit, and costs no budget. So a server cannot average the noise away by asking again: another
    model in the same round costs the budget of another round.

    The text of a refusal contains no client data and no exception text. Errors of the node's own
    code go to its log only. It answers one ask at a time, and may be called from any
    thread."""

    agreement: Agreement
    clients: range | None  # their numbers; None until the server's first HELLO gives them
    # searches per client -> the engine in which clients learn (0: as the partition says)
    engine_for: Callable[[int], Engine]
    records: Records
    count: int = 0  # number of clients, while `clients` is None
    # the client that is number 0 of the engine; None: 0 if `clients` are given, else the first
    offset: int | None = None
    sums: SumParticipant | None = None  # secure sums, if the agreement has a channel
    tell: Callable[[str], None] = lambda text: None  # writes a line to the node's own log
    forgotten: Callable[[], None] = lambda: None  # called when the server has unlearned the node
    # each with what a client keeps before its first round
    _engines: dict[int, tuple[Engine, Kept]] = field(default_factory=dict)
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.clients is not None and self.offset is None:
            self.offset = 0
        numbers = self.records.about("clients")
        if self.clients is None and numbers is not None:
            start, stop = map(int, numbers.split())
            kept = f"the node's records have {stop - start} clients, its settings {self.count}"
            require(stop - start == self.count, f"{kept}: set clients = {stop - start} again")
            self.clients = range(start, stop)

    def answer(self, text: bytes) -> bytes:
        """The answer to an ask: what it asks for, or a refusal. Raises Malformed if `text` is not
        a frame."""
        ask = Frame.from_bytes(text)
        with self._busy:  # of two asks for one round, the second gets the stored answer
            try:
                return ask.answer(*self._answered(ask)).to_bytes()
            except Refusal as refused:
                what = "taking part" if ask.kind == Kind.HELLO else f"round {ask.round + 1}"
                self.tell(f"{what} refused ({refused.code}): {refused}")
                why = refusal(refused.code, str(refused))
            except Unusable as error:
                self.tell(str(error))
                why = refusal("disk", "the node cannot read or write its records")
            except Exception as error:  # noqa: BLE001  # its text may contain a client's data
                self.tell(f"round {ask.round + 1} failed: {type(error).__name__}: {error}")
                why = refusal("failed", "the node's own code failed: see the node's log")
        return ask.answer(Kind.REFUSED, (), why).to_bytes()

    def _answered(self, ask: Frame) -> tuple[Kind, tuple[int, ...], bytes]:
        if ask.kind == Kind.HELLO:
            return self._welcomed(ask)
        self._check(ask)
        if ask.kind == Kind.FORGOTTEN:
            return self._left(ask)
        self._check_staying()
        try:
            if ask.kind == Kind.LEARN:
                if self.agreement.channel is not None:
                    raise Refusal(
                        "channel",
                        f"the agreement has {self.agreement.channel!r}: this node sends no update"
                        " outside of it",
                    )
                learned = self.learned(ask, Model.from_bytes(ask.payload, self.d))
                updates = np.stack([record.payload for record in learned.values()])
                weights = np.array([record.weight for record in learned.values()])
                return Kind.LEARNED, tuple(learned), write_updates(updates, weights)
            if ask.kind in (Kind.OPEN, Kind.SUM):
                if self.sums is None:
                    raise Refusal("channel", "the agreement has no secure sum")
                messages = self._summed(self.sums, ask)
                return Kind.SUMMED, tuple(messages), write_parts(list(messages.values()))
        except Malformed as error:
            raise Refusal("malformed", str(error)) from None
        raise Refusal("kind", f"{ask.kind.name} is not an ask")

    def _summed(self, sums: SumParticipant, ask: Frame) -> dict[int, bytes]:
        """The clients' messages of one step of a secure sum.

        Once a node has sent masked updates of a round, it takes part in sums of the same clients
        only in that round. With other clients, a server could have the update of one client in
        many sums, unmasked by the others: their noise would average away. With the same clients,
        those who unmasked one sum are too many for another one to be released."""
        if ask.kind == Kind.SUM:
            return sums.step(ask, self._commit, self.records.release)
        asked, terms, model = read_parts(ask.payload, 3)
        sent = Model.from_bytes(model, self.d)
        sums.check(ask, sent.params, asked, terms)
        last, among = self._committed()
        if last > ask.round:
            raise Refusal("round", f"round {ask.round + 1} is over: {last + 1} was answered")
        if last == ask.round and among != clients_hash(read_ids(asked)):
            raise Refusal("released", f"updates of round {last + 1} are in a sum of other clients")
        known = self.records.of(ask.clients)
        over = {id for id, record in known.items() if record.released == ask.round}
        free = tuple(id for id in ask.clients if id not in over)
        if not free:
            told = f"a sum of round {ask.round + 1} was released already"
            raise Refusal("released", f"{told}: a second one would reveal more")
        learned = self.learned(replace(ask, clients=free), sent)
        return sums.open(ask, sent.params, learned, self.tell)

    def _commit(self, round: int, asked: Array) -> None:
        """Remember, before masked updates leave, among whom."""
        self.records.set_about(MASKED, round.to_bytes(8, "little") + clients_hash(asked))

    def _committed(self) -> tuple[int, bytes]:
        """The last round of which masked updates were sent (-1 for none), and among whom."""
        kept = self.records.about(MASKED)
        return (NONE, b"") if kept is None else (int.from_bytes(kept[:8], "little"), kept[8:])

    @property
    def d(self) -> int:
        return self.agreement.parameters

    def _welcomed(self, ask: Frame) -> tuple[Kind, tuple[int, ...], bytes]:
        """Compare the server's agreement with this node's own."""
        if ask.federation != self.agreement.id:
            text = ask.payload.decode("utf-8", "replace")
            found = self.agreement.differences(text, "in the node's file", "in the server's")
            differ = "; ".join(found) or "the agreements differ"
            raise Refusal("agreement", f"{differ}: write the same in both files")
        if self.clients is None:
            self._number(ask.clients)
        if ask.clients != tuple(self.clients or ()):
            raise Refusal("clients", f"this node has {self._whose()}: client numbers never change")
        self._check_staying()
        answered = self.records.rounds_answered()
        return Kind.WELCOME, ask.clients, Welcome(answered=answered).to_bytes()

    @property
    def leaving(self) -> bool:  # another process may have asked (`DeviceFolder.forget`)
        return self.records.about(FORGET) is not None

    def _check_staying(self) -> None:
        if self.leaving:
            raise Refusal("forget", "this node asks to be forgotten")

    def forget_me(self) -> None:
        """From now on, refuse every ask with the request to be forgotten."""
        self.records.set_about(FORGET, b"asked")

    def _left(self, ask: Frame) -> tuple[Kind, tuple[int, ...], bytes]:
        """Delete the records of this node, because the server has unlearned it."""
        if not self.leaving:
            raise Refusal("forget", "this node has not asked to be forgotten")
        self.records.forget()
        self.records.set_about(FORGOTTEN, b"yes")
        self.forgotten()
        return Kind.WELCOME, ask.clients, b""

    def _number(self, clients: tuple[int, ...]) -> None:
        """Take the client numbers that the server assigns. They never change: a client with
        another number would have a fresh budget."""
        start, many = clients[0] if clients else 0, len(clients)
        if many != self.count or clients != tuple(range(start, start + many)):
            raise Refusal(
                "clients", f"this node has {self.count} clients, the server's roster says {many}"
            )
        self.records.set_about("clients", f"{start} {start + many}".encode())
        self.clients = range(start, start + many)

    def _whose(self) -> str:
        own = self.clients or range(0)
        return f"the clients {own.start} .. {own.stop - 1}"

    def _check(self, ask: Frame) -> None:
        agreed = self.agreement
        if ask.federation != agreed.id:
            raise Refusal("agreement", "this node has another agreement")
        if ask.features != agreed.feature_hash:
            raise Refusal("features", "the model's features are not this node's features")
        if ask.n != agreed.asked:
            less = "a device's share of the noise depends on this number"
            raise Refusal("n", f"a round of {ask.n} clients, agreed is {agreed.asked}: {less}")
        if self.clients is None:
            raise Refusal("hello", "this node has not received a HELLO yet")
        own, ids = self.clients, ask.clients
        if not ids or ids[0] not in own or ids[-1] not in own:  # they ascend
            raise Refusal("clients", f"this node has {self._whose()}")

    @property
    def first(self) -> int:
        """The client that is number 0 of the engine."""
        assert self.clients is not None  # asks are checked first
        return self.clients.start if self.offset is None else self.offset

    def _check_how(self, ask: Frame, model: Model) -> None:
        """Refuse a way to learn that breaks the agreement."""
        agreed, other = self.agreement, model.sessions > 0 or model.stored >= 0
        if other and not agreed.may_rescale:
            kept = "its noise does not protect rescaled updates"
            raise Refusal("how", f"a round of unlearning with {agreed.privacy!r}: {kept}")
        if model.sessions > agreed.learner.sessions:
            usual = f"the learner of the agreement has {agreed.learner.sessions}"
            raise Refusal("how", f"{model.sessions} searches of a client, {usual}")
        word = WORD if agreed.channel is None else SUM_WORD
        if len(ask.clients) * (self.d + 2) * word > LARGEST:
            many = f"the updates of {len(ask.clients)} clients"
            raise Refusal("size", f"{many} are larger than a frame, {LARGEST} bytes")

    def learned(self, ask: Frame, model: Model) -> dict[int, Record]:
        """What each client sends, in ascending order: learned now, or repeated from the records.
        Clients that fail or may not answer are left out. Raises Refusal if no client is left."""
        if model_digest(model.params) != ask.model:
            raise Refusal("model", "the model is not the one that the ask names")
        self._check_how(ask, model)
        known, name = self.records.of(ask.clients), self._name_of(ask, model)
        apart = self.agreement.separation
        reasons, again, due = dict[str, str](), dict[int, Record](), list[int]()
        for client in ask.clients:
            record = known.get(client)
            if record is not None and record.round == ask.round and record.ask == name:
                again[client] = record
            elif record is not None and record.round > ask.round:
                reasons["round"] = (
                    f"round {ask.round + 1} is over: {record.round + 1} was answered"
                )
            elif record is not None and ask.round < record.round + (apart or 0):
                often = f"client {client} answered in round {record.round + 1}"
                reasons["separation"] = f"{often}, and takes part once in {apart} rounds"
            elif record is not None and record.spent >= self.agreement.rounds:
                all_spent = f"client {client} has answered in all {record.spent} rounds agreed"
                reasons["budget"] = all_spent
            elif model.stored >= 0 and self.records.norm(model.stored, client) is None:
                reasons["norms"] = f"client {client} stored no norm in round {model.stored + 1}"
            else:
                due.append(client)
        made = self._learn(ask, model, due, known) if due else {}
        if due and not made:
            reasons["failed"] = "no client had anything to send, or the clients' code failed"
        if not made and not again:
            raise Refusal(*next(iter(reasons.items())))
        if made:
            self._store(ask, model, made)
        return dict(sorted((again | made).items()))

    def _name_of(self, ask: Frame, model: Model) -> bytes:
        """A hash of all that an answer depends on: the round, the model, n and how to learn."""
        how = f"{ask.round} {ask.n} {model.sessions} {model.stored} ".encode()
        return sha256(how + ask.model).digest()

    def _learn(
        self, ask: Frame, model: Model, due: list[int], known: Mapping[int, Record]
    ) -> dict[int, Record]:
        """Let clients learn. A client whose code raises is left out."""
        (engine, initial), name = self._engine(model.sessions), self._name_of(ask, model)
        if self.records.settle(with_log=isinstance(engine, LearnsFromLog)):
            known = self.records.of(due)
        before = {}
        for client in due:
            record = known.get(client)
            before[client] = initial
            if record is not None:  # a round that is repeated starts from what was kept before it
                before[client] = (
                    Kept(record.before, record.position_before)
                    if record.round == ask.round
                    else Kept(record.after, record.position_after)
                )
        asked = Ask(model.params, ask.round, ask.n)
        made = {}
        for client, update, weight in self._collected(engine, asked, due, before):
            record = known.get(client)
            spent, released = (record.spent, record.released) if record else (0, NONE)
            kept = self._kept(engine, client)
            try:
                self.agreement.check_weight(weight, model.sessions)
                sent = in_words(self._rescaled(client, update, model.stored))
            except Mistake as error:
                self.tell(f"client {client}, round {ask.round + 1}: {error}")
                continue
            made[client] = Record(
                client, ask.round, name, before[client].memory, kept.memory, sent, weight,
                spent=spent + 1, released=released,
                position_before=before[client].position, position_after=kept.position,
            )  # fmt: skip
        return made

    def _kept(self, engine: Engine, client: int) -> Kept:
        """What a client keeps now."""
        row = client - self.first
        memory = engine.memory[row].astype(np.float32)
        position = int(engine.positions[row]) if isinstance(engine, LearnsFromLog) else None
        return Kept(memory, position)

    def _begin_from(self, engine: Engine, client: int, kept: Kept) -> None:
        """Let a client go on from what it has kept."""
        engine.memory[client - self.first] = kept.memory
        if isinstance(engine, LearnsFromLog):
            require(
                kept.position is not None,
                f"client {client} has answered without a log of searches: leave clicks out of the"
                " settings, or use another state folder",
            )
            engine.positions[client - self.first] = kept.position

    def _engine(self, sessions: int) -> tuple[Engine, Kept]:
        if sessions not in self._engines:
            engine = self.engine_for(sessions)
            # at most two are kept: the one for training, and the last one for unlearning
            self._engines = {0: self._engines[0]} if 0 in self._engines else {}
            self._engines[sessions] = engine, self._kept(engine, self.first)
        return self._engines[sessions]

    def _collected(
        self, engine: Engine, ask: Ask, due: list[int], before: Mapping[int, Kept]
    ) -> list[tuple[int, Array, float]]:
        """The messages of these clients, collected together or, if one of them fails, singly."""
        rows = np.array(due) - self.first
        try:
            for client in due:
                self._begin_from(engine, client, before[client])
            got = engine.collect(ask, rows).arrived
            ids = (got.clients + self.first).tolist()  # some may have nothing to send
            return list(zip(ids, got.updates, got.weights.tolist(), strict=True))
        except Exception as error:  # noqa: BLE001  # a client's code may raise anything
            self.tell(f"round {ask.t + 1}: {type(error).__name__}: {error}")
        found = []
        for client in due:
            try:
                self._begin_from(engine, client, before[client])
                got = engine.collect(ask, np.array([client - self.first])).arrived
                if len(got):
                    found.append((client, got.updates[0], float(got.weights[0])))
            except Exception as error:  # noqa: BLE001
                self.tell(f"client {client}, round {ask.t + 1}: {type(error).__name__}: {error}")
        return found

    def _rescaled(self, client: int, update: Array, stored: int) -> Array:
        """The update with the norm of what the client sent in the stored round (FedEraser)."""
        if stored < 0:
            return update
        norm = self.records.norm(stored, client) or 0.0
        return calibrated(update[None], np.array([norm]))[0]

    def _store(self, ask: Frame, model: Model, made: Mapping[int, Record]) -> None:
        every, norms = self.agreement.history, None
        if every is not None and ask.round % every == 0 and model.stored < 0:
            sizes = lengths(np.stack([record.payload for record in made.values()]))
            norms = dict(zip(made, sizes.tolist(), strict=True))
        self.records.keep(made.values(), norms)


def clients_hash(clients: Array) -> bytes:
    """A hash of a set of client ids, in ascending order."""
    return sha256(np.asarray(clients, "<u4").tobytes()).digest()


def in_words(update: Array) -> Array:
    """A message as numbers of four bytes, the form in which it is sent and stored."""
    words = WORDS.get(update.dtype.kind.encode())
    if words is None:
        raise Mistake(f"a message of {update.dtype} cannot be sent")
    with np.errstate(over="ignore"):
        sent = update.astype(words.newbyteorder("="), copy=False)
    if not np.isfinite(sent).all():
        raise Mistake("a message has numbers that are infinite or NaN in four bytes")
    return sent
