"""Parts of the cost of an answer, measured one at a time in this process: for
`benchmarks/gateway.py`. Every figure is CPU time (user and system), the least of a few
repetitions."""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from federation import resident

from foltr.core.scoring import numbered
from foltr.deployment.gateway.connection_limits import Rates
from foltr.deployment.gateway.enrolment import Enrolled, Enrolment, Standing
from foltr.deployment.gateway.gateway import Gateway
from foltr.deployment.gateway.presence import Polling, Presence
from foltr.deployment.gateway.signing import (
    Ed25519PrivateKey,
    Tokens,
    answer_text,
    public_key,
    verified,
)
from foltr.deployment.gateway.simulated_devices import device_of, engines_of
from foltr.deployment.gateway.steps import Step
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import make_server
from foltr.deployment.keys.rotation import server_context
from foltr.deployment.planning.traffic import example_message
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import Frame, Kind, Model, write_updates
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.deployment.settings import DevicesTable
from foltr.secure_sum.terms import model_digest

TIMES = 300  # calls of a repetition
REPEAT = 5


def least(call: Callable[[], object], times: int = TIMES) -> float:
    """CPU seconds of a call: the least mean of a few repetitions."""
    found = []
    for _ in range(REPEAT):
        began = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - began) / times)
    return min(found)


def an_ask(agreed: Agreement, clients: int, round: int = 1) -> Frame:
    """The server's ask for the clients 0 .. clients - 1."""
    params = np.zeros(agreed.parameters, np.float32)
    about = agreed.id, round, round, model_digest(params), agreed.feature_hash
    ids, payload = tuple(range(clients)), Model(params).to_bytes()
    return Frame(Kind.LEARN, *about, secrets.token_bytes(16), agreed.asked, ids, payload)


def an_answer(agreed: Agreement, ask: Frame, client: int) -> bytes:
    parts = agreed.device_learner, agreed.ranker, len(agreed.features), agreed.sessions
    message, weight = example_message(*parts)
    payload = write_updates(message[None], np.array([weight]))
    return ask.answer(Kind.LEARNED, (client,), payload).to_bytes()


def gateway_parts(agreed: Agreement, clients: int, batch: int) -> dict[str, float]:
    """CPU seconds per answer of the gateway's own steps. `batch`: answers that are written to the
    disk together."""
    ask = an_ask(agreed, clients)
    step, text = Step(ask, agreed, {}), an_answer(agreed, ask, 0)
    key, tokens = Ed25519PrivateKey.generate(), Tokens(secrets.token_bytes(32))
    public, signature = key.public_key(), key.sign(answer_text(text))
    now = time.time()
    token = tokens.token(0, now).encode()
    checked = {client: step.checked(client, an_answer(agreed, ask, client)) for client in range(8)}
    one = step.checked(0, text)
    joined = dict.fromkeys(range(clients), one) | checked
    return {
        "signature": least(lambda: verified(public, signature, answer_text(text))),
        "check of the answer": least(lambda: step.checked(0, text)),
        "two tokens": 2.0 * least(lambda: tokens.client(token, now)),
        "SQLite": sqlite(text, batch),
        "dividing and joining": least(lambda: step.ask_for(0))
        + least(lambda: step.joined(joined).to_bytes(), 3) / clients,
    }


def sqlite(text: bytes, batch: int) -> float:
    """CPU seconds to store an answer durably, `batch` answers in a transaction."""
    with tempfile.TemporaryDirectory() as folder:
        state = Enrolment(Path(folder) / "state.db", bytes(16))
        numbers = iter(range(10**9))

        def keep() -> None:
            first = next(numbers) * batch
            nonce = first.to_bytes(16, "little")
            state.keep([(nonce, client, text) for client in range(first, first + batch)])

        found = least(keep, max(3, 200 // batch)) / batch
        state.close()
    return found


def roll_parts(agreed: Agreement, enrolled: int) -> dict[str, float]:
    """CPU seconds, for each device, when the server asks a gateway who can be reached."""
    with tempfile.TemporaryDirectory() as folder:
        state = Enrolment(Path(folder) / "state.db", agreed.id)
        gateway = Gateway(agreed, state, enrolled)
        key = bytes(32)
        gateway.devices._found = {i: Enrolled(i, key, Standing.ACTIVE) for i in range(enrolled)}
        gateway.presence._open.update(range(enrolled))
        state.close()
    gateway.presence._loop = asyncio.new_event_loop()
    ask = replace(an_ask(agreed, 0), kind=Kind.ROLL, payload=b"")
    text = ask.answer(Kind.PRESENT, gateway.present(), b"l").to_bytes()
    gateway.presence._loop.close()
    own = range(enrolled)

    def read() -> None:
        np.array([id for id in Frame.from_bytes(text).clients if id in own], np.int64)

    return {
        "gateway": least(lambda: ask.answer(Kind.PRESENT, gateway.present(), b"l").to_bytes(), 3)
        / enrolled,
        "server": least(read, 3) / enrolled,
    }


def device_memory(devices: int) -> float:
    """Megabytes of an enrolled device in the gateway: its row, its key, when it is expected, and
    how often it may make requests. No connection."""
    before = resident(os.getpid())
    rates, presence, kept = Rates(10.0, 100.0), Presence(Polling()), {}
    for client in range(devices):
        raw = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
        kept[client] = Enrolled(client, raw, Standing.ACTIVE), public_key(raw)
        presence._until[client] = float(client)
        rates.allow(client)
    return (resident(os.getpid()) - before) / len(kept)


def disk_part(devices: int) -> float:
    """Bytes on disk of an enrolled device, in the gateway's state."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        state = Enrolment(file, bytes(16))
        state._db.execute("pragma wal_checkpoint(truncate)")
        before = file.stat().st_size
        for client in range(devices):
            state.enrol(None, secrets.token_bytes(32), range(devices), float(client))
        state._db.execute("pragma wal_checkpoint(truncate)")
        found = (file.stat().st_size - before) / devices
        state.close()
    return found


def tls_parts(up: tuple[int, int], down: tuple[int, int]) -> dict[str, float]:
    """CPU seconds of TLS at the gateway: of a handshake, and of the four records of an answer.
    `up` and `down`: bytes of the two requests and of the two responses."""
    with tempfile.TemporaryDirectory() as folder:
        make_server(Path(folder), ["localhost"])
        server = server_context(Path(folder) / "server.pem", Path(folder) / "server.key")
        client = trusting(Path(folder) / "ca.pem")
    shaken = [shake(server, client) for _ in range(100)]
    _, ours, theirs = shaken[-1]
    records = 0.0
    for size in up:
        text = bytes(size)

        def reading(text: bytes = text) -> float:
            theirs.object.write(text)
            ours.incoming.write(theirs.outgoing.read())
            began = time.perf_counter()
            ours.object.read(len(text))
            return time.perf_counter() - began

        records += sorted(reading() for _ in range(TIMES))[TIMES // 4]
    for size in down:
        text = bytes(size)

        def writing(text: bytes = text) -> float:
            began = time.perf_counter()
            ours.object.write(text)
            spent = time.perf_counter() - began
            ours.outgoing.read()
            return spent

        records += sorted(writing() for _ in range(TIMES))[TIMES // 4]
    return {"handshake": min(each for each, _, _ in shaken), "records": records}


class Side:
    """One side of a TLS connection in memory."""

    def __init__(self, context: ssl.SSLContext, server: bool) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if server else "localhost"
        self.object = context.wrap_bio(self.incoming, self.outgoing, server, name)

    def go_on(self) -> None:
        try:
            self.object.do_handshake()
        except ssl.SSLWantReadError:
            pass


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[float, Side, Side]:
    """A TLS handshake in memory. Returns the server's seconds, and both sides."""
    ours, theirs, spent = Side(server, True), Side(client, False), 0.0
    for _ in range(4):
        theirs.go_on()
        ours.incoming.write(theirs.outgoing.read())
        began = time.perf_counter()
        ours.go_on()
        spent += time.perf_counter() - began
        theirs.incoming.write(ours.outgoing.read())
    return spent, ours, theirs


def device_cost(ranker: str, learner: str, searches: int) -> float:
    """CPU seconds of a device for one answer: learning from simulated searches with compiled
    kernels, storing the answer (in memory), and signing it. No network."""
    from foltr.experiment import Experiment

    e = Experiment(ranker=ranker, learner=learner)
    sized = replace(e.learner, sessions=searches)  # type: ignore[type-var]
    agreed = Agreement(e.ranker, sized, numbered(46), 100, 1, searches, 10**6)
    table = DevicesTable("https://localhost:1", 1, 100, e.data)
    engine_for = engines_of(agreed, table, Path("none"))
    device: Participant = device_of(agreed, 0, engine_for, Records(None, agreed.id), print)
    key, rounds = Ed25519PrivateKey.generate(), iter(range(1, 10**9))

    def answer() -> None:
        ask = an_ask(agreed, 1, next(rounds)).to_bytes()
        key.sign(answer_text(device.answer(ask)))

    answer()  # compiles
    return least(answer, 40)
