"""Who is there, while the SuperLink is not."""

import pytest

pytest.importorskip("flwr", reason="Flower is missing: pip install 'foltr[deploy]'")

from foltr.federated.keys import flower_key, make_node
from foltr.federated.messages import LinkDown, NewSession
from foltr.federated.roster import Peer
from foltr.federated.roster_file import add_node
from foltr.serving.live_roster import LiveRoster


class Peers:
    """A session on a SuperLink that fails in given ways, one call after another."""

    def __init__(self, peers, *failures):
        self.peers, self.failures = peers, list(failures)

    def register(self, public_key):
        pass

    def unregister(self, public_keys):
        return []

    def get_nodes(self):
        if self.failures:
            raise self.failures.pop(0)
        return self.peers


@pytest.fixture
def roster(tmp_path):
    seat, _ = make_node(tmp_path / "a", "a", 3)
    add_node(tmp_path / "roster.toml", seat)
    return tmp_path / "roster.toml", [Peer(17, flower_key(seat.key))]


def test_a_lost_session_is_no_failure_between_rounds(roster):
    file, peers = roster
    live = LiveRoster(file, Peers(peers, NewSession("lost")), print)
    assert live.reachable(fresh=True) == {17: range(3)}


def test_nobody_is_reachable_without_a_superlink(roster):
    file, peers = roster
    live = LiveRoster(file, Peers(peers, LinkDown("away")), print)
    assert live.reachable(fresh=True) == {}
    assert live.reachable(fresh=True) == {17: range(3)}
