"""The two doors of a SuperLink: which requests may pass, how large they may be, and a bell that
wakes whoever waits for messages."""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from foltr.federated.homes import AGAIN, HEADER, again, shown

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Sender = Callable[[Mapping[str, bytes]], int | None]  # headers -> the node that sent them

SECRET = "x-foltr-secret"  # opens the private door
LOCKED = "this door needs the secret"
NODE = "x-foltr-node"  # who waits
RINGS = "x-foltr-rings"  # how often the bell rang when the last answer was made
WAIT = "x-foltr-wait"  # for how many milliseconds to wait
LONGEST_WAIT = 25.0  # seconds; below the 30 s after which Flower's clients give up
SLOWEST_BODY = 120.0  # seconds
HEARD = 4  # times the largest size: what is read of a request that is too large
SMALL_BODY = 64 * 1024  # of requests that carry no messages
LARGE_BODIES = "/push-messages"
FLEET = "/v1/fleet/"
CALLS = frozenset(  # of nodes
    "activate-node deactivate-node send-node-heartbeat pull-messages push-messages".split()
)
OWN_REGISTRATION = frozenset(("register-node", "unregister-node"))


class Bell:
    """Rings for one node at a time. Whoever waits says how many rings were heard already, so that
    no ring is missed between two requests."""

    def __init__(self) -> None:
        self._first = secrets.randbits(40)  # another SuperLink counts from elsewhere
        self._rings: dict[int, int] = {}
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._hung_up: set[int] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """To be called in the event loop of the doors."""
        self._loop = asyncio.get_running_loop()

    def know(self, node: int) -> None:
        """A node that has shown its key. Of others, nothing is remembered."""
        self._rings.setdefault(node, self._first)

    def rings(self, node: int) -> int:
        return self._rings.get(node, self._first)

    def ring(self, node: int) -> None:
        """Wake who waits for this node's messages; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ring, node)

    def gone(self, node: int) -> bool:
        """Whether the node's last connection broke while it waited: its process has ended."""
        return node in self._hung_up and not self._waiting.get(node)

    def waits(self, node: int) -> bool:
        """Whether a process of this node waits for asks now."""
        return bool(self._waiting.get(node))

    def wake_all(self) -> None:
        for node in list(self._waiting):
            self._ring(node)

    def _ring(self, node: int) -> None:
        self._rings[node] = self.rings(node) + 1
        for future in self._waiting.pop(node, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, node: int, heard: int, seconds: float, receive: Receive) -> bool:
        """Until the bell rang more often than heard, or time is over. False if the one who waits
        hung up."""
        self._hung_up.discard(node)
        if self.rings(node) != heard:
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
    while (await receive())["type"] != "http.disconnect":
        pass


class Door:
    """An ASGI application before another one. It passes requests to the paths that `open_to`
    allows, with the secret if there is one, up to a size. Requests with the headers of the bell
    wait for it.

    `sender` tells by the headers of a request which node has sent it, and None for a stranger: of
    whom nothing large is read, and who cannot wait."""

    def __init__(
        self,
        app: App,
        bell: Bell,
        open_to: Callable[[str], bool],
        largest: int,
        sender: Sender,
        secret: str | None = None,
    ) -> None:
        self.app, self.bell, self.open_to, self.sender = app, bell, open_to, sender
        self.largest, self.secret = largest, secret
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # websockets; the lifespan is run elsewhere
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
    """What passes the public door: the calls of nodes; whether these may register themselves."""

    allowed = {FLEET + call for call in (CALLS | OWN_REGISTRATION if registration else CALLS)}

    def passes(path: str) -> bool:
        return path in allowed

    return passes


def number(value: bytes | None) -> int | None:
    return int(value) if value is not None and value.isdigit() and len(value) < 25 else None


async def body_of(headers: dict[str, bytes], receive: Receive, limit: int) -> bytes | None:
    """The body of a request, or None if it is larger than the limit or never ends. One that is a
    little too large is heard to its end, so that its sender hears the answer."""
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
    """The request once more, for the application behind the door."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
