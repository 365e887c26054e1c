"""The device's side of a gateway.

`Requests` makes the requests of one device; it does no input or output, so it works with any HTTP
library. `GatewayClient` sends them by the standard library, and answers asks in a loop."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from foltr.core.errors import Mistake, require
from foltr.deployment.gateway import signing
from foltr.deployment.gateway.signing import (
    Ed25519PrivateKey,
    answer_text,
    key_text,
    signed_headers,
)
from foltr.deployment.protocol.frames import (
    HEADER,
    VERSION,
    Frame,
    Kind,
    Malformed,
    printable,
    refusal,
)

WAIT = 25  # seconds for which the gateway holds a request for an ask
SLOW = 10.0  # more seconds until a response counts as lost
LARGEST = 64_000_000  # bytes of an ask that a device accepts
LATER = 60.0  # seconds until a device looks again for an ask that it understands
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 300.0  # seconds between two attempts
T = TypeVar("T", int, str)
KIND = 2  # field of a frame's header
TEXT = 500  # characters of the gateway's error texts


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]  # lower case
    body: bytes


class Excluded(Exception):
    """The gateway does not let this device take part any more."""


class Unavailable(Exception):
    """The gateway cannot be reached now, or wants the device to come back later."""

    def __init__(self, text: str, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.seconds = seconds


@dataclass
class Requests:
    """The requests of one device. Its key is its identity."""

    key: Ed25519PrivateKey
    federation: bytes  # `Agreement.id`
    client: int | None = None  # set by enrolling
    token: str = ""
    clock: Callable[[], float] = time.time

    def about(self) -> Request:
        return Request("GET", signing.ABOUT, {})

    def enrol(self, invitation: str | None) -> Request:
        content = self._proof(self.key)
        if invitation is not None:
            content["invitation"] = invitation
        return Request("POST", signing.ENROL, {}, json.dumps(content).encode())

    def session(self) -> Request:
        return self._signed(signing.SESSION)

    def leave(self) -> Request:
        return self._signed(signing.LEAVE)

    def forget(self) -> Request:
        return self._signed(signing.FORGET)

    def new_key(self, key: Ed25519PrivateKey) -> Request:
        return self._signed(signing.KEY, json.dumps(self._proof(key)).encode())

    def _proof(self, key: Ed25519PrivateKey) -> dict[str, str]:
        """A public key, and the proof that its owner has the private one."""
        public = key.public_key().public_bytes_raw()
        signature = key.sign(key_text(self.federation, public))
        return {"key": b64encode(public).decode(), "signature": b64encode(signature).decode()}

    def ask(self, answered: str = "", wait: int = WAIT) -> Request:
        """`answered`: the ETag of the last ask that was answered."""
        headers = {**self._token(), signing.SPOKEN: str(VERSION), signing.WAIT: str(wait)}
        return Request(
            "GET", signing.ASK, headers | ({"if-none-match": answered} if answered else {})
        )

    def model(self, known: str = "") -> Request:
        """`known`: the ETag of the model that the device has."""
        headers = {**self._token(), signing.SPOKEN: str(VERSION)}
        return Request("GET", signing.MODEL, headers | ({"if-none-match": known} if known else {}))

    def answer(self, frame: bytes) -> Request:
        told = Frame.from_bytes(frame)
        path = f"{signing.ANSWERS}{told.round}/{told.nonce.hex()}"
        return Request("PUT", path, self._token(), self.key.sign(answer_text(frame)) + frame)

    def _token(self) -> dict[str, str]:
        return {"authorization": f"{signing.AUTHORIZATION}{self.token}"}

    def _signed(self, path: str, body: bytes = b"") -> Request:
        assert self.client is not None, "enrol first"
        sent = round(1000 * self.clock())
        headers = signed_headers(self.key, self.federation, self.client, path, sent, body)
        return Request("POST", path, headers, body)


@dataclass
class GatewayClient:
    """One device's connection to its gateway.

    url: https://HOST:PORT
    requests: the device's identity
    tls: the certificates that the device trusts; None trusts those of the operating system
    largest: most bytes of an ask; a larger one is refused
    tell: called with what happens, for a log"""

    url: str
    requests: Requests
    tls: ssl.SSLContext | None = None
    largest: int = LARGEST
    wait: int = WAIT
    tell: Callable[[str], None] = lambda text: None
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)
    _said: str = ""

    def __post_init__(self) -> None:
        self._host, self._port, self._plain = parts_of(self.url)

    # --- single requests ---

    def call(self, request: Request) -> Response:
        """Send a request. Raises Unavailable if there is no response. A connection that the
        gateway has closed meanwhile is opened again."""
        while True:
            fresh = self._connection is None
            try:
                return self._sent(request)
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise untrusted(self.url, error) from None
            except (http.client.HTTPException, OSError) as error:
                self.close()
                if fresh:
                    raise Unavailable(f"no connection to {self.url} ({error})") from None

    def _sent(self, request: Request) -> Response:
        if self._connection is None:
            kind: Any = http.client.HTTPConnection if self._plain else http.client.HTTPSConnection
            more = {} if self._plain else {"context": self.tls or ssl.create_default_context()}
            self._connection = kind(self._host, self._port, timeout=self.wait + SLOW, **more)
        self._connection.request(
            request.method, request.path, request.body or None, dict(request.headers)
        )
        response = self._connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        size = response.length or 0
        most = self.largest if size <= self.largest else HEADER.size + 4
        body = response.read(most)
        if size > most or response.will_close:
            self.close()  # the rest of a body that is too large is not read
        if size > most:
            headers["foltr-size"] = str(size)
        return Response(response.status, headers, body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def about(self) -> dict[str, Any]:
        """What the gateway says about itself: its agreement, and whether it sees updates."""
        return self._good(self.call(self.requests.about()), 200)

    def enrol(self, invitation: str | None) -> tuple[int, str]:
        """Enrol this device. Returns its client number and the text of the agreement. Enrolling
        again gives the same number."""
        answer = self._good(self.call(self.requests.enrol(invitation)), 200, 201)
        client, text = self._part(answer, "client", int), self._part(answer, "agreement", str)
        self.requests.client, self.requests.token = client, str(answer.get("token", ""))
        return client, text

    def model(self, known: str = "") -> tuple[str, bytes] | None:
        """The gateway's newest model: its ETag, and a frame that holds it. None if there is none,
        or if it is the `known` one."""
        response = self._with_token(lambda: self.requests.model(known))
        if response.status in (204, 304):
            return None
        if response.status != 200:
            self._good(response, 200)
        return response.headers.get("etag", ""), response.body

    def session(self) -> None:
        """Get a token."""
        answer = self._good(self._signed(self.requests.session), 200)
        self.requests.token = self._part(answer, "token", str)

    def leave(self) -> None:
        """Take part no more. What the device contributed stays in the model."""
        self._good(self._signed(self.requests.leave), 200)

    def replace_key(self, key: Ed25519PrivateKey) -> None:
        """Give the gateway a new public key of this device. The token stays valid."""
        self._good(self._signed(lambda: self.requests.new_key(key)), 200)

    def forget(self) -> None:
        """Ask to be unlearned. The server does so before one of its next rounds; the device is
        told when it asks the next time (`serve`)."""
        self._good(self._signed(self.requests.forget), 202)

    def _signed(self, request: Callable[[], Request]) -> Response:
        """Send a signed request. A wrong clock of the device is corrected by the gateway's."""
        response = self.call(request())
        told = content_of(response).get("time") if response.status == 401 else None
        if type(told) is int:
            ahead = told / 1000 - time.time()
            self.requests.clock = lambda: time.time() + ahead
            response = self.call(request())
        return response

    def _part(self, content: Mapping[str, Any], name: str, kind: type[T]) -> T:
        """A value of a response."""
        value = content.get(name)
        if type(value) is not kind:
            raise Unavailable(f"{self.url} does not respond like a gateway")
        return value

    def _good(self, response: Response, *expected: int) -> dict[str, Any]:
        if response.status in expected:
            return content_of(response)
        text = refusal_of(response)
        if response.status in (401, 403, 426):
            raise Excluded(text)
        raise Mistake(f"{self.url}: {text}")

    # --- asks ---

    def serve(self, answer: Callable[[bytes], bytes], stop: threading.Event) -> None:
        """Answer asks until `stop` is set. Failures are retried without limit. Raises Excluded if
        the gateway excludes this device."""
        answered, pause = "", FIRST_PAUSE
        while not stop.is_set():
            try:
                answered, seconds = self.once(answer, answered)
                pause = FIRST_PAUSE
                stop.wait(seconds)
            except Unavailable as away:
                self._say(f"{away}: trying again")
                stop.wait(max(away.seconds, pause) * (0.8 + secrets.randbelow(400) / 1000))
                pause = min(2.0 * pause, LONGEST_PAUSE)
        self.close()

    def once(self, answer: Callable[[bytes], bytes], answered: str = "") -> tuple[str, float]:
        """Fetch an ask, and answer it if there is one. Returns the ETag of the last ask that was
        answered, and how many seconds to wait until the next request."""
        response = self._with_token(lambda: self.requests.ask(answered, self.wait))
        if response.status == 204:
            return answered, retry_after(response)
        if response.status != 200:
            self._good(response, 200)
        made = self._answer(answer, response)
        sent = self._with_token(lambda: self.requests.answer(made))
        if sent.status == 410:
            self._say("the answer came too late")
        elif sent.status in (409, 422):  # sending it again would not help
            why = printable(str(content_of(sent).get("error")), TEXT)
            self._say(f"the answer was refused: {why}")
        elif sent.status != 204:
            self._good(sent, 204)
        if refuses_notice(made, response.body):  # its disk may be full: it wants to hear it again
            return answered, LATER
        return response.headers.get("etag", ""), 0.0

    def _answer(self, answer: Callable[[bytes], bytes], response: Response) -> bytes:
        if "foltr-size" not in response.headers:
            try:
                return answer(response.body)
            except Malformed as error:  # for example, of a later version
                raise Unavailable(f"the gateway's ask is not understood: {error}", LATER) from None
        try:
            head, id = response.body[: HEADER.size], response.body[HEADER.size :]
            fields = list(HEADER.unpack(head))
            fields[-1] = 0  # length of the payload, which was not read
            ask = Frame.from_bytes(HEADER.pack(*fields) + id)
        except (ValueError, Malformed):
            raise Unavailable("the gateway's ask is no frame") from None
        large = f"an ask of {response.headers['foltr-size']} bytes"
        why = f"{large}: this device accepts at most {self.largest} (GatewayClient.largest)"
        self.tell(why)
        return ask.answer(Kind.REFUSED, (), refusal("size", why)).to_bytes()

    def _with_token(self, request: Callable[[], Request]) -> Response:
        """Send a request that needs a token. If there is none, or it has expired, get one."""
        response = self.call(request()) if self.requests.token else None
        if response is None or response.status == 401:
            self.session()
            response = self.call(request())
        return response

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self.tell(text)


def refusal_of(response: Response) -> str:
    """Why the gateway refuses a request. Raises Unavailable if the device is to come back."""
    text = str(content_of(response).get("error", f"HTTP status {response.status}"))
    if response.status in (421, 429) or response.status >= 500:
        raise Unavailable(printable(text, TEXT), retry_after(response))
    return printable(text, TEXT)


def untrusted(url: str, error: ssl.SSLCertVerificationError) -> Mistake:
    return Mistake(f"{url}: {error.verify_message}: is the file of its authority right?")


def refuses_notice(made: bytes, ask: bytes) -> bool:
    """Whether an answer refuses the server's notice that the device is forgotten."""
    notice = len(ask) >= HEADER.size and HEADER.unpack_from(ask)[KIND] == Kind.FORGOTTEN
    return notice and Frame.from_bytes(made).kind == Kind.REFUSED


def parts_of(url: str) -> tuple[str, int, bool]:
    """Host and port of a gateway, and whether it is without TLS."""
    parts = urlsplit(url)
    fits = parts.scheme in ("https", "http") and parts.hostname and parts.path in ("", "/")
    require(bool(fits), f"{url!r} is no gateway: give https://HOST:PORT")
    plain, local = parts.scheme == "http", parts.hostname in ("localhost", "127.0.0.1", "::1")
    unsafe = f"{url}: http is for tests on this machine; give https://HOST:PORT"
    require(not plain or local, unsafe)
    return parts.hostname or "", parts.port or (80 if plain else 443), plain


def content_of(response: Response) -> dict[str, Any]:
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def retry_after(response: Response) -> float:
    text = response.headers.get("retry-after", "0")
    return min(float(text), 3600.0) if text.isdigit() else 0.0
