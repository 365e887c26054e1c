"""The status page of `foltr serve`.

    GET /          the page
    GET /data.json the data of the board; with ?sections also the page's sections, for its script
    GET /healthz   200 while the server is healthy, else 503 (`monitoring`)
    GET /metrics   its metrics, for Prometheus

A thread of the server's process serves it, and only reads the board. `core/system/web.py` decides
which requests are accepted."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from foltr.core.errors import Mistake
from foltr.core.system import web
from foltr.core.system.files import strict_json
from foltr.core.system.web import asset, policy
from foltr.deployment.monitoring import Health, Monitor
from foltr.deployment.server.board import Board
from foltr.deployment.server.health import families
from foltr.deployment.server.status_html import line, sections

STYLES, SCRIPTS = ("uplot.css", "page.css"), ("uplot.js", "base.js")  # shared with reports
OWN = "foltr.deployment.server"
OTHER_PORT = 'choose another by status = "HOST:PORT" in [server], or "none" for no page'


@contextmanager
def status_page(
    board: Board, host: str = web.HOST, port: int = 0, monitor: Monitor | None = None
) -> Iterator[str]:
    """A context in which the page of a board is served; yields its address. `port` 0 is any free
    port."""
    with web.served(application(board, host, monitor), host, port, OTHER_PORT) as address:
        yield address


def application(
    board: Board, host: str = web.HOST, monitor: Monitor | None = None
) -> web.Application:
    """The web application of a board."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise Mistake(web.NO_SERVER) from None

    def whole(request: Request) -> Response:
        return HTMLResponse(page(board.seen()))

    def data(request: Request) -> Response:
        seen = board.seen()
        content = live_content(seen) if "sections" in request.query_params else seen
        return Response(strict_json(content), media_type="application/json")

    shown = monitor or Monitor(Health(), lambda: families(board))
    routes = [Route("/", whole), Route("/data.json", data), *shown.routes()]
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


def is_open_to_others(host: str) -> bool:
    """Whether other machines can connect to a server that listens on this host."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() != "localhost"
