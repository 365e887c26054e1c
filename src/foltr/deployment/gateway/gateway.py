"""The gateway: which devices can be reached, and the steps of a round.

The node's thread passes the server's asks to the gateway. The event loop of the HTTPS server does
everything else. An ask is divided among the devices. It ends when all of them have answered, when
those that have not answered have disconnected, or when the time is over."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from foltr.core.system.log import Event
from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway.devices import FORGET, Devices, Forbidden
from foltr.deployment.gateway.enrolment import BatchWriter, Enrolled, Enrolment, Refused, Standing
from foltr.deployment.gateway.presence import Polling, Presence
from foltr.deployment.gateway.signing import answer_text, verified
from foltr.deployment.gateway.steps import REFUSAL, STEPS, Step
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    VERSION,
    Frame,
    Kind,
    Malformed,
    Refusal,
    Welcome,
    read_parts,
    read_refusal,
    refusal,
    write_ids,
)

LOOK = 0.1  # seconds between two looks at who is missing
AGAIN = 1.0  # an ask that arrived more seconds ago was interrupted by a restart
NUMBERS = "numbers"  # name in the state file of the first and the last client number + 1


class Late(Refused):
    """An answer to an ask that is over."""

    def __init__(self) -> None:
        super().__init__(410, "this ask is over")


class Conflict(Refused):
    """A second, different answer to an ask."""

    def __init__(self) -> None:
        super().__init__(409, "this ask has another answer already")


class Stopping(Exception):
    """The gateway stops in the middle of a step. Its next process continues it."""


@dataclass
class Gateway:
    """The devices of a gateway, and the step that is under way.

    `clients` is the number of places for devices. The server's first HELLO gives them their
    numbers."""

    agreement: Agreement
    enrolment: Enrolment
    clients: int
    polling: Polling = Polling()
    tell: Callable[[str], None] = lambda text: None
    numbers: range | None = None
    step: Step | None = None
    answers: dict[int, Frame] = field(default_factory=dict)  # of the step
    model: Frame | None = None  # the last one, as an ask of no client
    counts: Counter[str] = field(default_factory=Counter)  # for the metrics
    _texts: dict[int, bytes] = field(default_factory=dict)  # the same answers as they arrived
    _refused: set[int] = field(default_factory=set)  # devices whose answer to it was malformed
    _last: tuple[bytes, dict[int, bytes]] = (b"", {})  # those of the step before
    _models: dict[int, bytes] = field(default_factory=dict)  # round of a model -> its digest
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _over: bool = False  # whether the step accepts no more answers
    _until: float = 0.0  # when the step ends, at the latest (time of the event loop)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.devices, self.presence = Devices(self.enrolment), Presence(self.polling)
        self.writer = BatchWriter(self._write, self._on_disk)
        kept = self.enrolment.about(NUMBERS)
        if kept is not None:
            self.numbers = range(*map(int, kept.split()))
        self._models = self.enrolment.models()

    def start(self) -> None:
        """Bind the gateway to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self.presence.start()

    def _write(self, batch: Sequence[tuple[bytes, int, bytes, Frame]]) -> None:
        answers = [(nonce, client, text) for nonce, client, text, _ in batch]
        self.devices.alone(self.enrolment.keep, answers)

    # --- asks for devices ---

    def present(self) -> tuple[int, ...]:
        """The active devices that can be reached, in ascending order."""
        there = self.presence.reachable
        return tuple(sorted(c for c in self.devices if self.devices.active(c) and there(c)))

    def ask_of(self, client: int, answered: bytes) -> tuple[bytes, bytes] | None:
        """The nonce and the frame of the ask that a device has to answer now; None if there is
        none. `answered` is the nonce of its last answer. If the gateway does not have that answer,
        because its state was restored from a copy, it asks again."""
        device = self.devices[client]
        if device.standing == Standing.FORGOTTEN and device.notice is not None:
            notice = _notice(device)
            return None if notice.nonce == answered else (notice.nonce, notice.to_bytes())
        step = self.step
        if step is None or client not in step.clients or client in self._texts:
            return None
        if not self.devices.active(client) or (step.nonce == answered and client in self._refused):
            return None
        return step.nonce, step.ask_for(client)

    @property
    def seconds_left(self) -> float:
        """Until when the step that is under way takes answers; 0 if there is none."""
        assert self._loop is not None
        return 0.0 if self.step is None else max(0.0, self._until - self._loop.time())

    async def next_ask(
        self, client: int, answered: bytes, seconds: float
    ) -> tuple[bytes, bytes] | None:
        """The ask that a device has to answer; waits for one at most this many seconds."""
        found = self.ask_of(client, answered)
        if found is not None or seconds <= 0.0 or self.stopping:
            return found
        await self.presence.wait(client, seconds)
        return self.ask_of(client, answered)

    async def finish(self, seconds: float) -> None:
        """Stop: let the step that is under way end, for up to this many seconds, and release all
        requests that wait."""
        until = asyncio.get_running_loop().time() + seconds
        while self.step is not None and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK / 2)
        self.stopping = True
        self.presence.wake_all()

    # --- answers of devices ---

    def check_due(self, client: int, nonce: bytes) -> int:
        """The most bytes of this device's answer to this ask. Raises Late if none is expected."""
        step = self.step
        if step is not None and nonce == step.nonce and client in step.clients:
            return step.most
        if nonce == self._last[0] and client in self._last[1]:
            return max(len(self._last[1][client]), REFUSAL)
        if self.devices.known(client).standing == Standing.FORGOTTEN:
            return REFUSAL
        raise Late

    async def take_answer(self, client: int, nonce: bytes, signature: bytes, text: bytes) -> None:
        """Take a device's answer. It is on disk when this returns. The same answer again changes
        nothing. Raises Late, Conflict, Forbidden, Malformed or Unusable."""
        device = self.devices.known(client)
        if device.standing == Standing.FORGOTTEN:
            await self._take_farewell(device, signature, text)
            return
        earlier = self._last[1] if nonce == self._last[0] else {}
        if client in earlier and earlier[client] == text:
            return
        step = self.step
        if step is None or self._over or nonce != step.nonce or client not in step.clients:
            raise Late
        if client in self._texts:
            if self._texts[client] != text:
                raise Conflict
            if client in self.answers:
                return
        if not verified(self.devices.key_of(client), signature, answer_text(text)):
            raise Forbidden("the signature is not this device's")
        try:
            answer = step.checked(client, text)
        except Malformed:
            self._refused.add(client)
            raise
        self._texts[client] = text
        try:
            await self.writer.put((nonce, client, text, answer))
        except BaseException:
            if client not in self.answers:
                self._texts.pop(client, None)
            self.presence.answered([client])  # it is not to blame
            raise

    async def _take_farewell(self, device: Enrolled, signature: bytes, text: bytes) -> None:
        """Take a device's confirmation that it knows that it is forgotten."""
        if not verified(self.devices.key_of(device.client), signature, answer_text(text)):
            raise Forbidden("the signature is not this device's")
        answer = Frame.from_bytes(text)
        if not answer.answers(_notice(device)):
            raise Malformed("the answer does not fit the notice")
        if answer.kind != Kind.REFUSED:  # its disk may be full: it is told again later
            told = {device.client: None}
            await self.devices.set_standing(told, Standing.GONE, (Standing.FORGOTTEN,))

    def _on_disk(self, batch: Sequence[tuple[bytes, int, bytes, Frame]]) -> None:
        """Answers are on disk: count them. Answers to an ask that is over are dropped."""
        for nonce, client, text, answer in batch:
            if self.step is None or nonce != self.step.nonce or client in self.answers:
                continue
            self.answers[client], self._texts[client] = answer, text
            self.counts["answers"] += 1
            if answer.kind == Kind.REFUSED:
                self.counts[f"refused {read_refusal(answer.payload)[0]}"] += 1
        if self.step is not None and len(self.answers) >= len(self.step.clients):
            self._done.set()

    # --- asks of the server ---

    def answer(self, text: bytes, seconds: float, age: float = 0.0) -> bytes:
        """The answer to an ask of the server that is `age` seconds old, when it is so many seconds
        old at the latest. Called by the node's thread."""
        assert self._loop is not None
        reply = self.reply(text, seconds, age)
        return asyncio.run_coroutine_threadsafe(reply, self._loop).result()

    async def reply(self, text: bytes, seconds: float, age: float = 0.0) -> bytes:
        ask = Frame.from_bytes(text)
        try:
            return (await self._reply(ask, seconds, age)).to_bytes()
        except Refusal as refused:
            code, why = refused.code, str(refused)
        except Malformed as error:
            code, why = "malformed", str(error)
        except Unusable as error:
            self.tell(str(error))
            code, why = "disk", "the gateway cannot read or write its state"
        self.tell(f"round {ask.round + 1}, {ask.kind.name} refused ({code}): {why}")
        return ask.answer(Kind.REFUSED, (), refusal(code, why)).to_bytes()

    async def _reply(self, ask: Frame, seconds: float, age: float) -> Frame:
        agreed = self.agreement
        if ask.kind == Kind.HELLO:
            return await self._welcome(ask)
        if ask.federation != agreed.id or ask.features != agreed.feature_hash:
            raise Refusal("agreement", "this gateway has another agreement")
        if self.numbers is None:
            raise Refusal("hello", "this gateway has not received a HELLO yet")
        if ask.clients and not (
            ask.clients[0] in self.numbers and ask.clients[-1] in self.numbers
        ):
            own = f"{self.numbers.start} .. {self.numbers.stop - 1}"
            raise Refusal("clients", f"this gateway has the clients {own}")
        if ask.kind == Kind.ROLL:
            payload = write_ids(np.array(self.devices.to_forget(), np.int64))
            return ask.answer(Kind.PRESENT, self.present(), payload)
        if ask.kind == Kind.FORGOTTEN:
            return await self._farewell(ask)
        if ask.kind not in STEPS:
            raise Refusal("kind", f"{ask.kind.name} is not an ask")
        return await self._run(Step(ask, agreed, dict(self._models)), seconds, age)

    async def _welcome(self, ask: Frame) -> Frame:
        if ask.federation != self.agreement.id:
            text = ask.payload.decode("utf-8", "replace")
            found = self.agreement.differences(text, "in the gateway's file", "in the server's")
            differ = "; ".join(found) or "the agreements differ"
            raise Refusal("agreement", f"{differ}: write the same in both files")
        start = ask.clients[0] if ask.clients else 0
        given = range(start, start + len(ask.clients))
        if ask.clients != tuple(given) or len(given) != self.clients:
            wrong = f"the server's roster says {len(given)}"
            raise Refusal("clients", f"this gateway has {self.clients} places, {wrong}")
        if self.numbers is None:
            kept = f"{given.start} {given.stop}".encode()
            await self.devices.on_disk(self.enrolment.set_about, NUMBERS, kept)
            self.numbers = given
        if self.numbers != given:
            raise Refusal("clients", "client numbers never change: restore the server's roster")
        rounds = await self.devices.on_disk(self.enrolment.rounds_answered)
        welcome = Welcome(roll=True, answered=rounds)
        return ask.answer(Kind.WELCOME, ask.clients, welcome.to_bytes())

    async def _farewell(self, ask: Frame) -> Frame:
        """The server has unlearned devices that asked for it. They are told when they next ask,
        and their last answer is deleted."""
        asked = [c for c in ask.clients if c in self.devices]
        asked = [c for c in asked if self.devices[c].standing in FORGET]
        if not asked:
            raise Refusal("forget", "these clients have not asked to be forgotten")
        for kept in (self.answers, self._texts, self._last[1]):
            for client in asked:
                kept.pop(client, None)
        if not await self.devices.on_disk(self.enrolment.erase, asked):
            used = f"{self.enrolment.path} is being read by another process"
            self.tell(f"{used}: answers that are forgotten may be in its log until a later ask")
        told = [c for c in asked if self.devices[c].standing == Standing.TO_FORGET]
        notices = {c: replace(ask, clients=(c,)).to_bytes() for c in told}
        await self.devices.set_standing(notices, Standing.FORGOTTEN, (Standing.TO_FORGET,))
        self.presence.wake(told)
        return ask.answer(Kind.WELCOME, ask.clients, b"")

    async def _run(self, step: Step, seconds: float, age: float) -> Frame:
        """One step: ask all devices, and join their answers."""
        loop, ask = asyncio.get_running_loop(), step.ask
        self._remember_model(ask)
        given = step.nonce, ask.round, time.time(), self._models
        stored, began = await self.devices.on_disk(self.enrolment.begin, *given)
        self._done, self._texts, self.answers, self._over = asyncio.Event(), {}, {}, False
        self._refused = set()
        for client, text in stored.items():  # from before a restart
            with suppress(Malformed):
                if client in step.clients and not self.devices.revoked(client):
                    self.answers[client] = step.checked(client, text)
                    self._texts[client] = text
        self.step = step
        self.presence.wake(step.clients)
        known = max(0.0, time.time() - began)  # since it first arrived here
        self._until = until = loop.time() + seconds - max(age, known)
        continued = known > AGAIN
        while (missing := step.clients - self.answers.keys()) and loop.time() < until:
            try:
                await asyncio.wait_for(self._done.wait(), min(LOOK, until - loop.time()))
            except TimeoutError:
                pass
            if self.stopping:
                raise Stopping
            awaited = self.presence.awaited
            if not any(self.devices.active(c) and awaited(c, continued) for c in missing):
                break
        self._over = True  # answers that arrive from now on are late
        await self.writer.drained()
        self.step, self._last = None, (step.nonce, self._texts)
        missing = step.clients - self.answers.keys()
        self.presence.missed(missing)
        self.presence.answered(self.answers)
        self.counts["asks"] += 1
        self.counts["missing"] += len(missing)
        many, took = len(self.answers), loop.time() - until + seconds
        told = f"round {ask.round + 1}, {ask.kind.name}: {many:,} of {len(step.clients):,} devices"
        about = {"round": ask.round + 1, "answered": many, "asked": len(step.clients)}
        line = f"{told} answered, {took:.1f} s"
        self.tell(Event(line, "ask", "info", **about, seconds=round(took, 3)))
        revoked = self.devices.revoked  # perhaps after they had answered
        return step.joined({c: each for c, each in self.answers.items() if not revoked(c)})

    def _remember_model(self, ask: Frame) -> None:
        """Remember the model of an ask, for devices that are not asked, and its digest, for
        answers that are made on it later."""
        oldest = ask.round - (self.agreement.separation or 0)
        self._models = {t: name for t, name in self._models.items() if t >= oldest}
        self._models[ask.model_round] = ask.model
        if ask.kind != Kind.SUM:
            payload = ask.payload if ask.kind == Kind.LEARN else read_parts(ask.payload, 3)[2]
            self.model = replace(ask, kind=Kind.LEARN, clients=(), payload=payload)


def _notice(device: Enrolled) -> Frame:
    """The server's notice that a device is forgotten. It may have been stored long ago, when the
    protocol had another version."""
    assert device.notice is not None
    return Frame.from_bytes(device.notice[:2] + bytes([VERSION]) + device.notice[3:])
