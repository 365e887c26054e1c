"""A gateway with a few places, and devices that answer by hand. No sockets, no server."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.core import Ask
from foltr.deployment.gateway.app import App
from foltr.deployment.gateway.client import Requests, Response
from foltr.deployment.gateway.connection_limits import ConnectionLimits, Rates
from foltr.deployment.gateway.enrolment import Enrolment
from foltr.deployment.gateway.gateway import Gateway
from foltr.deployment.gateway.https_server import serve_https
from foltr.deployment.gateway.presence import Polling
from foltr.deployment.gateway.signing import Ed25519PrivateKey, Tokens, answer_text
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import (
    NO_MODEL,
    Frame,
    Kind,
    Model,
    read_refusal,
    read_updates,
    refusal,
    write_ids,
    write_parts,
    write_updates,
)
from foltr.secure_sum.terms import model_digest

FEATURES = ("words", "age", "links")
PARAMS = np.array([0.5, -1.0, 2.0], np.float32)
NOW = 1_700_000_000.0
PLACES = 5
FIRST = 10  # client number of the first place
POLLING = Polling(hold=5.0, max_held=4, poll=60.0, grace=0.0, back=0.0)
_nonces = count(1)


def agreed(**changes):
    usual = {"asked": 3, "fewest": 1, "sessions": 2, "rounds": 9}
    given = {"ranker": Linear(), "learner": PDGD(sessions=2), "features": FEATURES}
    return Agreement(**{**given, **usual, **changes})


AGREED = agreed()
SUMS = agreed(channel=SecureSum(), fewest=2)


def nonce():
    return struct.pack("<QQ", next(_nonces), 7)


def ask_of(agreement=AGREED, kind=Kind.LEARN, clients=(10, 11, 12), t=0, **other):
    """An ask with a fresh nonce; its payload is the model unless one is given."""
    fields = {
        "kind": kind,
        "federation": agreement.id,
        "round": t,
        "model_round": t,
        "model": model_digest(PARAMS),
        "features": agreement.feature_hash,
        "nonce": nonce(),
        "n": agreement.asked,
        "clients": tuple(clients),
        "payload": Model(PARAMS).to_bytes(),
    }
    return Frame(**{**fields, **other})


def about_of(kind, clients, payload=b"", agreement=AGREED, **other):
    """An ask that belongs to no round."""
    given = {"model": NO_MODEL, "payload": payload, "model_round": 0}
    return ask_of(agreement, kind, clients, 0, **{**given, **other})


def hello(agreement=AGREED, places=PLACES, first=FIRST):
    text = agreement.text.encode()
    return about_of(Kind.HELLO, range(first, first + places), text, agreement)


def terms_of(agreement=SUMS, t=0):
    return agreement.protocol.terms(Ask(PARAMS, t, agreement.asked), agreement.fewest)


def open_of(agreement=SUMS, clients=(10, 11, 12), t=0, **other):
    """The ask that begins a secure sum."""
    ids = write_ids(np.array(sorted(clients)))
    parts = [ids, terms_of(agreement, t).to_bytes(), Model(PARAMS).to_bytes()]
    return ask_of(agreement, Kind.OPEN, clients, t, payload=write_parts(parts), **other)


def sum_of(messages, step=3, agreement=SUMS, t=0):
    """A later ask of a secure sum: client -> the message for it."""
    parts = [bytes([step]), terms_of(agreement, t).to_bytes(), *messages.values()]
    return ask_of(agreement, Kind.SUM, tuple(messages), t, payload=write_parts(parts))


def learned(part, update=(1.0, 2.0, 3.0), weight=2.0, words=np.float32, **changes):
    """A device's answer to its part of an ask (bytes), as bytes."""
    ask = Frame.from_bytes(part)
    payload = write_updates(np.array([update], words), np.array([weight]))
    return replace(ask.answer(Kind.LEARNED, ask.clients, payload), **changes).to_bytes()


def summed(part, message=b"keys", **changes):
    ask = Frame.from_bytes(part)
    answer = ask.answer(Kind.SUMMED, ask.clients, write_parts([message]))
    return replace(answer, **changes).to_bytes()


def refused(part, code="budget", text="no more", **changes):
    answer = Frame.from_bytes(part).answer(Kind.REFUSED, (), refusal(code, text))
    return replace(answer, **changes).to_bytes()


def rows(answer):
    """Client -> (update, weight) of a joined answer."""
    assert answer.kind == Kind.LEARNED, read_refusal(answer.payload)
    updates, weights = read_updates(answer.payload, len(answer.clients))
    return {
        id: (update.tolist(), weight)
        for id, update, weight in zip(answer.clients, updates, weights.tolist(), strict=True)
    }


class Call:
    """One request to an ASGI application. `parts` are the pieces of its body; the last piece
    `...` stands for a client that disconnects."""

    def __init__(self, method, path, headers=None, *parts, address="192.0.2.1", connection=None):
        pairs = [(name.lower(), str(value)) for name, value in (headers or {}).items()]
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs],
            "client": (address, 5) if address else None,
        }
        if connection is not None:
            self.scope["foltr.connection"] = connection
        self.parts, self.sent = list(parts or (b"",)), []

    async def receive(self):
        part = self.parts.pop(0) if self.parts else ...
        if part is ...:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(self.parts)}

    async def send(self, message):
        self.sent.append(message)

    async def to(self, app):
        await app(self.scope, self.receive, self.send)
        start, *rest = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        body = b"".join(message.get("body", b"") for message in rest)
        assert int(headers["content-length"]) == len(body)
        return Response(start["status"], headers, body)


def content(response):
    return json.loads(response.body)


class Device:
    """One device: it makes requests by hand."""

    def __init__(self, here, client=None):
        self.here = here
        self.requests = Requests(
            Ed25519PrivateKey.generate(), here.agreement.id, client, clock=lambda: here.now
        )

    @property
    def client(self):
        return self.requests.client

    async def send(self, request, **more):
        given = request.method, request.path, dict(request.headers), request.body
        return await Call(*given, **more).to(self.here.app)

    async def enrol(self, invitation=None):
        response = await self.send(self.requests.enrol(invitation))
        if response.status in (200, 201):
            self.requests.client = content(response)["client"]
        return response

    async def joined(self):
        """Enrol with an invitation, and get a token."""
        response = await self.enrol(self.here.gateway.enrolment.invite(1, 1.0, self.here.now))
        assert response.status == 201, response
        await self.session()
        return self

    async def session(self):
        response = await self.send(self.requests.session())
        with suppress(KeyError):
            self.requests.token = content(response)["token"]
        return response

    async def ask(self, answered="", wait=0, **more):
        return await self.send(self.requests.ask(answered, wait), **more)

    async def put(self, frame, **more):
        return await self.send(self.requests.answer(frame), **more)


class Here:
    """A gateway, its application, and the server's side of it."""

    def __init__(self, folder, agreement=AGREED, polling=POLLING, open_enrolment=False, **more):
        self.agreement, self.now, self.told, self.left = agreement, NOW, [], []
        self.enrolment = Enrolment(folder / "gateway.db", agreement.id)
        self.gateway = Gateway(agreement, self.enrolment, PLACES, polling, self.told.append)
        self.tokens = Tokens(self.enrolment.secret())
        never = {"strangers": Rates(1e9, 1e9), "devices": Rates(1e9, 1e9)}
        self.app = App(
            self.gateway,
            ConnectionLimits(left=self.gateway.presence.disconnected),
            self.tokens,
            open_enrolment,
            clock=lambda: self.now,
            **{**never, **more},
        )

    async def start(self, greeted=True):
        """Bind it to the running loop; the server says HELLO."""
        self.gateway.start()
        if greeted:
            answer = await self.asked(hello(self.agreement))
            assert answer.kind == Kind.WELCOME, read_refusal(answer.payload)
        return self

    async def devices(self, many):
        """Devices that have joined and can be reached."""
        found = [await Device(self).joined() for _ in range(many)]
        for device in found:
            self.gateway.presence.connected(device.client)
        return found

    async def asked(self, ask, seconds=60.0):
        """The gateway's answer to an ask of the server."""
        answer = Frame.from_bytes(await self.gateway.reply(ask.to_bytes(), seconds))
        assert answer.answers(ask)
        return answer


def played(scene, folder, devices=3, **more):
    """`scene(here, devices)` with a gateway that the server has greeted."""

    async def whole():
        here = await Here(folder, **more).start()
        await scene(here, await here.devices(devices))

    asyncio.run(whole())


async def asking(here, ask, seconds=60.0):
    """A step that is under way."""
    step = asyncio.ensure_future(here.asked(ask, seconds))
    while here.gateway.step is None:
        await asyncio.sleep(0)
        assert not step.done() or step.result() is None
    return step


def later(seconds):
    """Let time pass for the running loop."""
    loop = asyncio.get_running_loop()
    time_of = loop.time
    loop.time = lambda: time_of() + seconds


def take(here, device, text, of=None):
    """Give the gateway a device's answer, as the door does."""
    signature = device.requests.key.sign(answer_text(text))
    client = device.client if of is None else of
    return here.gateway.take_answer(client, Frame.from_bytes(text).nonce, signature, text)


def answer(here, device, make=learned, **changes):
    return take(here, device, make(here.gateway.step.ask_for(device.client), **changes))


def code_of(answer):
    assert answer.kind == Kind.REFUSED and answer.clients == ()
    return read_refusal(answer.payload)[0]


def requested(scene, folder, greeted=True, **more):
    """`scene(here)`, for requests."""

    async def whole():
        here = await Here(folder, **more).start(greeted)
        await scene(here)

    asyncio.run(whole())


class Running:
    """The door of a gateway on a loopback socket, in a thread of its own (`with`)."""

    def __init__(self, here, connections=None, tls=None, greeted=True, loop=None):
        self.here, self.tls, self.greeted = here, tls, greeted
        if connections is not None:
            connections.left = here.gateway.presence.disconnected
            here.app.connections = connections
        self.stop, self.ready = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.run_loop, args=(loop,))

    def run_loop(self, loop_factory):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(self.run())

    async def run(self):
        self.loop, here = asyncio.get_running_loop(), self.here
        parts = here.app, self.listener, self.tls
        await serve_https(*parts, self.stop.is_set, self.ready.set)

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(20)
        if self.greeted:
            assert self.asked(hello(self.here.agreement)).kind == Kind.WELCOME
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()

    def within(self, coroutine):
        """A future of something that the gateway's loop does."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def asking(self, ask, seconds=20.0):
        return self.within(self.here.asked(ask, seconds))

    def asked(self, ask, seconds=20.0):
        return self.asking(ask, seconds).result(30)

    def invitation(self, uses=1):
        """As a command in another process makes it."""
        other = Enrolment(self.here.enrolment.path, self.here.agreement.id)
        try:
            return other.invite(uses, 1.0, self.here.now)
        finally:
            other.close()
