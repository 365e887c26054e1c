"""/healthz and /metrics of a running process, for monitoring programs.

    GET /healthz   200 while the process is healthy; 503 with the reasons if it is not. JSON.
    GET /metrics   the metrics, for Prometheus

`foltr check` reads /healthz. Neither contains a key, a client's number or a node's data."""

from __future__ import annotations

import json
import platform
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import foltr
from foltr import web
from foltr.errors import Mistake
from foltr.serving.exposition import CONTENT_TYPE, Family, counter, exposition, gauge
from foltr.system.process import Usage, usage
from foltr.system.strict_json import strict_json

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
    families: Callable[[], Iterable[Family]]  # the process's own metrics

    def text(self) -> str:
        """All metrics: its own, those of every process of foltr, and whether it is healthy."""
        able = gauge(
            "foltr_healthy", "1 while the process is healthy.", float(not self.health.problems())
        )
        return exposition([*self.families(), able, *process_metrics(usage()), build_info()])

    def routes(self) -> list[Any]:
        """The routes of a Starlette application."""
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        def healthz(request: Request) -> Response:
            status, text = self.health.answer()
            return Response(f"{text}\n", status, media_type="application/json")

        def metrics(request: Request) -> Response:
            return Response(self.text(), headers={"content-type": CONTENT_TYPE})

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


def build_info() -> Family:
    labels = {"version": foltr.__version__, "python": platform.python_version()}
    return gauge("foltr_build_info", "The version of foltr; always 1.", 1.0, **labels)


def process_metrics(used: Usage, prefix: str = "process") -> list[Family]:
    """What a process uses, under the standard names of Prometheus."""
    found = []
    if used.cpu_seconds is not None:
        told = "User and system processor time."
        found.append(counter(f"{prefix}_cpu_seconds_total", told, used.cpu_seconds))
    for name, help, value in (
        ("resident_memory_bytes", "Memory that is not swapped out.", used.resident_bytes),
        ("start_time_seconds", "When the process started, since 1970.", used.started),
        ("open_fds", "Open files and sockets.", used.open_files),
    ):
        if value is not None:
            found.append(gauge(f"{prefix}_{name}", help, value))
    return found


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
