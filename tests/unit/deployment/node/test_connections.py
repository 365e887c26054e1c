"""A node with two connections while its keys are replaced."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")


from foltr.core.errors import Mistake
from foltr.core.system.state_file import Unusable
from foltr.deployment.flower.node import Asked
from foltr.deployment.keys.keys import NODE_KEY, SIGN_KEY, make_node, read_sign_key
from foltr.deployment.keys.rotation import NEXT, own_card, rotate_node
from foltr.deployment.node import connections as module
from foltr.deployment.node.connections import Connections
from foltr.deployment.node.node import Answering


class Link:
    """A node's connection that does what it is told."""

    def __init__(self, address, answer, key, roots, insecure, *, home, stranger, tell):
        assert (address, roots, insecure, home) == ("server:1", None, True, "home")
        self.key, self.answer, self.stranger, self.tell = key, answer, stranger, tell
        self.connected, self.unknown, self.over = True, False, False
        self.content = key.read_bytes()
        self.failure = None
        self.ended = threading.Event()

    def serve(self, stop):
        while not stop.wait(0.01):
            if self.failure is not None:
                raise self.failure
        self.over = True


@pytest.fixture
def node(tmp_path, monkeypatch):
    """The folder of its keys, its connections, the asks with the keys that sign, and what was
    told."""
    make_node(tmp_path / "a", "a", 3)
    made, told, asked = [], [], []

    def connect(*args, **named):
        made.append(Link(*args, **named))
        return made[-1]

    def answer(ask, sign_key):
        asked.append((ask, sign_key))
        return ask.upper()

    monkeypatch.setattr(module, "Node", connect)
    how = {"insecure": True, "home": "home", "tell": told.append}
    connections = Connections(tmp_path / "a", "server:1", answer, **how)
    yield SimpleNamespace(keys=tmp_path / "a", all=connections, links=made, told=told, asked=asked)
    for each in (connections.current, connections.next):
        if each is not None:
            each.end()


def test_without_new_keys_there_is_one_connection(node):
    node.all.look()
    assert len(node.links) == 1 and node.all.next is None and not node.told
    assert node.links[0].key == node.keys / NODE_KEY


def test_the_old_connection_stays_until_the_server_drops_its_key(node):
    seat, _ = rotate_node(node.keys)
    node.all.look()
    first, second = node.links
    assert second.key == node.keys / NEXT / NODE_KEY and "`foltr keys replace`" in second.stranger
    old, new = (read_sign_key(folder / SIGN_KEY) for folder in (node.keys, node.keys / NEXT))
    assert [link.answer(b"ask") for link in (first, second, first)] == [b"ASK"] * 3
    assert node.asked == [(b"ask", old), (b"ask", new), (b"ask", old)] and old != new
    second.connected = False
    first.unknown = True  # the new key is not known yet: the node was revoked
    node.all.look()
    assert not first.over and own_card(node.keys) != seat
    second.connected, first.unknown = True, False
    node.all.look()
    assert not first.over  # a sum may go on there
    first.tell("this key is refused soon")
    second.tell("the new connection is heard")
    assert "this key is refused soon" not in node.told
    assert node.told[-1] == "the new connection is heard"
    first.unknown = True
    node.all.look()
    assert first.over and node.all.current.node is second and node.all.next is None
    assert own_card(node.keys) == seat and not (node.keys / NEXT).exists()
    assert (node.keys / NODE_KEY).read_bytes() == second.content
    assert "the new keys are in use" in node.told[-1]
    node.all.look()
    rotate_node(node.keys)  # and once more
    node.all.look()
    assert len(node.links) == 3


def test_new_keys_that_are_deleted(node):
    _, card = rotate_node(node.keys)
    node.all.look()
    for file in card.parent.iterdir():
        file.unlink()
    node.all.look()
    assert node.links[1].over and node.all.next is None and not node.links[0].over


def test_new_keys_that_cannot_be_used_are_told_once(node):
    _, card = rotate_node(node.keys)
    (card.parent / SIGN_KEY).write_text("nonsense")
    for _ in range(3):
        node.all.look()
    (line,) = node.told
    assert "the new keys cannot be used, the old ones stay in use" in line
    assert len(node.links) == 1 and node.all.next is None


def test_a_new_connection_that_fails(node):
    rotate_node(node.keys)
    node.all.look()
    node.links[1].failure = Mistake("the clock is wrong")
    node.all.next._thread.join(60.0)
    assert not node.all.next._thread.is_alive()
    node.all.look()
    assert "the clock is wrong" in node.told[-1] and node.all.next is None
    node.all.look()
    assert len(node.links) == 2 and not node.links[0].over


def test_a_folder_that_cannot_be_written(node, monkeypatch):
    """The process goes on with the new keys; the next one connects with both again."""

    def refused(folder):
        raise Mistake(f"cannot write {folder}: Read-only file system")

    monkeypatch.setattr(module, "promote", refused)
    rotate_node(node.keys)
    node.all.look()
    node.links[0].unknown = True
    for _ in range(3):
        node.all.look()
    assert node.all.current.node is node.links[1] and len(node.links) == 2
    assert "Read-only file system" in node.told[-1] and len(node.told) == 2


def test_an_error_of_the_connection_ends_the_node(node):
    node.links[0].failure = Mistake("the server refused this node's key")
    looks = []
    with pytest.raises(Mistake, match="refused"):
        node.all.serve(threading.Event(), looks.append)


def test_all_connections_end_with_the_node(node):
    rotate_node(node.keys)
    stop = threading.Event()

    def looked(link):
        assert link is node.links[0]
        if len(node.links) == 2:
            stop.set()

    node.all.serve(stop, looked)
    assert all(link.over for link in node.links)


# ---- answers


class Records:
    last = None

    def last_round(self):
        if isinstance(self.last, Exception):
            raise self.last
        return self.last


def asked(frame=b"frame"):
    return Asked(frame, 60.0, 0.0)


def test_sums_are_signed_by_the_key_of_the_connection():
    used = []
    participant = SimpleNamespace(sums=SimpleNamespace(key=b"old"), records=Records())
    answering = Answering(participant, lambda text: used.append(participant.sums.key) or text)
    for key in (b"old", b"new", b"new", b"old"):
        assert answering(asked(), key) == b"frame"
    assert used == [b"old", b"new", b"new", b"old"]
    participant.sums, answering.answer = None, bytes.upper
    assert answering(asked(), b"new") == b"FRAME"


def test_the_last_round_is_known_and_a_full_disk_costs_no_answer():
    participant = SimpleNamespace(sums=None, records=Records())
    answering = Answering(participant, lambda text: text)
    participant.records.last = 6
    assert answering(asked(), b"") == b"frame" and answering.last_round == 6
    participant.records.last = Unusable("disk full")
    assert answering(asked(), b"") == b"frame" and answering.last_round == 6
