"""The two doors of a SuperLink: HTTP ports with access control.

Nodes use the public door. The server uses the private door, which needs a secret. A door decides
which requests pass and how large they may be. A bell wakes requests that wait for messages (long
polling)."""

import asyncio
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

# How the SuperLink recognises a node that was killed and started again.

HEADER = "x-foltr-home"
AGAIN = "x-foltr-again"  # sent after a lost connection: the last asks may not have arrived
LONGEST = 200  # bytes of a token
# the two headers of the current request
shown: ContextVar[bytes] = ContextVar("shown", default=b"")
again: ContextVar[bool] = ContextVar("again", default=False)


class Homes:
    """The hash of each node's last token. It is kept in a file, because the SuperLink may be
    restarted, too."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._known: dict[str, str] = dict(json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            self._known = {}

    def is_home(self, node: int, word: bytes) -> bool:
        """Whether `word` is the token of the node's last connection."""
        known = self._known.get(str(node))
        return bool(word and known) and hmac.compare_digest(str(known), _hash(word))

    def know(self, node: int, word: bytes) -> None:
        """Store the token of a node that is active now."""
        if word and len(word) <= LONGEST and not self.is_home(node, word):
            self._known[str(node)] = _hash(word)
            part = self._file.with_suffix(".part")
            try:
                part.write_text(json.dumps(self._known))
                part.replace(self._file)
            except OSError:
                pass  # disk full: after a restart of everything, this node waits longer


def _hash(word: bytes) -> str:
    return sha256(word).hexdigest()


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Sender = Callable[[Mapping[str, bytes]], int | None]  # headers -> the node that sent them

SECRET = "x-foltr-secret"  # opens the private door
LOCKED = "this door needs the secret"
NODE = "x-foltr-node"  # the node that waits
RINGS = "x-foltr-rings"  # the bell's count of rings at the last response
WAIT = "x-foltr-wait"  # milliseconds to wait
LONGEST_WAIT = 25.0  # seconds; less than the timeout of Flower's clients, 30 s
SLOWEST_BODY = 120.0  # seconds in which a request's body must arrive
HEARD = 4  # a request that is too large is read up to this multiple of the limit
SMALL_BODY = 64 * 1024  # bytes; limit for requests that carry no messages, and for strangers
LARGE_BODIES = "/push-messages"
FLEET = "/v1/fleet/"
CALLS = frozenset(  # the requests of a node
    "activate-node deactivate-node send-node-heartbeat pull-messages push-messages".split()
)
OWN_REGISTRATION = frozenset(("register-node", "unregister-node"))


class Bell:
    """Wakes the requests of a node that wait for messages.

    A bell counts its rings for each node. A request that waits states the count that it has seen,
    so that no ring between two requests is missed."""

    def __init__(self) -> None:
        self._first = secrets.randbits(40)  # random, so that a new SuperLink's counts differ
        self._rings: dict[int, int] = {}
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._hung_up: set[int] = set()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Bind the bell to the running event loop, that of the doors."""
        self._loop = asyncio.get_running_loop()

    def know(self, node: int) -> None:
        """Remember a node that has proved its key. Nothing is stored about other nodes."""
        self._rings.setdefault(node, self._first)

    def rings(self, node: int) -> int:
        """How often the bell rang for a node."""
        return self._rings.get(node, self._first)

    def ring(self, node: int) -> None:
        """Wake the requests that wait for this node's messages. Can be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring, node)

    def gone(self, node: int) -> bool:
        """Whether the node's last request was disconnected while it waited: its process ended."""
        return node in self._hung_up and not self._waiting.get(node)

    def waits(self, node: int) -> bool:
        """Whether a request of this node is waiting for asks."""
        return bool(self._waiting.get(node))

    def wake_all(self) -> None:
        """Wake all requests, because the SuperLink stops. Later ones do not wait."""
        self._stopped = True
        for node in list(self._waiting):
            self._ring(node)

    def _ring(self, node: int) -> None:
        self._rings[node] = self.rings(node) + 1
        for future in self._waiting.pop(node, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, node: int, heard: int, seconds: float, receive: Receive) -> bool:
        """Wait until the bell has rung since the count `heard`, or until the timeout. False if the
        client disconnected."""
        self._hung_up.discard(node)
        if self.rings(node) != heard or self._stopped:
            return True
        rung = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(node, set()).add(rung)
        left = asyncio.ensure_future(hang_up(receive))
        try:
            await asyncio.wait((rung, left), timeout=seconds, return_when="FIRST_COMPLETED")
            if left.done() and not rung.done():
                if node in self._rings:
                    self._hung_up.add(node)
                return False
            return True
        finally:
            left.cancel()
            others = self._waiting.get(node, set())
            others.discard(rung)
            if not others:
                self._waiting.pop(node, None)


async def hang_up(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass
class Door:
    """ASGI middleware that controls access to the SuperLink's application.

    A request passes if `open_to` allows its path, if it has the secret (where there is one), and
    if its body is not larger than `largest`. A request with the bell's headers waits for the bell.

    `sender` returns the node that sent a request, by its headers, or None for an unknown sender.
    An unknown sender may send only small bodies, and cannot wait."""

    app: App
    bell: Bell
    open_to: Callable[[str], bool]
    largest: int
    sender: Sender
    secret: str | None = None
    requests: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # no websockets; `superlink.serve` runs the lifespan
            return
        self.requests += 1
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        if self.secret is not None:
            given = headers.get(SECRET, b"")
            if not hmac.compare_digest(given, self.secret.encode()):
                return await refuse(send, 403, LOCKED)
        if not self.open_to(scope["path"]):
            return await refuse(send, 404, "not found")
        carries = scope["path"].endswith(LARGE_BODIES) or self.secret is not None
        pulls = scope["path"].endswith("/pull-messages")
        known = await asyncio.to_thread(self.sender, headers) if carries or pulls else None
        small = not carries or known is None
        limit = min(self.largest, SMALL_BODY) if small else self.largest
        shown.set(headers.get(HEADER, b""))
        again.set(AGAIN in headers)
        body = await body_of(headers, receive, limit)
        if body is None:
            return await refuse(send, 413, f"the request is larger than {limit} bytes")
        waits = number(headers.get(WAIT)), number(headers.get(NODE)), number(headers.get(RINGS))
        wait, node, heard = waits
        if wait is None or node is None or heard is None or not pulls or node != known:
            return await self.app(scope, replayed(body, receive), send)
        seconds = 0.0 if again.get() else min(wait / 1000, LONGEST_WAIT)
        if not await self.bell.wait(node, heard, seconds, receive):
            return
        told = str(self.bell.rings(node)).encode()

        async def with_rings(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                message["headers"] = [*message.get("headers", ()), (RINGS.encode(), told)]
            await send(message)

        await self.app(scope, replayed(body, receive), with_rings)


def fleet_only(registration: bool) -> Callable[[str], bool]:
    """The paths of the public door: Flower's Fleet API. With `registration`, nodes may register
    themselves."""

    allowed = {FLEET + call for call in (CALLS | OWN_REGISTRATION if registration else CALLS)}

    def passes(path: str) -> bool:
        return path in allowed

    return passes


def number(value: bytes | None) -> int | None:
    """The whole number in a header; None if there is none."""
    return int(value) if value is not None and value.isdigit() and len(value) < 25 else None


async def body_of(headers: dict[str, bytes], receive: Receive, limit: int) -> bytes | None:
    """The body of a request, or None if it is larger than `limit` bytes or arrives too slowly. A
    body that is a little too large is read to its end, so that the client can read the
    response."""
    stated = headers.get("content-length")
    if stated is not None and (number(stated) is None or int(stated) > HEARD * limit):
        return None
    parts, size = [], 0
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            while size <= HEARD * limit:
                message = await receive()
                if message["type"] != "http.request":
                    return b""
                part = message.get("body", b"")
                size += len(part)
                if size <= limit:
                    parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts) if size <= limit else None
    except TimeoutError:
        pass
    return None


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body, which was read already, to the application."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def refuse(send: Send, status: int, text: str) -> None:
    """Send an error response, and close the connection."""
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
