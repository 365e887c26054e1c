"""Who is there, also while the SuperLink is not or a node's keys are replaced."""

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.core.errors import Mistake
from foltr.deployment.keys.keys import flower_key, make_node
from foltr.deployment.keys.roster import Peer
from foltr.deployment.keys.roster_file import add_node, read_roster, revoke_node
from foltr.deployment.keys.rotation import replace_node, rotate_node
from foltr.deployment.protocol.messages import LinkDown, NewSession
from foltr.deployment.server import live_roster
from foltr.deployment.server.live_roster import LiveRoster


class Peers:
    """A session on a SuperLink that fails in given ways, one call after another."""

    def __init__(self, peers, *failures):
        self.peers, self.failures, self.known = peers, list(failures), set()

    def register(self, public_key):
        self.known.add(public_key)

    def unregister(self, public_keys):
        gone = [key for key in public_keys if key in self.known]
        self.known -= set(gone)
        return gone

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


# ---- keys that are replaced


@pytest.fixture
def replacing(tmp_path):
    """A roster of two nodes; a has new keys. Its session, its old and its new key, what is
    told."""
    for name in ("a", "b"):
        add_node(tmp_path / "roster.toml", make_node(tmp_path / name, name, 3)[0])
    old = read_roster(tmp_path / "roster.toml").seat("a").key
    session, told = Peers([Peer(17, flower_key(old))]), []
    live = LiveRoster(tmp_path / "roster.toml", session, told.append)
    live()
    seat, card = rotate_node(tmp_path / "a")
    replace_node(tmp_path / "roster.toml", card)
    return live, session, old, seat.key, told


def test_a_node_is_asked_by_its_old_key_until_it_connects_with_the_new_one(replacing):
    live, session, old, new, told = replacing
    assert live.reachable(fresh=True) == {17: range(3)} and session.known >= {old, new}
    session.peers.append(Peer(18, flower_key(new)))
    assert live.reachable(fresh=True) == {18: range(3)}  # at once, and only there
    assert live.name_of(18) == "a" and live.states() == {"a": "connected", "b": "away"}
    assert old not in session.known and new in session.known
    assert read_roster(live.path).seat("a").keys == (new,)
    assert told == ["a: the old key is not valid any more"]
    assert live.reachable(fresh=True) == {18: range(3)}  # though the old one is still listed


def test_the_old_key_is_refused_after_a_restart(replacing):
    """The server was killed after it wrote the roster, and before it told the SuperLink."""
    live, session, old, new, _ = replacing
    session.peers.append(Peer(18, flower_key(new)))
    live.reachable(fresh=True)
    session.known.add(old)
    LiveRoster(live.path, session, print)()
    assert old not in session.known and new in session.known


def test_new_keys_that_are_taken_back(replacing):
    live, session, old, new, _ = replacing
    live()
    text = live.path.read_text().splitlines(keepends=True)
    live.path.write_text("".join(line for line in text if not line.startswith("next_")))
    live()
    assert old in session.known and new not in session.known


def test_a_roster_that_cannot_be_written_keeps_the_old_key(replacing, monkeypatch):
    live, session, old, new, told = replacing
    session.peers.append(Peer(18, flower_key(new)))

    def full(*_):
        raise Mistake("cannot write roster.toml: No space left on device")

    monkeypatch.setattr(live_roster, "change_node", full)
    for _ in range(3):
        assert live.reachable(fresh=True) == {18: range(3)}
    (line,) = told
    assert "a: the old key stays valid for now: cannot write" in line and old in session.known


def test_a_revoked_node_loses_both_keys(replacing):
    live, session, old, new, told = replacing
    live.reachable(fresh=True)
    revoke_node(live.path, "a")
    live()
    assert not {old, new} & session.known and told == ["a is excluded: its key is revoked"]


def test_a_forgotten_node_is_marked_in_the_roster(replacing):
    live, *_ = replacing
    live.shut_out("b")
    assert read_roster(live.path).seat("b").forgotten
    live.shut_out("b")  # again, after a crash


def test_a_key_that_was_changed_by_hand_is_refused(replacing):
    live, session, old, new, told = replacing
    live()
    text = live.path.read_text().splitlines(keepends=True)
    kept = [line for line in text if not line.startswith(("next_", f'key = "{old.decode()}"'))]
    live.path.write_text(
        "".join(kept).replace('name = "a"', f'name = "a"\nkey = "{new.decode()}"')
    )
    for _ in range(3):
        assert live().seat("a").key == old
    (line,) = told
    assert "a node was removed or changed" in line and old in session.known
