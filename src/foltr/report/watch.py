"""`foltr watch`: the page of a folder of runs while they are made.

    GET /        the page, as it is now
    GET /model   its sections and data as JSON, with their version
    GET /events  server-sent events: progress, and the version of what /model would answer

A thread looks after the folder; requests only hand out what it has made. Loopback by default; a
request by a name that is not this machine's is refused (a page of the network could otherwise have
its own name resolve to 127.0.0.1 and read along), and no other origin is let in."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from foltr.errors import Mistake, require
from foltr.report.following import Following
from foltr.report.study import COLUMNS, PAIRS
from foltr.results import Runs

HOST, PORT = "127.0.0.1", 8765
TICK = 0.5  # seconds between two looks of a stream of events at what is known
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


def serve(
    load: Callable[[], Runs],
    progress: Callable[[], dict[str, Any]],
    host: str = HOST,
    port: int = PORT,
    baseline: int | str | None = None,
    pairs: Sequence[str] = PAIRS,
    columns: Sequence[str] = COLUMNS,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C. `load` gives the finished runs, `progress` how far the sweeps
    are (as `overview.State.plain`); `port` 0 is any free one. `tell` gets the address once it is
    open."""
    try:
        import uvicorn
    except ImportError:
        raise Mistake("watching needs a web server: pip install starlette uvicorn") from None
    opened = listening(host, port)
    following = Following(load, progress, baseline, pairs, columns)
    config = uvicorn.Config(
        application(following, host),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    following.ending = lambda: server.should_exit  # open streams of events end with it
    following.start()
    tell(f"watching at {address(opened)} (Ctrl-C ends it)")
    try:
        server.run(sockets=[opened])
    except KeyboardInterrupt:
        pass  # uvicorn has shut down, and passes on what stopped it
    finally:
        following.stop()
        opened.close()


def listening(host: str, port: int) -> socket.socket:
    """An open socket, or a Mistake that says why not."""
    require(0 <= port < 2**16, f"cannot serve at port {port}: ports are 0 (any free one) .. 65535")
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise Mistake(f"cannot serve at {host}:{port}: {error}") from None
    opened = socket.socket(family, kind, proto)
    try:
        opened.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # no rest of a server that has just ended
        opened.bind(where)
        opened.listen(128)
    except OSError as error:
        opened.close()
        way_out = "choose another by --port, or --port 0 for any free one"
        raise Mistake(f"cannot serve at port {port} of {host} ({error}): {way_out}") from None
    return opened


def address(opened: socket.socket) -> str:
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_ours(header: str, host: str) -> bool:
    """Whether a Host header names this machine. Addresses may pass: only names can be made to
    resolve to another."""
    name = header.strip().lower()
    name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name.partition(":")[0]
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in {"localhost", host.lower(), socket.gethostname().lower()} - {""}


def application(following: Following, host: str = HOST) -> Any:
    """The web application."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError:
        raise Mistake("watching needs a web server: pip install starlette uvicorn") from None

    def page(request: Request) -> Response:
        return HTMLResponse(following.page(), headers=HEADERS)

    def model(request: Request) -> Response:
        return Response(following.answer(), media_type="application/json", headers=HEADERS)

    async def events(request: Request) -> Response:
        return StreamingResponse(
            _events(following), media_type="text/event-stream", headers=HEADERS
        )

    class OnlyOurs:
        """Refuses requests that another site sent a browser here with."""

        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                headers = dict(scope["headers"])
                if not is_ours(headers.get(b"host", b"").decode("latin-1"), host):
                    refusal = "this server answers by its address or as localhost only"
                    await Response(refusal, status_code=421, headers=HEADERS)(scope, receive, send)
                    return
            await self.app(scope, receive, send)

    routes = [Route("/", page), Route("/model", model), Route("/events", events)]
    return Starlette(routes=routes, middleware=[Middleware(OnlyOurs)])


async def _events(following: Following) -> AsyncIterator[str]:
    """What is known now, then whenever it changes; a comment now and then, so that a dead line is
    noticed."""
    last, quiet = "", 0.0
    yield "retry: 2000\n\n"
    while not following.ending():
        now = json.dumps(following.news())
        if now != last:
            yield f"event: progress\ndata: {now}\n\n"
            last, quiet = now, 0.0
        elif quiet >= 15.0:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(TICK)
        quiet += TICK
