"""The page that lives: what it costs to follow a folder, what it tells, who may ask."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from typing import NamedTuple

import pytest
from made_runs import made_run, made_runs

from foltr.errors import Mistake
from foltr.report import following as follow
from foltr.report import watch
from foltr.report.page.live_page import Following
from foltr.results import Runs


class Folder:
    """Runs and progress, as a sweep would change them."""

    def __init__(self, done=0, planned=4):
        self.done, self.planned, self.failed, self.loads, self.trouble = done, planned, [], 0, None

    def load(self):
        self.loads += 1
        if self.trouble:
            raise self.trouble
        return made_runs([made_run(0.5, seed=s) for s in range(self.done)], title="A sweep")

    def progress(self):
        running = (
            [{"run": f"r{self.done}", "round": 3, "rounds": 20}]
            if self.done < self.planned
            else []
        )
        return {
            "planned": self.planned,
            "done": self.done,
            "failed": self.failed,
            "running": running,
            "left": 12.0,
        }


@pytest.fixture
def never_resting(monkeypatch):
    monkeypatch.setattr(follow, "SHARE", 0)
    monkeypatch.setattr(follow, "LEAST", 0.0)


def following(folder):
    return Following(folder.load, folder.progress)


# ---- following a folder


def test_runs_are_read_only_when_one_has_finished(never_resting):
    folder = Folder(done=2)
    each = following(folder)
    for _ in range(5):
        each.look()
    assert folder.loads == 1 and "2 runs finished" in each.answer()
    first = each.version
    folder.done = 3
    each.look()
    assert folder.loads == 2 and each.version != first and "3 runs finished" in each.answer()


def test_a_folder_without_a_plan_is_read_now_and_then(never_resting):
    folder = Folder(done=1, planned=0)
    each = Following(folder.load, lambda: {"planned": 0, "done": 0})
    each.look()
    first = each.version
    each.look()
    assert folder.loads == 2 and each.version == first  # nothing new, so nothing is sent
    folder.done = 2
    each.look()
    assert each.version != first and "2 runs finished" in each.answer() and not each.news()["over"]


def test_reading_is_rarer_the_longer_it_takes(monkeypatch):
    clock = iter(
        [100.0, 100.0, 102.0, 102.0, 110.0, 122.5, 122.5, 122.5, 122.5]
    )  # it takes 2 s, so it rests for 20 s
    monkeypatch.setattr(follow.time, "monotonic", lambda: next(clock))
    folder = Folder(done=1)
    each = following(folder)
    each.look()
    folder.done = 2
    each.look()  # at 110
    assert folder.loads == 1
    each.look()  # at 122.5
    assert folder.loads == 2


def test_before_the_first_run():
    folder = Folder(done=0)
    each = following(folder)
    assert "Reading the runs" in each.page()
    each.look()
    told = json.loads(each.answer())
    assert told["data"] is None and "No run has finished yet" in told["sections"]["head"]
    assert each.news()["planned"] == 4 and not each.news()["over"]


def test_trouble_is_told_and_forgotten_and_costs_nothing_that_was_shown(never_resting):
    folder = Folder(done=2)
    each = following(folder)
    each.look()
    before = each.answer()
    folder.done, folder.trouble = 3, Mistake("two runs have the same config")
    each.look()
    assert each.news()["trouble"] == "two runs have the same config" and each.answer() == before
    folder.trouble = None
    each.look()
    assert each.news()["trouble"] == "" and "3 runs finished" in each.answer()


def test_progress_that_cannot_be_read_now_is_told(never_resting):
    folder = Folder(done=2)
    each = following(folder)
    each.look()

    def unreadable():
        raise OSError("the disk is away")

    each.progress = unreadable
    each.look()
    assert each.news()["trouble"] == "the disk is away" and each.news()["done"] == 2
    each.progress = folder.progress
    each.look()
    assert each.news()["trouble"] == ""


def test_it_is_over_when_all_are_done_or_failed_and_shown(never_resting):
    folder = Folder(done=3)
    each = following(folder)
    each.look()
    assert not each.news()["over"]
    folder.done, folder.planned, folder.failed = 4, 5, [{"run": "r5", "error": "it broke"}]
    each.look()
    assert not each.news()["over"]  # one is said to run
    folder.planned = 4
    folder.failed = []
    each.look()
    assert each.news()["over"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_our_own_is_not_silent():
    folder = Folder(done=1)
    folder.trouble = KeyError("a bug")
    each = following(folder)
    each.start()
    each._thread.join()
    assert "an error of its own" in each.news()["trouble"]


def test_it_looks_until_it_is_stopped(never_resting, monkeypatch):
    monkeypatch.setattr(follow, "LOOK", 0.001)
    folder = Folder(done=1)
    each = following(folder)
    each.start()
    while "1 run finished" not in each.answer():
        pass
    folder.done = 2
    while "2 runs finished" not in each.answer():
        pass
    each.stop()
    each._thread.join()
    assert each.news()["trouble"] == "" and folder.loads == 2


def test_two_servers_have_no_version_in_common():
    assert following(Folder()).version != following(Folder()).version


def test_the_page_that_lives_may_ask_its_own_server_only(never_resting):
    each = following(Folder(done=2))
    each.look()
    assert "connect-src 'self'" in each.page() and 'data-source="live"' in each.page()


# ---- who may ask


@pytest.mark.parametrize(
    "header",
    ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:80", "192.168.1.4:8765", "box:9"],
)
def test_this_machine_by_address_or_name(header):
    assert watch.is_ours(header, "box")


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "",
        "localhost.evil",
        "[evil]",
    ],
)
def test_no_other_name(header):
    assert not watch.is_ours(header, "127.0.0.1")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


@pytest.fixture
def ask(never_resting):
    """Asks the application as a server would: `ask("/model").text`."""
    each = following(Folder(done=2))
    each.look()
    application = watch.application(each)

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
    page, model = ask("/"), ask("/model")
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


@pytest.mark.parametrize("path", ["/", "/model", "/events", "/absent"])
def test_another_name_is_refused(ask, path):
    answer = ask(path, host="evil.example")
    assert answer.status == 421 and "A sweep" not in answer.text


def test_nothing_else_is_served(ask):
    assert ask("/../etc/passwd").status == 404 and ask("/", method="POST").status == 405
    preflight = ask(
        "/model",
        method="OPTIONS",
        origin="http://evil.example",
        access_control_request_method="GET",
    )
    assert preflight.status == 405 and "access-control-allow-origin" not in preflight.headers


def test_events_tell_what_changes_and_end(never_resting, monkeypatch):
    monkeypatch.setattr(watch, "TICK", 0.001)
    folder = Folder(done=1)
    each = following(folder)
    each.look()

    async def heard():
        found, stream = [], watch._events(each)
        async for text in stream:
            found.append(text)
            if len(found) == 2:
                folder.done = 2
                each.look()
            if len(found) == 3:
                each.ending = lambda: True
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
            watch.serve(made_runs, dict, port=port)


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 99999), ("127.0.0.1", -1), ("no.such.host.invalid", 0), ("é" * 70, 0)],
)
def test_no_such_place(host, port):
    with pytest.raises(Mistake, match="cannot serve at"):
        watch.listening(host, port)


def test_any_free_port():
    with watch.listening("127.0.0.1", 0) as one, watch.listening("127.0.0.1", 0) as other:
        assert watch.address(one) != watch.address(other) and watch.address(one).startswith(
            "http://127.0.0.1:"
        )


@pytest.mark.parametrize("package", ["uvicorn", "starlette.applications"])
def test_without_the_extra(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Mistake, match=r"pip install starlette uvicorn"):
        watch.serve(made_runs, dict, port=0)


SERVER = """
from foltr.report.page.watch_server import serve
from foltr.results import Runs
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


def test_skipped_runs_are_on_the_page_that_lives(never_resting):
    folder = Folder(done=1)
    whole = folder.load()
    each = Following(lambda: replace(whole, planned=9), folder.progress)
    each.look()
    assert isinstance(whole, Runs) and "1 run of 9 planned" in each.answer()
