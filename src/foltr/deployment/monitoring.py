"""/healthz and /metrics of a running process, for monitoring programs.

    GET /healthz   200 while the process is healthy; 503 with the reasons if it is not. JSON.
    GET /metrics   the metrics, for Prometheus

`foltr check` reads /healthz. Neither contains a key, a client's number or a node's data."""

from __future__ import annotations

import json
import os
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr.core.errors import Mistake, require
from foltr.core.system import web
from foltr.core.system.files import content_of, strict_json, text_of

if TYPE_CHECKING:
    from prometheus_client import Metric

SECONDS = 5.0  # in which a process must answer `foltr check`
MOST = 100_000  # bytes of an answer that are read

Check = Callable[[], str | None]  # why the process is not healthy; None if it is


@dataclass
class Health:
    """Whether a process is healthy: checks by name, and facts that are added to the result. Checks
    can be added while the process runs."""

    checks: dict[str, Check] = field(default_factory=dict)
    facts: Callable[[], dict[str, Any]] = dict

    def problems(self) -> dict[str, str]:
        """The checks that fail: name -> reason."""
        found = {}
        for name, check in list(self.checks.items()):
            try:
                reason = check()
            except OSError as error:
                reason = f"cannot be checked: {error.strerror or error}"
            except Mistake as error:
                reason = f"cannot be checked: {error}"
            if reason is not None:
                found[name] = reason
        return found

    def answer(self) -> tuple[int, str]:
        """The HTTP status and the JSON text of /healthz."""
        problems = self.problems()
        said = {"status": "failing" if problems else "ok", **self.facts(), "problems": problems}
        return 503 if problems else 200, strict_json(said)


@dataclass(frozen=True)
class Monitor:
    """/healthz and /metrics of a process."""

    health: Health
    families: Callable[[], Iterable[Metric]]  # the process's own metrics

    def routes(self) -> list[Any]:
        """The routes of a Starlette application."""
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        from foltr.deployment.metrics import CONTENT_TYPE, of_process

        def healthz(request: Request) -> Response:
            status, text = self.health.answer()
            return Response(f"{text}\n", status, media_type="application/json")

        def metrics(request: Request) -> Response:
            text = of_process(self.families(), healthy=not self.health.problems())
            return Response(text, headers={"content-type": CONTENT_TYPE})

        return [Route("/healthz", healthz), Route("/metrics", metrics)]


@contextmanager
def monitored(monitor: Monitor, host: str, port: int) -> Iterator[str]:
    """A context in which /healthz and /metrics of a process without a page are served; yields
    their address."""
    try:
        from starlette.applications import Starlette
    except ImportError:
        raise Mistake(web.NO_SERVER) from None
    app = web.OnlyThisMachine(Starlette(routes=monitor.routes()), host)
    with web.served(app, host, port, 'choose another by status = "HOST:PORT"') as address:
        yield address


def ask_health(address: str, seconds: float = SECONDS) -> tuple[bool, str]:
    """Read /healthz of a running process at http://HOST:PORT/. Returns whether it is healthy, and
    a line of text about it."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}healthz", timeout=seconds) as answer:
            said = _said(answer.read(MOST))
        return True, ", ".join(f"{name} {value}" for name, value in said.items() if value)
    except urllib.error.HTTPError as error:
        try:
            problems = _said(error.read(MOST)).get("problems") or {}
        except (OSError, ValueError, RecursionError):
            problems = {}
        told = "; ".join(f"{name}: {why}" for name, why in problems.items())
        return False, told or f"{address}healthz answers with HTTP status {error.code}"
    except (OSError, ValueError, RecursionError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        return False, f"nothing answers at {address}healthz ({why}): does the process run?"


def _said(content: bytes) -> dict[str, Any]:
    said = json.loads(content)
    if not isinstance(said, dict):
        raise ValueError("no JSON object")
    return said


# The heartbeat of a running node: a small file in its state folder, written every few seconds.
# `foltr check` reads it, because a node opens no port.

FILE = "alive.json"
EVERY = 5.0  # seconds between two writes
OLD = 60.0  # seconds after which the node counts as not running


class Heartbeat:
    """Writes the file. A full disk is no error here: the file is then not updated."""

    def __init__(self, state: Path) -> None:
        self.file = state / FILE
        self._last, self._said = 0.0, False

    def __call__(self, connected: bool, **facts: Any) -> None:
        """Write the file, if it is due or the connection has changed."""
        now = time.monotonic()
        if now - self._last < EVERY and connected == self._said:
            return
        self._last, self._said = now, connected
        about = {"time": time.time(), "pid": os.getpid(), "connected": connected, **facts}
        part = self.file.with_name(f".{FILE}.part")
        with suppress(OSError):
            part.write_text(strict_json(about))
            os.replace(part, self.file)

    def delete(self) -> None:
        """Delete the file: the node stops."""
        with suppress(OSError):
            self.file.unlink(missing_ok=True)


def node_status(state: Path, now: float | None = None) -> tuple[bool, str]:
    """Whether a node runs and is connected, and a line of text about it."""
    file, now = state / FILE, time.time() if now is None else now
    try:
        about = json.loads(text_of(file))
        age, connected = now - float(about["time"]), about["connected"] is True
    except FileNotFoundError:
        return False, f"no node runs in {state}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return False, f"{file} cannot be read: {error}"
    server, last = about.get("server", "the server"), about.get("round")  # from 0
    if not -OLD < age < OLD:
        return False, f"the node in {state} has been silent for {age:.0f} s"
    if not connected:
        return False, f"the node in {state} is not connected to {server}: see its log"
    done = "no round answered yet" if last is None else f"last answered round {last + 1}"
    return True, f"connected to {server}, {done}"


# `foltr check`: whether the process of a settings file runs and is healthy.

# defaults of `status` in the two tables
STATUS = {"server": "127.0.0.1:8444", "gateway": "127.0.0.1:8446"}
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def check_process(file: Path) -> tuple[bool, str]:
    """Whether the process of a settings file is healthy, and a line of text about it. No code that
    the file names is loaded."""
    content = _content(file)
    for name, usual in STATUS.items():
        if isinstance(table := content.get(name), dict):
            able, told = ask_health(page_address(table.get("status", usual), file))
            return able, f"{name}: {told}"
    if isinstance(table := content.get("node"), dict):
        state = table.get("state")
        if not isinstance(state, str):
            raise Mistake(f"{file}: [node] needs state: add to the table")
        able, told = node_status(file.parent / state)
        return able, f"node: {told}"
    tables = "[server], [gateway] or [node]"
    raise Mistake(f"{file} has no table {tables}: give the settings file of a process")


def page_address(status: object, file: Path) -> str:
    """The address of a page that listens on HOST:PORT of this machine."""
    way_out = 'set status = "HOST:PORT"'
    require(status != "none", f"{file}: the process has no status page to ask: {way_out}")
    host, colon, port = str(status).rpartition(":")
    fits = isinstance(status, str) and bool(colon and host) and port.isdigit()
    require(fits, f"{file}: status = {status!r} is no address: {way_out}")
    return f"http://{EVERYWHERE.get(host, host)}:{port}/"


def _content(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content_of(file).decode("utf-8-sig"))
    except OSError as error:
        raise Mistake(f"cannot read {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{file} is not TOML: {error}") from None
