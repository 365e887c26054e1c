"""Rounds that begin at least some seconds after each other."""

from dataclasses import replace

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from test_leaving_nodes import Here

from foltr.core.errors import Mistake
from foltr.deployment.protocol.exchange import Interrupted
from foltr.deployment.server import rounds as server
from foltr.deployment.settings import ServerTable


class Clock:
    """Time that passes only by waiting. It has no wall clock, which somebody might set."""

    now = 1000.0

    def __init__(self, engine):
        self.began, self.looked = [], []
        collect, call_roll = engine.collect, engine.call_roll
        engine.wait = self.wait
        engine.collect = lambda *given: (self.began.append(self.now), collect(*given))[1]
        engine.call_roll = lambda: (self.looked.append(self.now), call_roll())[1]

    def wait(self, seconds):
        self.now += seconds

    def monotonic(self):
        return self.now


def paced(tmp_path, monkeypatch, interval):
    here = Here(tmp_path, 4)
    here.rounds.table = replace(here.rounds.table, interval=interval)
    clock = Clock(here.engine)
    monkeypatch.setattr(server, "time", clock)
    here.rounds.run(here.rounds.start())
    return clock


def test_rounds_begin_an_interval_after_each_other(tmp_path, monkeypatch):
    clock = paced(tmp_path, monkeypatch, 100.0)
    assert clock.began == [1000.0, 1100.0, 1200.0, 1300.0]
    assert {1030.0, 1060.0, 1090.0} <= set(clock.looked), "who wants to be forgotten?"


def test_without_an_interval_they_follow_at_once(tmp_path, monkeypatch):
    assert paced(tmp_path, monkeypatch, 0.0).began == [1000.0] * 4


def test_a_pause_can_be_interrupted(tmp_path):
    here = Here(tmp_path, 4)
    here.engine.stopping.set()
    with pytest.raises(Interrupted):
        here.engine.wait(1e6)


def test_an_interval_that_is_none():
    with pytest.raises(Mistake, match="interval must be"):
        ServerTable("roster.toml", "state", interval=-1.0)
