"""Many devices of a gateway in one process, for `benchmarks/gateway.py`.

    python benchmarks/gateway_devices.py CONFIG.json

Every device has an Ed25519 key, enrols, and has a TLS connection of its own: the code is that of
`deployment/gateway/client.py` and `async_client.py`. Only the learning is left out. A device sends
a message that is made up, valid, and the same in every round. With a secure sum, a device runs the
whole protocol on it (`deployment/protocol/participant.py`).

The process reads commands from its standard input, one per line:
    report       prints the counters as one line of JSON
    held N       from now on the last N devices keep their connection; the others connect for
                 every request
    poll N       from now on such a device comes back after N seconds
    stop         ends it"""

from __future__ import annotations

import asyncio
import json
import random
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort
from foltr.deployment.gateway.async_client import AsyncConnection, AsyncGatewayClient
from foltr.deployment.gateway.client import Requests, Unavailable
from foltr.deployment.gateway.process import (
    collect_garbage_seldom,
    connections_allowed,
    loop_factory,
)
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.planning.traffic import example_message
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import HEADER, Kind, write_updates
from foltr.deployment.settings import read_gateway
from foltr.experiment.user_files import Code

TOGETHER = 50  # devices that enrol at the same time
LENGTH = struct.Struct("<Q")
BEFORE = HEADER.size - LENGTH.size  # bytes of a frame before the length of its payload


@dataclass(frozen=True)
class Devices:
    """The settings of the process.

    settings: the gateway's settings file, which has the agreement
    held: the last devices, so many, keep a connection, on which the gateway holds their requests
    poll: seconds after which another device comes back
    wait: seconds for which the gateway is to hold a request
    dying: share of the devices that drop their connection in a round instead of answering
    away: seconds after which such a device comes back"""

    settings: str
    port: int
    ca: str | None
    invitation: str
    devices: int
    held: int
    poll: float = 60.0
    dying: float = 0.0
    away: float = 1.0
    wait: int = 25
    seed: int = 1


def answering(payload: bytes) -> Callable[[bytes], bytes]:
    """A function from an ask (LEARN, for one client) to the answer with this payload. It changes
    the kind, the length and the payload of the frame; parsing it would cost more."""
    length = LENGTH.pack(len(payload))

    def answer(ask: bytes) -> bytes:
        client = ask[HEADER.size : HEADER.size + 4]
        return ask[:3] + bytes([Kind.LEARNED]) + ask[4:BEFORE] + length + client + payload

    return answer


class MadeUp:
    """An engine whose clients all send the same message."""

    notes: tuple[str, ...] = ()

    def __init__(self, message: Array, weight: float) -> None:
        self._message, self._weight = message, weight
        self.memory = np.empty((1, 0), np.float32)

    def collect(self, ask: Ask, clients: Array) -> Answers:
        many = len(clients)
        updates = np.tile(self._message, (many, 1))
        return Answers(clients, Cohort(clients, updates, np.full(many, self._weight)), None)


def summing(agreed: Agreement, client: int, engine: MadeUp) -> Callable[[bytes], bytes]:
    """The answers of a device that takes part in secure sums."""
    from foltr.deployment.protocol.participant import Participant
    from foltr.deployment.protocol.records import Records
    from foltr.deployment.protocol.sums import SumParticipant

    assert agreed.protocol is not None
    own = range(client, client + 1)
    device = Participant(
        agreed, own, lambda sessions: engine, Records(None, agreed.id), offset=client
    )
    device.sums = SumParticipant(agreed.protocol, agreed.fewest)
    return device.answer


class Death(Exception):
    """A device drops its connection instead of answering."""


class Crowd:
    """All devices of the process, and what they count."""

    def __init__(self, how: Devices, agreed: Agreement) -> None:
        self.how, self.agreed, self.held, self.poll = how, agreed, how.held, how.poll
        self.draws = random.Random(how.seed)
        parts = agreed.device_learner, agreed.ranker, len(agreed.features), agreed.sessions
        message, weight = example_message(*parts)
        self.answer = answering(write_updates(message[None], np.array([weight])))
        self.engine = MadeUp(message, weight)
        self.tls = None if how.ca is None else trusting(Path(how.ca))
        self.devices: list[AsyncGatewayClient] = []
        self.enrolled = self.asked = self.died = self.failed = 0
        self.thinking = 0.0  # CPU seconds of the devices' own part of secure sums
        self.last = ""

    def tell(self, text: str) -> None:
        self.failed += 1
        self.last = text

    def report(self) -> dict[str, Any]:
        wires = [each.wire for each in self.devices]
        return {
            "enrolled": self.enrolled,
            "connected": sum(wire.connected for wire in wires),
            "asked": self.asked,
            "answered": sum(each.answered for each in self.devices),
            "sent": sum(wire.sent for wire in wires),
            "got": sum(wire.got for wire in wires),
            "died": self.died,
            "failed": self.failed,
            "last": self.last,
            "thinking": self.thinking,
        }

    def obey(self, words: list[str]) -> None:
        if words[0] == "held":
            self.held = int(words[1])
        if words[0] == "poll":
            self.poll = float(words[1])

    def keeps(self, place: int) -> bool:
        """Whether the device at this place keeps its connection."""
        return place >= len(self.devices) - self.held

    async def run(self) -> None:
        gate, how = asyncio.Semaphore(TOGETHER), self.how
        for _ in range(how.devices):
            wire = AsyncConnection("localhost", how.port, self.tls, timeout=how.wait + 60.0)
            requests = Requests(Ed25519PrivateKey.generate(), self.agreed.id)
            self.devices.append(AsyncGatewayClient(wire, requests, how.wait, self.tell))
        numbered = enumerate(self.devices)
        await asyncio.gather(*(self.one(each, place, gate) for place, each in numbered))

    async def one(self, device: AsyncGatewayClient, place: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            while True:
                try:
                    client = await device.enrol(self.how.invitation)
                    break
                except Unavailable as away:
                    self.tell(str(away))
                    await asyncio.sleep(max(0.5, away.seconds))
        self.enrolled += 1
        answer = self.answer
        if self.agreed.protocol is not None:
            answer = self.timed(summing(self.agreed, client, self.engine))
        if self.how.dying:
            answer = self.mortal(answer)
        if not self.keeps(place):
            device.wire.close()
            await asyncio.sleep(self.poll * self.draws.random())  # not all at the same time
        while True:
            try:
                await asyncio.sleep(await self.once(device, answer, place))
            except Death:
                self.died += 1
                device.wire.close(abruptly=True)
                await asyncio.sleep(self.how.away * self.draws.uniform(0.9, 1.1))
            except Unavailable as away:
                self.tell(str(away))
                await asyncio.sleep(max(0.5, away.seconds))

    async def once(
        self, device: AsyncGatewayClient, answer: Callable[[bytes], bytes], place: int
    ) -> float:
        """One request for an ask, and its answer. Returns how many seconds to wait then."""
        self.asked += 1
        if self.keeps(place):
            return await device.once(answer)
        device.wait = 0
        await device.once(answer)
        device.wire.close()
        return self.poll * self.draws.uniform(0.9, 1.1)

    def timed(self, answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def call(ask: bytes) -> bytes:
            began = time.process_time()
            made = answer(ask)
            self.thinking += time.process_time() - began
            return made

        return call

    def mortal(self, answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def call(ask: bytes) -> bytes:
            if self.draws.random() < self.how.dying:
                raise Death
            return answer(ask)

        return call


async def main(how: Devices) -> None:
    agreed, _ = read_gateway(Path(how.settings), Code(()))
    connections_allowed(how.devices, print)
    crowd = Crowd(how, agreed)
    collect_garbage_seldom()
    work = asyncio.ensure_future(crowd.run())
    loop, commands = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while True:
        reading = asyncio.ensure_future(commands.readline())
        await asyncio.wait([reading, work], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        words = (await reading).decode().split()
        if not words or words[0] == "stop":  # or the parent has ended
            work.cancel()
            return
        crowd.obey(words)
        print(json.dumps(crowd.report()), flush=True)


if __name__ == "__main__":
    config = Devices(**json.loads(Path(sys.argv[1]).read_text()))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(main(config))
        except KeyboardInterrupt:
            pass
