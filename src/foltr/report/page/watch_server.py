"""`foltr watch`: serve the live page of a folder of runs.

    GET /         the page, as it is now
    GET /content  its sections and data as JSON, with their version
    GET /events   server-sent events: the progress, and the version that /content would answer

A thread follows the folder (`live_page`). Requests only hand out what it has made. Who may ask is
decided in `foltr.web`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from foltr import web
from foltr.errors import Mistake
from foltr.report.page.live_page import LivePage
from foltr.report.study import COLUMNS, PAIRS
from foltr.results import Runs

PORT = 8765
TICK = 0.5  # seconds between two looks of a stream of events at the progress
QUIET = 15.0  # seconds without an event after which a comment is sent


def serve(
    load: Callable[[], Runs],
    progress: Callable[[], dict[str, Any]],
    host: str = web.HOST,
    port: int = PORT,
    baseline: int | str | None = None,
    pairs: Sequence[str] = PAIRS,
    columns: Sequence[str] = COLUMNS,
    tell: Callable[[str], None] = print,
    waits_for: Callable[[], str] = lambda: "",
) -> None:
    """Serve the page until Ctrl-C.

    `load` returns the finished runs, `progress` how far the sweeps are (as `SweepState.plain` of
    `foltr.sweeps.state`). `port` 0 is any free port. `tell` gets the address once it is open.
    `waits_for` says what the page waits for, if no sweep has begun."""
    live = LivePage(load, progress, baseline, pairs, columns, waits_for)
    server = web.web_server(application(live, host))
    opened = web.listening_socket(host, port)
    live.is_ending = lambda: server.should_exit  # open streams of events end with the server
    live.start()
    tell(f"watching at {web.address(opened)} (Ctrl-C ends it)")
    try:
        web.run_until_stopped(server, opened)
    finally:
        live.stop()


def application(live: LivePage, host: str = web.HOST) -> web.Application:
    """The web application of a live page."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError:
        raise Mistake(web.NO_SERVER) from None

    def page(request: Request) -> Response:
        return HTMLResponse(live.page())

    def content(request: Request) -> Response:
        return Response(live.content_json(), media_type="application/json")

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(live), media_type="text/event-stream")

    routes = [Route("/", page), Route("/content", content), Route("/events", events)]
    return web.OnlyThisMachine(Starlette(routes=routes), host)


async def _events(live: LivePage) -> AsyncIterator[str]:
    """The progress now, then whenever it changes. A comment now and then shows that the connection
    is alive."""
    last, quiet = "", 0.0
    yield "retry: 2000\n\n"
    while not live.is_ending():
        now = json.dumps(live.progress_now())
        if now != last:
            yield f"event: progress\ndata: {now}\n\n"
            last, quiet = now, 0.0
        elif quiet >= QUIET:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(TICK)
        quiet += TICK
