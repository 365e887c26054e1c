"""What every page that foltr serves needs: a listening socket, a check of who asks, safe headers,
and a server that runs until it is stopped.

A page is served to this machine only, unless the user chooses another host. A request under a name
that is not this machine's is refused. Without that check a web site could let its own name resolve
to 127.0.0.1, and its scripts could read the page in a visitor's browser (DNS rebinding). No header
lets another origin read a response.

Starlette and uvicorn are needed: the extra `watch`."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from foltr.errors import Mistake, require

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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_encoded(HEADERS)]
            await send(message)

        name = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if names_this_machine(name, self.host):
            await self.application(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # a policy was violated
        else:
            await _refuse(send_with_headers)


async def _refuse(send: Send) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(REFUSAL))}
    start = {"type": "http.response.start", "status": 421, "headers": _encoded(headers)}
    await send(start)
    await send({"type": "http.response.body", "body": REFUSAL})


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
        log_level="warning",
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
