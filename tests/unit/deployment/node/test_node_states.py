"""What the status page says of the nodes, and where it is served."""

import json
import urllib.request
from types import SimpleNamespace

import pytest

from foltr.core.errors import Mistake
from foltr.deployment.server.board import Board

pytest.importorskip("flwr", reason="needs foltr[deploy]")
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.serve import shown
from foltr.deployment.settings import ServerTable


class Rostered(SimpleNamespace):
    """A roster of three nodes with two clients each; the last one is revoked."""

    def node_of(self, client):
        return self.seats[client // 2]


def live_roster():
    seats = [SimpleNamespace(name=name, revoked=name == "c") for name in "abc"]
    live = LiveRoster(None, None, print)
    live._roster = Rostered(seats=seats)
    return live


def test_the_states_of_nodes():
    live = live_roster()
    assert live.states() == {"a": "away", "b": "away", "c": "revoked"}
    live.nodes = {77: range(0, 2), 78: range(2, 4)}
    assert live.states() == {"a": "connected", "b": "connected", "c": "revoked"}
    assert live.states({78: "no"}) == {"a": "connected", "b": "refused: no", "c": "revoked"}


def test_before_the_roster_is_read():
    assert LiveRoster(None, None, print).states() == {}


def test_the_page_is_there_meanwhile():
    told = []
    with shown(Board("0123", 5, 2), ("127.0.0.1", 0), told.append):
        address = told[0].removeprefix("status page: ")
        with urllib.request.urlopen(f"{address}data.json", timeout=60) as answer:
            assert json.load(answer)["rounds"] == 5
    assert len(told) == 1


def test_a_page_for_others_is_told():
    told = []
    with shown(Board("0123", 5, 2), ("0.0.0.0", 0), told.append):
        pass
    assert len(told) == 2 and "no password" in told[1]


def test_no_page():
    told = []
    with shown(Board("0123", 5, 2), None, told.append):
        pass
    assert told == []


@pytest.mark.parametrize(
    ("status", "address"),
    [("none", None), (None, None), ("[::1]:99", ("::1", 99)), ("0.0.0.0:0", ("0.0.0.0", 0))],
)
def test_the_setting(status, address):
    assert ServerTable(roster="r", state="s", status=status).status_address == address


def test_a_setting_that_is_no_address():
    with pytest.raises(Mistake, match="'here' is no address"):
        ServerTable(roster="r", state="s", status="here")
