"""`foltr check`: whether the process of a settings file works."""

import errno
import json
import time

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.deployment import monitoring as alive
from foltr.deployment.monitoring import FILE, Heartbeat, check_process, node_status, page_address
from foltr.deployment.server.board import Board
from foltr.deployment.server.status_page import status_page


def check(file):
    done = CliRunner().invoke(app, ["check", str(file)])
    return done.exit_code, done.output.strip()


# ---- a node


@pytest.fixture
def node(tmp_path):
    file = tmp_path / "node.toml"
    file.write_text('features = 46\nuse = ["evil.py"]\n[node]\nstate = "state"\n')
    (tmp_path / "evil.py").write_text("raise SystemExit(9)")  # is not loaded
    (tmp_path / "state").mkdir()
    return file, tmp_path / "state"


def test_a_node_that_runs(node):
    file, state = node
    assert check(file) == (1, f"node: no node runs in {state}")
    beat = Heartbeat(state)
    beat(True, server="a:1", round=None)
    assert check(file) == (0, "node: connected to a:1, no round answered yet")
    beat(False, server="a:1", round=7)
    code, text = check(file)
    assert code == 1 and "is not connected to a:1" in text
    beat(True, server="a:1", round=7)
    assert check(file) == (0, "node: connected to a:1, last answered round 8")  # from 1
    beat.delete()
    assert check(file)[0] == 1


def test_a_node_that_is_silent(node):
    _, state = node
    Heartbeat(state)(True, server="a:1", round=1)
    able, told = node_status(state, time.time() + 61)
    assert not able and "has been silent for 61 s" in told
    assert not node_status(state, time.time() - 61)[0]  # a clock that was set back


def test_the_file_is_written_when_it_is_due(node, monkeypatch):
    _, state = node
    now = [100.0]
    monkeypatch.setattr(alive.time, "monotonic", lambda: now[0])
    beat = Heartbeat(state)
    beat(True, n=1)
    now[0] += 1.0
    beat(True, n=2)
    assert json.loads((state / FILE).read_text())["n"] == 1
    beat(False, n=3)  # a change is not held back
    assert json.loads((state / FILE).read_text())["n"] == 3
    now[0] += 5.1
    beat(False, n=4)
    assert json.loads((state / FILE).read_text())["n"] == 4


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"time": "x", "connected": true}', "\xff"])
def test_a_damaged_file_is_no_sign_of_life(node, content):
    file, state = node
    (state / FILE).write_bytes(content.encode("latin-1"))
    assert check(file)[0] == 1


def test_a_disk_that_is_full_stops_no_node(node, monkeypatch):
    """The file says what it said before, until it can be written again."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    _, state = node
    beat = Heartbeat(state)
    beat(True, n=1)
    with monkeypatch.context() as patch:
        patch.setattr(alive.Path, "write_text", full)
        beat(False, n=2)
    assert json.loads((state / FILE).read_text())["n"] == 1
    beat(True, n=3)
    assert json.loads((state / FILE).read_text())["n"] == 3


def test_a_folder_that_is_gone_stops_no_node(node):
    _, state = node
    beat = Heartbeat(state / "gone")
    beat(True)
    beat.delete()
    assert not (state / "gone").exists() and not node_status(state / "gone")[0]


# ---- a server


def test_a_server_that_runs(tmp_path):
    file = tmp_path / "server.toml"
    with status_page(Board("x", 10, 4)) as address:
        where = address.removeprefix("http://").rstrip("/")
        file.write_text(f'[server]\nstatus = "{where}"\n')
        assert check(file) == (0, "server: status ok")
    code, text = check(file)
    assert code == 1 and "does the process run?" in text


def test_a_page_on_all_addresses_is_read_at_loopback(tmp_path):
    assert page_address("0.0.0.0:8444", tmp_path) == "http://127.0.0.1:8444/"
    assert page_address("[::]:8444", tmp_path) == "http://[::1]:8444/"
    assert page_address("[::1]:8444", tmp_path) == "http://[::1]:8444/"


# ---- mistakes


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[server]\nstatus = 'none'", "has no status page to ask"),
        ("[server]\nstatus = 'here'", "'here' is no address"),
        ("[server]\nstatus = 8444", "8444 is no address"),
        ("[node]\nstat = 'x'", "needs state"),
        ("features = 46", "has no table"),
        ("[server", "is not TOML"),
    ],
)
def test_mistakes(tmp_path, content, told):
    (tmp_path / "x.toml").write_text(content)
    with pytest.raises(Mistake, match=told):
        check_process(tmp_path / "x.toml")


def test_no_file(tmp_path, monkeypatch):
    code, text = check(tmp_path / "no.toml")
    assert code == 2 and text.startswith("foltr: cannot read") and "\n" not in text
    monkeypatch.setenv("FOLTR_SETTINGS", str(tmp_path / "other.toml"))
    done = CliRunner().invoke(app, ["check"])
    assert done.exit_code == 2 and "other.toml" in done.output
