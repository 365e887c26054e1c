"""What every page that foltr serves needs: a listening socket, a check of who asks, safe headers,
and a server that runs until it is stopped.

A page is served to this machine only, unless the user chooses another host. A request under a name
that is not this machine's is refused. Without that check a web site could let its own name resolve
to 127.0.0.1, and its scripts could read the page in a visitor's browser (DNS rebinding). No header
lets another origin read a response.

A page with private content (`OnlyThisPage`) answers only to itself. For a browser, pages of other
programs on this machine are of the same site, whatever their port: cookies would not keep them
out. Hence a token: it is in the fragment of the address, which browsers do not send, and the page
sends it with every request in a header of its own, which no other page may add.

Starlette and uvicorn are needed: the extra `watch`."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from foltr.core.errors import Mistake, require

HOST = "127.0.0.1"  # only this machine can connect
NO_SERVER = "a page needs a web server: pip install starlette uvicorn"
OTHER_PORT = "choose another by --port, or --port 0 for any free one"
REFUSAL = b"this server answers only to its address or to localhost"
HEADERS = {  # of every response
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}
TOKEN = "x-foltr-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"
    " data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]  # by the ASGI standard
SOON = 10.0  # seconds in which a page must start


def listening_socket(host: str, port: int, way_out: str = OTHER_PORT) -> socket.socket:
    """A socket that listens. `port` 0 is any free port. `way_out` says what to do if it cannot."""
    require(0 <= port < 2**16, f"cannot serve at port {port}: ports are 0 (any free one) .. 65535")
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise Mistake(f"cannot serve at {host}:{port}: {error}") from None
    opened = socket.socket(family, kind, proto)
    try:
        # a server that has just ended does not block the port
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise Mistake(f"cannot serve at port {port} of {host} ({error}): {way_out}") from None
    return opened


def address(opened: socket.socket) -> str:
    """The address of a listening socket, for a browser."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def names_this_machine(header: str, host: str) -> bool:
    """Whether a Host header names this machine. Any address may pass: only a name can be made to
    resolve to another machine."""
    name = header.strip().lower()
    name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in {"localhost", host.lower(), socket.gethostname().lower()} - {""}


class OnlyThisMachine:
    """Middleware around a whole application: refuses requests under other names, and adds the
    headers to every response."""

    def __init__(self, application: Application, host: str = HOST) -> None:
        self.application, self.host = application, host

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the start and the end of the server
            await self.application(scope, receive, send)
            return
        send_with_headers = _adding(send, HEADERS)
        name = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if names_this_machine(name, self.host):
            await self.application(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # a policy was violated
        else:
            await _refuse(send_with_headers)


class OnlyThisPage:
    """Middleware around the application of a private page: answers only requests that the page
    itself has made.

    where: host and port, as a browser writes them (127.0.0.1:8765)
    token: every request for a path below `private` must have it
    private: the beginning of paths with private content; other paths hold the page itself"""

    def __init__(
        self, application: Application, where: str, token: str, private: str = "/api/"
    ) -> None:
        self.application, self.where = application, where
        self.token, self.private = token.encode(), private

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # a policy was violated
            return
        if scope["type"] != "http":  # the start and the end of the server
            await self.application(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        with_headers = _adding(send, {**HEADERS, "content-security-policy": POLICY})
        if (refused := self._refusal(scope["method"], scope["path"], headers)) is not None:
            await _refuse(with_headers, *refused)
        else:
            await self.application(scope, receive, with_headers)

    def _refusal(
        self, method: str, path: str, headers: dict[str, bytes]
    ) -> tuple[int, bytes] | None:
        """Status and text, if a request is to be refused."""
        if headers.get("host", b"").decode("latin-1").lower() != self.where:
            return 421, b"open the address that the command printed: this page answers to no other"
        first = path == "/" and method == "GET"
        allowed = (b"same-origin", b"none") if first else (b"same-origin",)
        if headers.get("sec-fetch-site") not in allowed:
            return 403, b"only the page itself may ask, in a browser that says so (Sec-Fetch-Site)"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{self.where}".encode():
            return 403, b"only the page itself may ask"
        given = headers.get(TOKEN, b"")
        if path.startswith(self.private) and not hmac.compare_digest(given, self.token):
            return 401, b"open the address that the command printed"
        return None


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(24)


def _adding(send: Send, headers: dict[str, str]) -> Send:
    """`send` with headers for every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_encoded(headers)]
        await send(message)

    return send_with_headers


async def _refuse(send: Send, status: int = 421, text: bytes = REFUSAL) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(text))}
    start = {"type": "http.response.start", "status": status, "headers": _encoded(headers)}
    await send(start)
    await send({"type": "http.response.body", "body": text})


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def web_server(application: Application) -> Any:
    """A uvicorn server. Its `should_exit` is true once it is to end."""
    try:
        import uvicorn
    except ImportError:
        raise Mistake(NO_SERVER) from None
    config = uvicorn.Config(
        application,
        log_config=None,  # handlers of the user's logs stay as they are
        log_level="error",  # a stranger's odd request is worth no line of the user's terminal
        ws="none",  # no page uses WebSockets
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def run_until_stopped(server: Any, opened: socket.socket) -> None:
    """Serve until Ctrl-C, then close the socket."""
    try:
        server.run(sockets=[opened])
    except KeyboardInterrupt:
        pass  # uvicorn has shut down, and raises what stopped it
    finally:
        opened.close()


@contextmanager
def served(
    application: Application, host: str, port: int, way_out: str = OTHER_PORT
) -> Iterator[str]:
    """A context in which a thread serves an application; yields its address. `port` 0 is any free
    port."""
    server, opened = web_server(application), listening_socket(host, port, way_out)
    run = {"sockets": [opened]}
    thread = threading.Thread(target=server.run, kwargs=run, name="foltr-page", daemon=True)
    thread.start()
    until = time.monotonic() + SOON
    try:
        while not server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not server.started:
            raise Mistake(f"the page did not start at {address(opened)}: {way_out}")
        yield address(opened)
    finally:
        server.should_exit = True
        thread.join(5.0)
        opened.close()


@cache
def asset(*names: str, of: str = "foltr.core.system") -> str:
    """The content of files of a package's `assets`, one after the other. Those of this package
    are shared by several pages."""
    folder = files(of) / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8").strip() for name in names)


def policy(script: str, style: str, live: bool) -> str:
    """The content policy of a page with this script and this style sheet. A live page may fetch
    from its own server."""
    rules = (
        "default-src 'none'",
        f"script-src {_hashed(script)}",
        f"style-src {_hashed(style)}",
        "connect-src 'self'" if live else "connect-src 'none'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
