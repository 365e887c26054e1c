"""The HTTP requests of devices (ASGI). `docs/gateway.md` describes the protocol.

POST /v1/enrol                  an invitation and a public key -> a client number
POST /v1/session                signed -> a token
GET  /v1/ask                    the ask that the device has to answer, or none
PUT  /v1/answers/ROUND/NONCE    a signed answer
GET  /v1/model                  the current model
POST /v1/leave, /v1/forget, /v1/key    signed
GET  /v1/about                  the agreement"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from traceback import format_exception
from typing import Any

from foltr.core.system.log import Event
from foltr.core.system.state_file import Unusable
from foltr.deployment.flower.doors import Receive, Scope, Send, body_of, number
from foltr.deployment.gateway import signing
from foltr.deployment.gateway.connection_limits import SCOPE, Connection, ConnectionLimits, Rates
from foltr.deployment.gateway.enrolment import Enrolled, Refused, Standing
from foltr.deployment.gateway.gateway import Gateway
from foltr.deployment.gateway.signing import (
    Tokens,
    decoded,
    key_text,
    public_key,
    request_text,
    verified,
)
from foltr.deployment.protocol.frames import HEADER, VERSION, Malformed

ROUND = 4  # field of a frame's header
FAILED = 20  # different errors that are told
SENDING = 2  # answers of one device that are received at a time
SMALL = 4_096  # bytes of a request that carries no answer
BINARY = (b"content-type", b"application/octet-stream")
Response = tuple[int, list[tuple[bytes, bytes]], bytes]


@dataclass
class App:
    """The ASGI application.

    open_enrolment: whether devices enrol without an invitation
    largest: most bytes of an answer"""

    gateway: Gateway
    connections: ConnectionLimits
    tokens: Tokens
    open_enrolment: bool = False
    largest: int = 4_000_000
    strangers: Rates = field(default_factory=lambda: Rates(20.0, 100.0))  # by address
    devices: Rates = field(default_factory=lambda: Rates(10.0, 100.0))  # by client
    clock: Callable[[], float] = time.time
    statuses: dict[int, int] = field(default_factory=dict)  # responses by status
    _sending: Counter[int] = field(default_factory=Counter)  # answers that are being received
    _failed: set[str] = field(default_factory=set)  # errors that were told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        try:
            status, more, body = await self._route(scope, headers, receive)
        except Refused as refused:
            status, more, body = _problem(refused.status, str(refused), refused.more)
        except Malformed as wrong:
            status, more, body = _problem(422, str(wrong))
        except Unusable as error:
            self.gateway.tell(str(error))
            status, more, body = _problem(507, "the gateway's disk is full or not writable")
            more.append((b"retry-after", b"30"))
        except Exception as error:  # noqa: BLE001  # a mistake in foltr: strangers must not fill the log
            self._tell_once(error)
            status, more, body = _problem(500, "the gateway failed")
        self.statuses[status] = self.statuses.get(status, 0) + 1
        more.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": more})
        await send({"type": "http.response.body", "body": body})

    def _tell_once(self, error: Exception) -> None:
        text = "".join(format_exception(error))
        if text not in self._failed and len(self._failed) < FAILED:
            self._failed.add(text)
            self.gateway.tell(Event(f"a request failed: {text}", "failure", "error"))

    async def _route(
        self, scope: Scope, headers: Mapping[str, bytes], receive: Receive
    ) -> Response:
        path, method = scope["path"], scope["method"]
        if "transfer-encoding" in headers:  # trailers would have no limit
            raise Refused(411, "a request needs a Content-Length, not Transfer-Encoding")
        if path == signing.ASK and method == "GET":
            return await self._ask(self._device(scope, headers), headers, scope.get(SCOPE))
        if path.startswith(signing.ANSWERS) and method == "PUT":
            client, (t, nonce) = self._device(scope, headers), _answered(path)
            if (number(headers.get("content-length")) or 0) > self.largest:
                raise self._too_large(self.largest)
            most = self.gateway.check_due(client, nonce)  # before its body is received
            most = min(self.largest, signing.SIGNATURE + most)
            if self._sending[client] >= SENDING:
                raise Refused(429, "this device is sending other answers")
            self._sending[client] += 1
            try:
                body = await self._body(headers, receive, most)
            finally:
                self._sending[client] -= 1
                if not self._sending[client]:
                    del self._sending[client]
            return await self._answer(client, t, nonce, body)
        if path == signing.MODEL and method == "GET":
            self._device(scope, headers)
            return self._model(headers)
        if not self.strangers.allow(_address(scope)):
            raise Refused(429, "too many requests from this address")
        if path == signing.ABOUT and method == "GET":
            return self._about()
        signed = {signing.SESSION: self._session, signing.LEAVE: self._leave,
                 signing.FORGET: self._forget, signing.KEY: self._key}  # fmt: skip
        if path != signing.ENROL and path not in signed:
            raise Refused(404, "not found")
        if method != "POST":
            raise Refused(405, f"{path} needs POST")
        body = await self._body(headers, receive, SMALL)
        if path == signing.ENROL:
            return await self._enrol(body)
        return await signed[path](self._signer(path, headers, body), body)

    async def _body(self, headers: Mapping[str, bytes], receive: Receive, limit: int) -> bytes:
        body = await body_of(dict(headers), receive, limit)
        if body is None:
            raise self._too_large(limit)
        return body

    def _too_large(self, limit: int) -> Refused:
        return Refused(413, f"the request is larger than {limit} bytes")

    # --- who ---

    def _device(self, scope: Scope, headers: Mapping[str, bytes]) -> int:
        """The client of the request's token."""
        given = headers.get("authorization", b"")
        token = given.removeprefix(signing.AUTHORIZATION.encode())
        client = self.tokens.client(token, self.clock()) if token != given else None
        if client is None:
            if not self.strangers.allow(_address(scope)):
                raise Refused(429, "too many requests from this address")
            raise Refused(401, f"this request needs a token: POST {signing.SESSION}")
        if not self.devices.allow(client):
            raise Refused(429, "too many requests from this device")
        if self.gateway.devices.known(client).standing == Standing.LEFT:
            raise Refused(403, "this device has left")
        connection = scope.get(SCOPE)
        if connection is not None and connection.device not in (None, client):
            raise Refused(421, "this is the connection of another device: open a new one")
        if connection is not None and self.connections.identify(connection, client):
            self.gateway.presence.connected(client)
        self.gateway.presence.heard(client)
        return client

    def _signer(self, path: str, headers: Mapping[str, bytes], body: bytes) -> Enrolled:
        """The device that signed a request."""
        client, sent = number(headers.get(signing.CLIENT)), number(headers.get(signing.TIME))
        if client is None or sent is None:
            raise Refused(
                400,
                f"{path} needs the headers {signing.CLIENT}, {signing.TIME} and {signing.SIGNED}",
            )
        device, now = self.gateway.devices.known(client), self.clock()
        if abs(sent / 1000 - now) > signing.SKEW:
            raise Refused(401, "this device's clock is wrong", time=round(1000 * now))
        try:
            signature = decoded(headers.get(signing.SIGNED), signing.SIGNATURE)
        except ValueError as error:
            raise Refused(400, f"{signing.SIGNED}: {error}") from None
        federation = self.gateway.agreement.id
        text = request_text(federation, client, path, sent, body)
        if not verified(self.gateway.devices.key_of(client), signature, text):
            raise Refused(403, "the signature is not this device's")
        return device

    def _new_key_in(self, content: Mapping[str, Any]) -> bytes:
        """A public key whose owner has signed it."""
        try:
            key = decoded(content.get("key"), signing.PUBLIC)
            signature = decoded(content.get("signature"), signing.SIGNATURE)
            shown = verified(public_key(key), signature, key_text(self.gateway.agreement.id, key))
        except ValueError as error:
            raise Refused(400, f"key and signature: {error}") from None
        if not shown:
            wrong = "the signature is not of this key, or is for another federation"
            raise Refused(403, wrong, federation=self.gateway.agreement.id.hex())
        return key

    # --- requests ---

    def _about(self) -> Response:
        agreed, numbers = self.gateway.agreement, self.gateway.numbers
        sums = agreed.channel is not None
        masked = "masked updates, and a sum if all of its clients are devices of this gateway"
        sees = masked if sums else "every update"
        return _json(
            200,
            {
                "federation": agreed.id.hex(),
                "agreement": agreed.text,
                "version": VERSION,
                "gateway_sees": sees,
                "open_enrolment": self.open_enrolment,
                "ready": numbers is not None,
            },
        )

    async def _enrol(self, body: bytes) -> Response:
        content = _content(body)
        key, invitation = self._new_key_in(content), content.get("invitation")
        if not (invitation is None or (isinstance(invitation, str) and invitation.isascii())):
            raise Refused(400, "invitation must be text in ASCII")
        if invitation is None and not self.open_enrolment:
            raise Refused(403, "this gateway needs an invitation: ask its operator for one")
        if self.gateway.numbers is None:
            raise Refused(503, "the gateway has not reached its server yet: try again later")
        now, agreed = self.clock(), self.gateway.agreement.text
        given = invitation, key, self.gateway.numbers, now
        client, new = await self.gateway.devices.enrol(*given)
        if not new:  # whoever has seen the first request could repeat it: no token for it
            return _json(200, {"client": client, "agreement": agreed})
        token = self.tokens.token(client, now)
        return _json(201, {"client": client, "token": token, "agreement": agreed})

    async def _session(self, device: Enrolled, body: bytes) -> Response:
        return _json(200, {"token": self.tokens.token(device.client, self.clock())})

    async def _leave(self, device: Enrolled, body: bytes) -> Response:
        """The device takes part no more. Its past contributions stay in the model."""
        change = {device.client: None}, Standing.LEFT, (Standing.ACTIVE,)
        await self.gateway.devices.set_standing(*change)
        return _json(200, {"standing": self.gateway.devices[device.client].standing})

    async def _forget(self, device: Enrolled, body: bytes) -> Response:
        """The device takes part no more, and wants to be unlearned. It may have left before."""
        change = {device.client: None}, Standing.TO_FORGET, (Standing.ACTIVE, Standing.LEFT)
        await self.gateway.devices.set_standing(*change)
        return _json(202, {"standing": self.gateway.devices[device.client].standing})

    async def _key(self, device: Enrolled, body: bytes) -> Response:
        """Replace the device's key: the old one signs the request, the new one its own name."""
        key = self._new_key_in(_content(body))
        await self.gateway.devices.replace_key(device.client, key)
        return _json(200, {"key": b64encode(key).decode()})

    async def _ask(
        self, client: int, headers: Mapping[str, bytes], connection: Connection | None
    ) -> Response:
        gateway, polling = self.gateway, self.gateway.polling
        _check_version(headers)
        answered = _nonce(headers.get("if-none-match", b"").strip(b'"'))
        wanted = number(headers.get(signing.WAIT)) or 0
        crowded = gateway.presence.held >= polling.max_held
        seconds = 0.0 if crowded else min(float(wanted), polling.hold)
        found = await gateway.next_ask(client, answered, seconds)
        if found is None:
            again = 0.0 if seconds > 0.0 else polling.poll
            gateway.presence.expect(client, again)
            return 204, [(b"retry-after", b"%d" % again)], b""
        nonce, frame = found
        gateway.presence.expect(client, 0.0)
        if connection is not None:  # while it computes, it sends nothing
            connection.stay_open(gateway.seconds_left)
        return 200, [BINARY, (b"etag", b'"%s"' % nonce.hex().encode())], frame

    async def _answer(self, client: int, t: int, nonce: bytes, body: bytes) -> Response:
        if len(body) < signing.SIGNATURE:
            raise Refused(400, "expected a signature and a frame")
        if self.gateway.writer.full:
            raise Refused(503, "the gateway is busy: try again later")
        frame = body[signing.SIGNATURE :]
        if len(frame) >= HEADER.size and HEADER.unpack_from(frame)[ROUND] != t:
            raise Refused(400, "the path and the frame name different rounds")
        await self.gateway.take_answer(client, nonce, body[: signing.SIGNATURE], frame)
        return 204, [], b""

    def _model(self, headers: Mapping[str, bytes]) -> Response:
        _check_version(headers)
        model = self.gateway.model
        if model is None:
            return 204, [(b"retry-after", b"%d" % self.gateway.polling.poll)], b""
        tag = b'"%s"' % model.model.hex().encode()
        if headers.get("if-none-match") == tag:
            return 304, [(b"etag", tag)], b""
        return 200, [BINARY, (b"etag", tag)], model.to_bytes()


def _check_version(headers: Mapping[str, bytes]) -> None:
    """Refuse a device that speaks another version of the protocol."""
    version = number(headers.get(signing.SPOKEN, b"%d" % VERSION))
    if version is None:
        raise Refused(400, f"{signing.SPOKEN}: expected a number")
    if version != VERSION:
        older = "device" if version < VERSION else "gateway"
        raise Refused(
            426,
            f"this device speaks version {version} of the protocol, and the gateway version"
            f" {VERSION}: the {older} is older: update it",
        )


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _answered(path: str) -> tuple[int, bytes]:
    """Round and nonce in the path of an answer."""
    round, _, name = path.removeprefix(signing.ANSWERS).partition("/")
    t, nonce = number(round.encode()), _nonce(name.encode())
    if t is None or not nonce:
        raise Refused(400, f"expected {signing.ANSWERS}ROUND/NONCE")
    return t, nonce


def _nonce(text: bytes) -> bytes:
    try:
        found = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""
    return found if len(found) == 16 else b""


def _content(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refused(400, "the body must be a JSON object")
    return content


def _json(status: int, content: Mapping[str, Any]) -> Response:
    return status, [(b"content-type", b"application/json")], json.dumps(content).encode()


def _problem(status: int, text: str, more: Mapping[str, Any] | None = None) -> Response:
    found = _json(status, {"error": text, **(more or {})})
    if status in (411, 413, 421, 429):
        found[1].append((b"connection", b"close"))
    if status in (429, 503):
        found[1].append((b"retry-after", b"5"))
    return found
