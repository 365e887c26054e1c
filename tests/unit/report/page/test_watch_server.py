"""`foltr watch`: what its server answers, and how it starts and ends."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import NamedTuple

import pytest
from made_runs import made_runs
from watched_folder import Folder, live_page_of

from foltr.core.errors import Mistake
from foltr.report.page import live_page as watch_server


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


@pytest.fixture
def ask(never_resting):
    """Asks the application as a server would: `ask("/content").text`."""
    each = live_page_of(Folder(done=2))
    each.refresh()
    application = watch_server.application(each)

    def asked(path, method="GET", **headers):
        sent = []
        given = [
            (name.replace("_", "-").encode(), value.encode())
            for name, value in {"host": "127.0.0.1", **headers}.items()
        ]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": given,
            "root_path": "",
        }

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message):
            sent.append(message)

        asyncio.run(application(scope, receive, send))
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(
            sent[0]["status"], told, b"".join(part["body"] for part in sent[1:]).decode()
        )

    return asked


def test_page_and_model(ask):
    page, model = ask("/"), ask("/content")
    assert page.status == model.status == 200 and page.headers["content-type"].startswith(
        "text/html"
    )
    assert page.text.startswith("<!doctype html>") and json.loads(model.text)["title"] == "A sweep"
    assert set(json.loads(model.text)["sections"]) == {
        "head",
        "glance",
        "results",
        "matrix",
        "notes",
        "provenance",
    }
    for answer in (page, model):
        assert (
            answer.headers["cache-control"] == "no-store"
            and answer.headers["x-content-type-options"] == "nosniff"
        )
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/content", "/events", "/absent"])
def test_another_name_is_refused(ask, path):
    answer = ask(path, host="evil.example")
    assert answer.status == 421 and "A sweep" not in answer.text


def test_nothing_else_is_served(ask):
    assert ask("/../etc/passwd").status == 404 and ask("/", method="POST").status == 405
    preflight = ask(
        "/content",
        method="OPTIONS",
        origin="http://evil.example",
        access_control_request_method="GET",
    )
    assert preflight.status == 405 and "access-control-allow-origin" not in preflight.headers


def test_events_say_what_changes_and_end(never_resting, monkeypatch):
    monkeypatch.setattr(watch_server, "TICK", 0.001)
    folder = Folder(done=1)
    each = live_page_of(folder)
    each.refresh()

    async def heard():
        found, stream = [], watch_server._events(each)
        async for text in stream:
            found.append(text)
            if len(found) == 2:
                folder.done = 2
                each.refresh()
            if len(found) == 3:
                each.is_ending = lambda: True
        return found

    retry, one, two = asyncio.run(heard())
    assert retry.startswith("retry: ")
    first, second = (json.loads(text.partition("data: ")[2]) for text in (one, two))
    assert one.startswith("event: progress\n") and one.endswith("\n\n")
    assert (first["done"], second["done"]) == (1, 2) and first["version"] != second["version"]


# ---- the server


def test_a_port_in_use_is_named_with_the_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Mistake, match=f"port {port} of 127.0.0.1.*--port 0"):
            watch_server.serve(made_runs, dict, port=port)


@pytest.mark.parametrize("package", ["uvicorn", "starlette.applications"])
def test_without_the_extra(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Mistake, match=r"pip install starlette uvicorn"):
        watch_server.serve(made_runs, dict, port=0)


SERVER = """
from foltr.report.page.live_page import serve
from foltr.report.results import Runs
progress = {"planned": 1, "done": 0, "failed": [], "running": [], "left": None}
serve(lambda: Runs(()), lambda: progress, port=0, tell=lambda text: print(text, flush=True))
print("ended", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_although_somebody_listens(how):
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            told = server.stdout.readline()
            address = told.split()[2]
            with urllib.request.urlopen(f"{address}events", timeout=30) as stream:
                assert stream.readline().startswith(b"retry")
                server.send_signal(how)
                stdout, stderr = server.communicate(timeout=30)
        finally:
            server.kill()
    assert server.returncode == (0 if how == signal.SIGINT else -signal.SIGTERM) and stderr == ""
    assert (stdout == "ended\n") == (how == signal.SIGINT)
