"""Federations behind gateways for tests of faults: most devices in a process of their own, some in
the test's process, where they wait at gates or misbehave."""

import asyncio
import json
import os
import re
import sqlite3
import threading
from pathlib import Path

import numpy as np
from faulty import without

from foltr.deployment.gateway.async_client import AsyncConnection, AsyncGatewayClient
from foltr.deployment.gateway.client import Requests, Unavailable
from foltr.deployment.gateway.enrolment import Enrolment
from foltr.deployment.gateway.process import DATABASE
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.gateway.simulated_devices import device_of, engines_of
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.protocol.frames import Frame
from foltr.deployment.protocol.records import Records
from foltr.deployment.settings import read_devices
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from simulated_deployment import SimulatedDeployment

HONEST = 11  # devices in the process of gateway 0
KEEPER = 11  # the client that the test holds at gates
HOSTILE = 12  # the client that misbehaves, or is told to leave


def experiment(**changes):
    usual = {"data": "Synthetic(queries=40)", "learner": "PDGD(sessions=3)", "seed": 5}
    return Experiment(**{**usual, "clients": 13, "rounds": 8, **changes})


class Gateways(SimulatedDeployment):
    """One or more gateways. The devices of the first one in their process are `own`; the test adds
    others (`Members`)."""

    def begin(self, own=HONEST):
        """Start everything. The first round does not begin before the test has added devices, if
        `fewest` says so."""
        self.change("devices-0", devices=own)
        self.start_all()
        for i in range(self.nodes):
            self.wait_enrolled(i, own if i == 0 else self.experiment.clients // self.nodes)
        return self

    def change(self, name, **values):
        """Change keys of a settings file."""
        file = self.folder / f"{name}.toml"
        text = file.read_text()
        for key, value in values.items():
            line = f"{key} = {json.dumps(value)}"
            text, found = re.subn(rf"^{key} = .*$", line, text, flags=re.M)
            if not found:
                text = text.rstrip("\n") + f"\n{line}\n"
        file.write_text(text)

    def devices(self, i=0):
        """The devices in the state of a gateway."""
        agreed, _ = read_devices(self.folder / "devices-0.toml", Code(()))
        file = self.folder / f"state-{i}" / DATABASE
        if not file.exists():
            return {}
        state = Enrolment(file, agreed.id)
        try:
            return state.devices()
        finally:
            state.close()

    def wait_enrolled(self, i, many):
        self.wait(lambda: len(self.devices(i)) >= many, 60, f"{many} devices at gateway {i}")

    def invitations(self, i=0):
        return (self.folder / f"invitations-{i}.txt").read_text().split()

    def answered(self):
        return [about["answered"] for about in self.rounds()]


def deployed(folder, e, nodes=1, fewest=12, gateway=None, agreed=None, **server):
    """Devices that have disconnected are gone soon, and everybody is waited for."""
    quick = {"grace": 0.5, **(gateway or {})}
    given = {"wait": 5.0, "deadline": 30.0, **server}
    return Gateways(folder, e, nodes, given, {"fewest": fewest, **(agreed or {})}, gateway=quick)


class Members:
    """Devices in this process, on an event loop of their own (`with`)."""

    def __init__(self, here):
        self.here, self.loop = here, asyncio.new_event_loop()
        self.agreed, self.table = read_devices(here.folder / "devices-0.toml", Code(()))
        self.engines = engines_of(self.agreed, self.table, here.folder / "devices-0.toml")
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.tls = trusting(here.folder / "gateway-tls" / "ca.pem")
        self.tasks = []

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        async def end():
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

        try:
            self.do(end())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def do(self, coroutine, seconds=60.0):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)

    def member(self, invitation=None, i=0):
        """A device that has enrolled at gateway i and does nothing yet."""
        found = Member(self, i)
        found.client = self.do(found.device.enrol(invitation or self.here.invitations(i)[-1]))
        made = device_of(
            self.agreed, found.client, self.engines, Records(None, self.agreed.id), found.said
        )
        found.made = made
        return found

    def keeper(self, *gates):
        """The twelfth honest device, which holds the rounds `gates` until they are opened."""
        found = self.member(self.here.invitations()[HONEST])
        assert found.client == KEEPER
        return found.serve(*gates)


class Member:
    """One device. It holds its answers to the rounds in `gates` (or to one step of them: round,
    step) until they are in `opened`."""

    def __init__(self, members, i):
        self.members, self.told, self.client = members, [], None
        self.gates, self.reached, self.opened = set(), set(), set()
        self.error, self.steps = None, {}
        given = "localhost", members.here.ports[i], members.tls
        wire, self.side = AsyncConnection(*given), AsyncConnection(*given)
        self.requests = Requests(Ed25519PrivateKey.generate(), members.agreed.id)
        self.device = AsyncGatewayClient(wire, self.requests, 5, self.said)

    def said(self, text):
        self.told.append(text)

    def serve(self, *gates):
        self.gates |= set(gates)
        self.task = asyncio.run_coroutine_threadsafe(self._serve(), self.members.loop)
        self.members.do(asyncio.sleep(0))
        return self

    async def _serve(self):
        self.members.tasks.append(asyncio.current_task())
        etag = ""
        while True:
            try:
                response = await self.device._with_token(lambda e=etag: self.requests.ask(e, 5))
                if response.status == 204:
                    await asyncio.sleep(float(response.headers.get("retry-after", "0")))
                    continue
                if response.status != 200:
                    self.error = response
                    return
                made = self.made.answer(response.body)
                await self._held(Frame.from_bytes(response.body))
                sent = await self.device._with_token(lambda m=made: self.requests.answer(m))
                if sent.status != 204:
                    self.said(f"{sent.status} {sent.body!r}")
                if sent.status >= 500:
                    await asyncio.sleep(0.3)
                    continue
                etag = response.headers["etag"]
            except Unavailable as away:
                self.said(str(away))
                await asyncio.sleep(0.3)

    async def _held(self, ask):
        nonces = self.steps.setdefault(ask.round, [])
        if ask.nonce not in nonces:
            nonces.append(ask.nonce)
        for gate in (ask.round, (ask.round, nonces.index(ask.nonce))):
            if gate in self.gates:
                self.reached.add(gate)
                while gate not in self.opened:
                    await asyncio.sleep(0.01)

    def at(self, gate, seconds=60.0):
        """Wait until the device has made its answer to a round."""
        self.members.here.wait(lambda: gate in self.reached, seconds, f"gate {gate}")

    def open(self, *gates):
        self.opened |= set(gates)

    def call(self, request):
        """Send one request, on a connection beside that of the asks."""
        return self.members.do(self.side.call(request))

    def close(self):
        for wire in (self.side, self.device.wire):
            self.members.loop.call_soon_threadsafe(wire.close)


def same(here, params):
    """The last model is this one; no process has failed."""
    assert np.array_equal(here.model(), params), here.everything()
    told = [about["round"] for about in here.rounds()]
    assert sorted(set(told)) == list(range(len(set(told)))), told  # no round is lost
    for name in ("server", *here.names):
        assert "Traceback" not in here.log(name), here.everything()


def honest(e, *gone, since=0):
    """The model of a simulation without some clients (the hostile one)."""
    return without(e, {t: list(gone or (HOSTILE,)) for t in range(since, e.rounds)})


def only_honest(here, many=HONEST + 1):
    """All honest devices answered every round, and nobody else did."""
    assert here.answered() == [many] * here.experiment.rounds, here.everything()


def usage(process):
    """Bytes of memory, seconds of CPU and open files of a process."""
    pid = process.pid
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
    ticks = os.sysconf("SC_CLK_TCK")
    return memory, (int(words[11]) + int(words[12])) / ticks, len(os.listdir(f"/proc/{pid}/fd"))


def stored(here):
    """The number of answers in the state of gateway 0."""
    with sqlite3.connect(f"file:{here.folder}/state-0/gateway.db?mode=ro", uri=True) as state:
        return state.execute("select count(*) from answer").fetchone()[0]
