"""The web application of the page: each path is a method of the service, as JSON. What went wrong
is JSON as well, with the text that the page shows.

Requests are checked before they come here (`foltr.core.system.web.OnlyThisPage`)."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr.core.errors import Mistake, require, shown
from foltr.core.system import web
from foltr.core.system.state_file import Unusable

if TYPE_CHECKING:
    from foltr.device.running import Running
    from foltr.device.service import Service

MOST_TEXT = 2000  # characters of a query
MOST_BODY = 10_000  # bytes of a request
FAILED = "the search program failed: the terminal in which it runs shows the error"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def application(running: Running, where: str, token: str) -> web.Application:
    """The application of a device at `where` (host:port). Leaving a federation replaces the
    device's service."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.exceptions import HTTPException
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise Mistake("the page needs Starlette: pip install 'foltr[device]'") from None

    def endpoint_of(work: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            post = request.method == "POST"
            given = await content_of(request) if post else dict(request.query_params)
            made = await run_in_threadpool(work, given)
            return made if isinstance(made, Response) else JSONResponse(made or {})

        return endpoint

    def refusal(request: Request, error: Any) -> Response:
        """What the page shows of an error."""
        match error:
            case HTTPException():
                text, status = f"{request.url.path}: {error.detail}", error.status_code
            case ClientDisconnect():
                text, status = "the request has no end", 400  # nobody reads it
            case Mistake():
                text, status = str(error), 500 if isinstance(error, Unusable) else 400
            case _:
                text, status = FAILED, 500
        return JSONResponse({"error": text}, status)

    async def content_of(request: Request) -> dict[str, Any]:
        body = b""
        async for part in request.stream():
            body += part
            require(len(body) <= MOST_BODY, "the request is too long")
        try:
            content = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            raise Mistake("the request is not JSON") from None
        require(isinstance(content, dict), "the request is not a JSON object")
        return content

    def export(given: dict[str, Any]) -> Response:
        name = {"content-disposition": 'attachment; filename="foltr-searches.json"'}
        return Response(running.service.exported(), 200, name, "application/json")

    paths: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = {
        ("GET", "search"): lambda g: running.service.search(
            _text(g, "q", MOST_TEXT), g.get("typing") == "1"
        ),
        ("GET", "compare"): lambda g: running.service.compare(_text(g, "list")),
        ("GET", "why"): lambda g: running.service.why(_text(g, "list"), _number(g, "id")),
        ("GET", "status"): lambda g: running.status(),
        ("GET", "history"): lambda g: running.service.history(
            _number(g, "before") if "before" in g else None
        ),
        ("GET", "export"): export,
        ("POST", "look"): lambda g: running.service.look(_text(g, "list")),
        ("POST", "open"): lambda g: _opened(running.service, g),
        ("POST", "pause"): lambda g: running.service.pause(_flag(g, "paused")),
        ("POST", "forget"): lambda g: running.service.forget([_number(g, "search")]),
        ("POST", "clear"): lambda g: running.service.forget(None),
        ("POST", "leave"): lambda g: {"text": running.leave(_flag(g, "forget"))},
    }
    routes = [
        Route(f"/api/{name}", endpoint_of(work), methods=[method])
        for (method, name), work in paths.items()
    ]
    assets = _assets()

    def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            raise HTTPException(404)
        return Response(assets[name], media_type=KINDS[Path(name).suffix])

    routes += [Route("/", asset), Route("/{name}", asset)]
    kinds = HTTPException, ClientDisconnect, Mistake, Exception
    made = Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, refusal))
    made.router.redirect_slashes = False
    return web.OnlyThisPage(made, where, token)


def _assets() -> dict[str, bytes]:
    """The files of the page."""
    folder = files("foltr.device.page") / "assets"
    return {each.name: each.read_bytes() for each in folder.iterdir() if "." in each.name}


def _opened(service: Service, given: dict[str, Any]) -> dict[str, Any]:
    name, id, how = _text(given, "list"), _number(given, "id"), _text(given, "how")
    if how == "preview":
        return service.preview(name, id)
    require(how == "program", f"how must be preview or program, got {shown(how)}")
    document = service.open(name, id, "program")
    open_with_program(Path(document.path))
    return {"opened": True}


def _text(given: dict[str, Any], name: str, most: int = 100) -> str:
    value = given.get(name)
    if not isinstance(value, str) or len(value) > most:
        raise Mistake(f"{name} must be a text of at most {most} characters, got {shown(value)}")
    return value


def _number(given: dict[str, Any], name: str) -> int:
    value = str(given.get(name))
    if not value.isdecimal() or len(value) > 18:
        raise Mistake(f"{name} must be a number, got {shown(value)}")
    return int(value)


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name)
    if not isinstance(value, bool):
        raise Mistake(f"{name} must be true or false, got {shown(value)}")
    return value


# Open a document with the program that its kind of file belongs to.

# files that run when they are opened
RUN = frozenset(
    ".app .appimage .bat .cmd .com .command .cpl .desktop .exe .hta .inf .jar .js .jse .lnk .msc"
    " .msi .pif .ps1 .reg .scf .scpt .scr .sh .url .vb .vbe .vbs .workflow .ws .wsf".split()
)
# scripts: other systems open them in an editor, unless they may be executed
RUN_ON_WINDOWS = frozenset(".ahk .au3 .lua .php .pl .py .pyw .pyz .rb .tcl".split())


def open_with_program(path: Path) -> None:
    """Open a file as a double click would. Refused for files that would be run instead."""
    check_may_open(path)
    if sys.platform == "win32":
        os.startfile(path)
        return
    command = "open" if sys.platform == "darwin" else "xdg-open"
    if shutil.which(command) is None:
        raise Mistake(f"there is no program {command} on this machine: the file is {path}")
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(
            [command, str(path)],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
    except OSError as error:
        raise Mistake(f"cannot start {command} ({error.strerror}): the file is {path}") from None


def check_may_open(path: Path) -> None:
    try:
        found = os.lstat(path)
    except OSError as error:
        raise Mistake(f"cannot open {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Mistake(f"{path} is not a file any more: it was replaced")
    windows = os.name == "nt"
    by_name = RUN | RUN_ON_WINDOWS if windows else RUN
    if path.suffix.lower() in by_name or (not windows and found.st_mode & 0o111):
        raise Mistake(f"{path} is a program, which opening could run: look at the preview instead")
