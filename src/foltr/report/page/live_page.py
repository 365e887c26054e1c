"""The live page of `foltr watch`: a thread follows a folder of runs, and makes the page again when
runs have finished. A web server serves the page, and the progress as a stream of events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any

from foltr.core.errors import Mistake
from foltr.core.system import web
from foltr.report.page.content import page_content
from foltr.report.page.document import PageParts, filled_template, page_parts
from foltr.report.page.html_sections import waiting_sections
from foltr.report.results import Runs
from foltr.report.study import Study, study

PORT = 8765
LOOK = 1.0  # seconds between two looks at the progress
SHARE = 10  # making the page may take 1 / SHARE of the time
LEAST = 1.0  # seconds between two makings of the page, at least
TICK = 0.5  # seconds between two looks of a stream of events at the progress
QUIET = 15.0  # seconds without an event after which a comment is sent
NO_PROGRESS: dict[str, Any] = {"planned": 0, "done": 0, "failed": [], "running": [], "left": None}
TITLE = "foltr watch"


class LivePage:
    """The page of a folder of runs, made again when runs have finished.

    The progress is read every second. Runs are loaded when the number of finished runs has changed
    (without a planned sweep: now and then), but not so often that it takes more than a tenth of
    the time."""

    def __init__(
        self,
        load: Callable[[], Runs],
        progress: Callable[[], dict[str, Any]],
        sort: Callable[[Runs], Study] = study,
        waits_for: Callable[[], str] = lambda: "",
    ) -> None:
        self.load = load
        self.progress = progress
        self.sort = sort
        self.waits_for = waits_for
        self.is_ending: Callable[[], bool] = lambda: False
        self._stop, self._lock = Event(), Lock()
        self._thread = Thread(target=self._follow, name="foltr-watch", daemon=True)
        self._progress: dict[str, Any] = dict(NO_PROGRESS)
        self._trouble = ""  # the error that the reader sees
        self._load_error = ""  # why the page could not be made the last time
        self._boot, self._count = token_hex(4), 0  # two servers never share a version
        self._show(_waiting("Reading the runs."))
        self._done: int | None = None  # the number of finished runs when the page was made
        self._shown: tuple[list[str], str] | None = None  # the runs on the page, or its text
        self._rest_until = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _follow(self) -> None:
        self.refresh()
        while not self._stop.wait(LOOK):
            self.refresh()

    def refresh(self) -> None:
        """Read the progress, and make the page again if runs have finished. What cannot be read is
        shown as an error, and read again the next time."""
        error, progress = "", self._progress
        try:
            progress = {**NO_PROGRESS, **self.progress()}
        except (Mistake, OSError) as caught:
            error = str(caught)
        changed = progress["done"] != self._done or not progress["planned"]
        if changed and time.monotonic() >= self._rest_until:
            began = time.monotonic()
            self._load_error = self._make(progress["done"])
            self._rest_until = time.monotonic() + max(LEAST, SHARE * (time.monotonic() - began))
        with self._lock:
            self._progress, self._trouble = progress, self._load_error or error

    def _make(self, done: int) -> str:
        """Make the sections and the data again if there are other runs. Returns the error, or
        ""."""
        try:
            runs = self.load()
            names = [run.name for run in runs]
            waiting = "" if names else self.waits_for() or "No run has finished yet."
            if (names, waiting) == self._shown:
                self._done = done
                return ""
            parts = page_parts(page_content(self.sort(runs))) if names else _waiting(waiting)
        except (Mistake, OSError) as error:
            return str(error)
        with self._lock:
            self._done, self._shown = done, (names, waiting)
            self._show(parts)
        return ""

    def _show(self, parts: PageParts) -> None:
        self._count += 1
        self._parts = parts
        content = {"version": self.version, **parts._asdict()}
        self._content_json = json.dumps(content, allow_nan=False, separators=(",", ":"))

    @property
    def version(self) -> str:
        return f"{self._boot}-{self._count}"

    def content_json(self) -> str:
        """The sections and the data, with their version."""
        with self._lock:
            return self._content_json

    def page(self) -> str:
        with self._lock:
            return filled_template(self._parts, live=True)

    def progress_now(self) -> dict[str, Any]:
        """The progress as an event sends it: with the version of the page, whether the sweep is
        over, and an error if there is one."""
        with self._lock:
            progress = self._progress
            ended = progress["done"] + len(progress["failed"])
            over = (
                bool(progress["planned"])
                and ended >= progress["planned"]
                and not progress["running"]
                and progress["done"] == self._done
            )
            trouble = self._trouble
            if self._has_died():
                trouble = "foltr watch has stopped by an internal error, shown in its terminal."
            return {**progress, "version": self.version, "over": over, "trouble": trouble}

    def _has_died(self) -> bool:
        started = self._thread.ident is not None
        return started and not self._thread.is_alive() and not self._stop.is_set()


def _waiting(message: str) -> PageParts:
    return PageParts(TITLE, waiting_sections(TITLE, message), None)


def serve(
    load: Callable[[], Runs],
    progress: Callable[[], dict[str, Any]],
    host: str = web.HOST,
    port: int = PORT,
    sort: Callable[[Runs], Study] = study,
    tell: Callable[[str], None] = print,
    waits_for: Callable[[], str] = lambda: "",
) -> None:
    """Serve the page until Ctrl-C.

    `load` returns the finished runs, `progress` how far the sweeps are (as `SweepState.plain`),
    `sort` sorts runs into a study. `port` 0 is any free port. `tell` gets the address once it is
    open. `waits_for` says what the page waits for, if no sweep has begun."""
    live = LivePage(load, progress, sort, waits_for)
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
