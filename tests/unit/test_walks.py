"""The three walks of docs/design.md are true: each is followed while it happens, its steps come in
the order of the page, and every file that it passes is named there."""

import asyncio
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import foltr
from foltr.cli.app import app
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.components.rankers.linear import Linear
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core.federation import Server, federate
from foltr.core.spec import FAMILIES
from foltr.core.world.population import iid
from foltr.simulation.engines.debug import Debug

ROOT = Path(foltr.__file__).parent
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text()
OPTIMIZED = 0x1  # a flag of the code of functions; the body of a class or a module lacks it
# how foltr finds its own names, and says where a module has moved
NAMES = {"__init__.py", "core/__init__.py", "core/advice.py", "core/moved.py", "core/spec.py"}
SWEEP = """
data = "Synthetic(queries=20)"
clients = 2
rounds = 20
[sweep]
seed = [1, 2]
[[sweep.method]]
name = "one"
[[sweep.method]]
name = "two"
optimizer = "Adam()"
"""


def section(title):
    return PAGE.split(f"### {title}\n")[1].split("\n#")[0]


def steps_of(title):
    """(file, function) of each step, in the page's order."""
    return re.findall(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", section(title), re.MULTILINE)


def files_of(title):
    """The files that a walk names, as its steps or beside them."""
    return set(re.findall(r"`([\w/]+\.py)`", section(title)))


class Walk:
    """(file, function) of every call and return inside foltr, in order, while it is `followed`."""

    def __init__(self):
        self.calls, self.is_followed = [], False

    def note(self, frame, event, argument):
        code = frame.f_code
        if self.is_followed and event in ("call", "return") and code.co_flags & OPTIMIZED:
            file = Path(code.co_filename)
            if file.is_relative_to(ROOT):
                name = code.co_qualname.split(".<locals>")[0]
                self.calls.append((file.relative_to(ROOT).as_posix(), name))

    @contextmanager
    def followed(self):
        """In this thread, and in those that begin meanwhile."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def check_walk(title, calls):
    left = iter(calls)
    missing = next((step for step in steps_of(title) if step not in left), None)
    assert missing is None, f"{missing} does not come after what the page has before it"
    passed = {file for file, _ in calls} - NAMES
    assert sorted(passed - files_of(title)) == [], "the page names every file that is passed"
    assert sorted(files_of(title) - passed) == [], "and no other"


def test_a_simulated_click():
    learner = PDGD(sessions=1)
    population = iid(Synthetic(queries=20).load("train"), Cascade(kind="perfect"), 1, 1)
    engine = Debug(learner, Linear(), population, 1, np.empty((1, 0), np.float32))
    server = Server(learner, Mean(), SGD())
    start = server.init(np.zeros(population.data.width))
    walk = Walk()
    with walk.followed():
        for is_followed in (False, True):  # the first one loads what is loaded once
            walk.is_followed = is_followed
            federate(server, engine, start, 2, lambda t: np.array([0]), 1, lambda *given: None)
    names = [name for _, name in walk.calls]
    first = names.index("SimulatedUser.session")
    last = len(names) - names[::-1].index("plackett_luce")
    check_walk("A simulated click", walk.calls[first:last])


def test_a_real_click(tmp_path):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    from foltr.device.content import Text
    from foltr.device.home import Home
    from foltr.device.page.app import application
    from foltr.device.running import Running

    home = Home(tmp_path / "device")
    home.index().close()
    running = Running(home)
    for n in range(12):
        path = tmp_path / f"file{n}.txt"
        path.write_text("content")
        text = Text("text", f"Kernel {n}", "", f"kernel module {n} " * (n + 1), 1e9)
        with running.index.batch():
            running.index.put(str(path), n, 1, [text])
    where, token = "127.0.0.1:8765", "a-token-for-tests"
    page, walk = application(running, where, token), Walk()
    headers = {"sec-fetch-site": "same-origin", "x-foltr-token": token}

    async def click():
        transport = httpx.ASGITransport(page)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{where}") as client:

            async def call(method, name, **more):
                reply = await client.request(method, f"/api/{name}", headers=headers, **more)
                assert reply.status_code == 200, reply.text
                return reply.json()

            for is_followed in (False, True):  # the first click loads what is loaded once
                shown = await call("GET", "search", params={"q": "kernel"})
                await call("POST", "look", json={"list": shown["list"]})
                document = {"list": shown["list"], "id": str(shown["results"][3]["id"])}
                walk.is_followed = is_followed
                await call("POST", "open", json={**document, "how": "preview"})
                shown = await call("GET", "search", params={"q": "module"})
                await call("POST", "look", json={"list": shown["list"]})

    with walk.followed():
        asyncio.run(click())
    check_walk("A real click", walk.calls)


def test_a_line_of_a_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(SWEEP)
    commands = (
        ["run", "--data", "Synthetic(queries=21)", "--rounds", "1"],  # loads what is loaded once
        ["sweep", "sweep.toml", "--out", "runs", "--jobs", "1", "--quiet"],
        ["report", "runs", "-o", "table.tex"],
    )
    for family in FAMILIES:
        family.members()  # loads the components, whose defaults are checked then
    walk = Walk()
    with walk.followed():
        for words in commands:
            walk.is_followed = words[0] != "run"
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output
    assert "one" in Path("table.tex").read_text()
    check_walk("A line of a sweep", walk.calls)
