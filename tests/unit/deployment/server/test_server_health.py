"""When a server cannot work, and that it says so."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.deployment.keys.keys import make_server, renew_server
from foltr.deployment.metrics import exposition
from foltr.deployment.server import health as server_health
from foltr.deployment.server.board import Board
from foltr.deployment.server.health import (
    Certificate,
    ServerHealth,
    log_new_certificate,
    longest_round,
    watch_certificate,
)

SOON = datetime.now(UTC) + timedelta(days=90)
NOW = 1000.0  # seconds, of the clock that measures how long something takes


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    monkeypatch.setattr(server_health, "time", SimpleNamespace(monotonic=lambda: NOW))


def watched(tmp_path, **more):
    board = Board("x", 10, 4)
    board.nodes = {"a": "connected", "b": "away"}
    parts = {"certificate": SimpleNamespace(value=Certificate(SOON)), **more}
    return ServerHealth(board, tmp_path, 100.0, **parts)


def problems(of):
    return of.monitor().health.problems()


def test_all_is_well(tmp_path):
    alive = SimpleNamespace(alive=True, process=None)
    of = watched(tmp_path, link=alive, session=SimpleNamespace(failing=None))
    assert problems(of) == {}
    status, text = of.monitor().health.answer()
    said = json.loads(text)
    assert status == 200 and said["doing"] == "waiting for nodes" and said["connected_nodes"] == 1
    assert "foltr_certificate_expiry_timestamp_seconds" in exposition(of.families())


def test_before_the_superlink_runs_nothing_is_wrong(tmp_path):
    assert problems(watched(tmp_path)) == {}


def test_the_superlink_is_down(tmp_path):
    down = SimpleNamespace(alive=False, process=SimpleNamespace(pid=1))
    of = watched(tmp_path, link=down)
    assert problems(of) == {"superlink": "the SuperLink is down"}
    assert "foltr_superlink_up 0" in exposition(of.families())


def test_the_superlink_does_not_respond(tmp_path):
    silent = SimpleNamespace(failing=NOW - server_health.SILENT - 1.0)
    assert "superlink" in problems(watched(tmp_path, session=silent))
    short = SimpleNamespace(failing=NOW - server_health.SILENT)
    assert problems(watched(tmp_path, session=short)) == {}


def test_a_round_hangs(tmp_path):
    of = watched(tmp_path)
    of.board.asking = NOW - 100.0
    assert problems(of) == {} and of.facts()["doing"] == "in a round"
    of.board.asking = NOW - 101.0
    assert "a round has taken 101 s" in problems(of)["round"]
    of.board.add_round({"round": 0})
    assert problems(of) == {}


def test_a_full_or_missing_disk(tmp_path, monkeypatch):
    assert "disk" in problems(watched(tmp_path / "gone"))
    monkeypatch.setattr(server_health, "is_full", lambda folder: True)
    assert problems(watched(tmp_path)) == {"disk": "the disk of the state folder is full"}


def test_a_certificate_that_has_expired(tmp_path):
    over = SimpleNamespace(value=Certificate(datetime.now(UTC) - timedelta(days=1)))
    assert "foltr keys renew" in problems(watched(tmp_path, certificate=over))["certificate"]


def test_a_certificate_that_is_replaced_is_told(tmp_path):
    make_server(tmp_path / "server", ["localhost"])
    told = []
    pair = watch_certificate(tmp_path / "server", told.append)
    log_new_certificate(pair, told.append)
    assert not told
    renew_server(tmp_path / "server", days=5)
    log_new_certificate(pair, told.append)
    assert "the certificate was replaced" in told[0] and "expires on" in told[1]
    assert pair.value.until < SOON
    log_new_certificate(None, told.append)
    assert len(told) == 2


def test_a_round_may_take_all_its_deadlines():
    plain, summed = SimpleNamespace(channel=None), SimpleNamespace(channel=1)
    assert longest_round(plain, 60.0) == 2 * 60 * 4 + 60
    assert longest_round(summed, 60.0) == 2 * 60 * 8 + 60
