"""The status page of `foltr serve`.

    GET /          the page
    GET /data.json the data of the board; with ?sections also the page's sections, for its script
    GET /healthz   200 while the server's process runs

A thread of the server's process serves it, and only reads the board. `foltr.web` decides which
requests are accepted."""

from __future__ import annotations

import ipaddress
import json
import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from foltr import web
from foltr.errors import Mistake
from foltr.report.page.inlined import asset, policy
from foltr.serving.board import Board
from foltr.serving.status_html import line, sections

STYLES, SCRIPTS = ("uplot.css", "page.css"), ("uplot.js", "base.js")  # of the report
OWN = "foltr.serving"
OTHER_PORT = 'choose another by status = "HOST:PORT" in [server], or "none" for no page'
SOON = 10.0  # seconds in which the page's server must start


@contextmanager
def status_page(board: Board, host: str = web.HOST, port: int = 0) -> Iterator[str]:
    """A context in which the page of a board is served; yields its address. `port` 0 is any free
    port."""
    server = web.web_server(application(board, host))
    opened = web.listening_socket(host, port, OTHER_PORT)
    run = {"sockets": [opened]}
    thread = threading.Thread(target=server.run, kwargs=run, name="foltr-status", daemon=True)
    thread.start()
    until = time.monotonic() + SOON
    try:
        while not server.started and thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not server.started:
            raise Mistake(f"the status page did not start at {web.address(opened)}: {OTHER_PORT}")
        yield web.address(opened)
    finally:
        server.should_exit = True
        thread.join(5.0)
        opened.close()


def application(board: Board, host: str = web.HOST) -> web.Application:
    """The web application of a board."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise Mistake(web.NO_SERVER) from None

    def whole(request: Request) -> Response:
        return HTMLResponse(page(board.seen()))

    def data(request: Request) -> Response:
        seen = board.seen()
        content = live_content(seen) if "sections" in request.query_params else seen
        return Response(as_json(content), media_type="application/json")

    def healthy(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes = [Route("/", whole), Route("/data.json", data), Route("/healthz", healthy)]
    return web.OnlyThisMachine(Starlette(routes=routes), host)


def page(seen: dict[str, Any]) -> str:
    """The complete page. Its content security policy allows only its own script and style sheet,
    by their hashes. So text from a node could not run as a script even if it were not escaped."""
    style = asset(*STYLES) + "\n" + asset("status.css", of=OWN)
    script = asset(*SCRIPTS) + "\n" + asset("status.js", of=OWN)
    parts, (state, text) = sections(seen), line(seen)
    slots = {
        **parts,
        "rounds_table": parts["rounds"],
        "rounds": str(seen["rounds"]),
        "made": str(seen["round"]),
        "title": escape(f"foltr serve: {seen['title']}"),
        "state": state,
        "line": escape(text),
        "policy": policy(script, style, live=True),
        "style": style,
        "script": script,
        "licence": escape(asset("uplot.LICENSE")),
    }
    template = asset("status.html", of=OWN)
    whole = re.sub(r"\{\{(\w+)\}\}", lambda slot: slots[slot[1]], template)
    return whole.encode("utf-8", "backslashreplace").decode()


def live_content(seen: dict[str, Any]) -> dict[str, Any]:
    """The data with which the page's script updates the page."""
    state, text = line(seen)
    return {"seen": seen, "sections": sections(seen), "state": state, "line": text}


def as_json(content: Any) -> str:
    """JSON text. Infinities and NaN, which JSON does not have, become null."""
    return json.dumps(_finite(content), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_open_to_others(host: str) -> bool:
    """Whether other machines can connect to a server that listens on this host."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() != "localhost"
