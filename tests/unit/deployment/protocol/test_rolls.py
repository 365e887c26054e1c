"""Nodes whose clients come and go, from the server's side."""

from dataclasses import replace

import numpy as np
import pytest
from small_federation import PARAMS, agreed, participant_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from federation_in_process import InProcessGrid
from foltr.core import Answers, Ask, Cohort
from foltr.deployment.protocol import exchange
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Interrupted, Members
from foltr.deployment.protocol.frames import Frame, Kind, Malformed, Welcome, refusal, write_ids

GATEWAY, OTHER, NODE = 10, 11, 12
SEATS = {GATEWAY: range(4), OTHER: range(4, 8), NODE: range(8, 10)}
NOBODY = np.empty(0, np.int64)


class Node:
    """A node; with `roll`, a gateway whose devices `present` can be reached."""

    def __init__(self, agreement, own, roll=True):
        self.participant, self.own, self.roll = participant_of(agreement, Wide(), own), own, roll
        self.present, self.leaving, self.asks = list(own), [], []

    def answer(self, text):
        ask = Frame.from_bytes(text)
        self.asks.append(ask)
        if ask.kind == Kind.ROLL and not self.roll:
            raise Malformed("a frame of an unknown kind")
        if ask.kind == Kind.ROLL:
            return self.told(ask).to_bytes()
        answer = Frame.from_bytes(self.participant.answer(text))
        if answer.kind == Kind.WELCOME and ask.kind == Kind.HELLO:
            answer = replace(answer, payload=Welcome(self.roll).to_bytes())
        return answer.to_bytes()

    def told(self, ask):
        payload = write_ids(np.array(self.leaving, np.int64))
        return ask.answer(Kind.PRESENT, tuple(self.present), payload)

    @property
    def kinds(self):
        return [ask.kind for ask in self.asks]


class Wide:
    """Client c sends the model plus c."""

    memory = np.zeros((10, 0), np.float32)

    def collect(self, ask, clients):
        rows = np.stack([ask.params + np.float32(c) for c in clients])
        return Answers(clients, Cohort(clients, rows, np.full(len(clients), 2.0)), None)


class Noting(Flower):
    def on_failure(self, *given):
        self.here.told.append(given)

    def on_leaving(self, node, clients):
        self.here.left.append((node, clients.tolist()))


class Here:
    """Two gateways of four clients, and a node of two."""

    def __init__(self, **changes):
        self.agreement = agreed(**{"asked": 10, "rounds": 99, **changes})
        self.nodes = {id: Node(self.agreement, own, id != NODE) for id, own in SEATS.items()}
        self.told, self.left, self.now = [], [], 1000.0
        grid = InProcessGrid({id: node.answer for id, node in self.nodes.items()})
        self.engine = Noting(
            grid, self.agreement, Members(SEATS), deadline=30.0, message=grid.create_message
        )
        self.engine.here = self

    def there(self, without=()):
        self.engine.present.clear()  # as after a second
        return self.engine.there(np.array(without, np.int64)).tolist()

    def round(self, t, clients=None):
        self.engine.present.clear()
        clients = np.arange(10) if clients is None else np.array(clients)
        got = self.engine.collect(Ask(PARAMS, t, self.agreement.asked), clients)
        return got.asked.tolist(), got.arrived.clients.tolist()


def test_the_answer_to_a_roll_is_used_for_a_second(monkeypatch):
    here, now = Here(), [1000.0]
    monkeypatch.setattr(exchange.time, "monotonic", lambda: now[0])
    for _ in range(3):
        here.engine.there(NOBODY)
    assert here.nodes[GATEWAY].kinds.count(Kind.ROLL) == 1
    now[0] += exchange.FRESH
    here.engine.there(NOBODY)
    assert here.nodes[GATEWAY].kinds.count(Kind.ROLL) == 2


def test_a_gateway_that_needs_another_hello_misses_no_round():
    """It was restarted with another state folder."""
    here = Here()
    gateway = here.nodes[GATEWAY]
    assert here.round(0) == (list(range(10)), list(range(10)))
    gateway.asks = []

    def answer(text):
        ask = Frame.from_bytes(text)
        if gateway.asks or ask.kind == Kind.HELLO:
            return gateway.answer(text)
        gateway.asks.append(ask)
        return ask.answer(Kind.REFUSED, (), refusal("hello", "no HELLO yet")).to_bytes()

    here.engine.grid.nodes[GATEWAY] = answer
    assert here.round(1) == (list(range(10)), list(range(10)))
    assert gateway.kinds == [Kind.ROLL, Kind.HELLO, Kind.ROLL, Kind.LEARN]
    assert not here.engine.failures


def test_only_those_who_can_be_reached_are_asked():
    here = Here()
    here.nodes[GATEWAY].present = [0, 2]
    assert here.round(0) == ([0, 2, 4, 5, 6, 7, 8, 9],) * 2
    asked = [ask.clients for ask in here.nodes[GATEWAY].asks if ask.kind == Kind.LEARN]
    assert asked == [(0, 2)]
    here.nodes[GATEWAY].present = []
    assert here.round(1)[0] == [4, 5, 6, 7, 8, 9]
    assert here.nodes[GATEWAY].kinds.count(Kind.LEARN) == 1


def test_rounds_wait_until_enough_can_be_reached():
    here, waits = Here(fewest=5), []
    for id in (GATEWAY, OTHER):
        here.nodes[id].present = []

    def waiting(clients):
        waits.append(clients)
        here.nodes[OTHER].present = [4, 5, 6]

    here.engine.on_wait = waiting
    assert here.there() == [4, 5, 6, 8, 9] and waits == [2]
    here.nodes[OTHER].present = []
    here.engine.on_wait = lambda clients: here.engine.stopping.set()
    with pytest.raises(Interrupted):
        here.there()


def test_a_gateway_cannot_name_clients_of_others():
    """In what it says about who is there, and about who wants to leave."""
    here = Here()
    liar = here.nodes[OTHER]
    here.nodes[GATEWAY].present = [0]
    liar.present, liar.leaving = [1, 2, 4, 7, 8, 9, 2**32 - 1], [0, 3, 6, 9, 99]
    assert here.there() == [0, 4, 7, 8, 9]
    assert here.left == [(OTHER, [6])]
    assert here.round(0)[0] == [0, 4, 7, 8, 9]
    assert all(set(ask.clients) <= {4, 7} for ask in liar.asks if ask.kind == Kind.LEARN)


@pytest.mark.parametrize(
    "lie",
    [
        lambda ask: ask.answer(Kind.PRESENT, (4, 5), b"garbage"),
        lambda ask: ask.answer(Kind.PRESENT, (4, 5), b""),
        lambda ask: ask.answer(Kind.WELCOME, (4, 5), b"l"),
        lambda ask: replace(ask.answer(Kind.PRESENT, (4, 5), b"l"), nonce=bytes(16)),
        lambda ask: ask.answer(Kind.REFUSED, (), refusal("kind", "what is a roll?")),
    ],
)
def test_a_gateway_that_does_not_say_who_is_there_is_asked_for_nobody(lie):
    here = Here()
    here.nodes[OTHER].told = lie
    assert here.there() == [0, 1, 2, 3, 8, 9]
    assert here.told and here.told[0][0] == OTHER
    assert here.round(0)[1] == [0, 1, 2, 3, 8, 9]


def test_a_roll_names_the_clients_that_want_to_be_forgotten():
    here = Here()
    here.nodes[GATEWAY].leaving, here.nodes[GATEWAY].present = [1, 2], [0, 3]
    here.there()
    assert here.left == [(GATEWAY, [1, 2])]


def test_of_two_gateways_with_one_client_the_first_is_asked():
    """A roster cannot give a client to two nodes; two connections of one node could."""
    here = Here()
    here.engine.reachable = lambda: {GATEWAY: range(4), OTHER: range(2, 8)}
    here.nodes[OTHER].participant.clients = range(2, 8)
    here.nodes[OTHER].present = list(range(2, 8))
    asked, arrived = here.round(0, range(8))
    assert asked == arrived == list(range(8))
    mine = [ask.clients for ask in here.nodes[OTHER].asks if ask.kind == Kind.LEARN]
    assert mine == [(4, 5, 6, 7)]


def test_a_farewell_names_single_clients():
    here = Here()
    here.there()
    here.nodes[GATEWAY].participant.forget_me()
    assert here.engine.farewell(GATEWAY, [1, 3]) is True
    assert here.nodes[GATEWAY].asks[-1].clients == (1, 3)
    assert here.engine.farewell(OTHER, [5]) is False, "nobody of it has asked"


@pytest.mark.parametrize(
    ("version", "told"), [(1, "the other foltr is older"), (3, "this foltr is older")]
)
def test_a_node_of_another_version_is_told_and_not_asked(version, told):
    here = Here()
    node = here.nodes[OTHER]

    def answer(text):
        frame = node.answer(text)
        return frame[:2] + bytes([version]) + frame[3:]

    here.engine.grid.nodes[OTHER] = answer
    assert here.there() == [0, 1, 2, 3, 8, 9]
    text = f"version {version} of the protocol, but this foltr speaks version 2: {told}: update it"
    assert here.told == [(OTHER, "malformed", text)]
    here.there()
    assert node.kinds == [Kind.HELLO], "it is asked again after a while"
