"""A node that is killed costs one deadline, and is asked again when it is back."""

import numpy as np
import pytest
from small_federation import PARAMS, agreed, participant_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from flwr.app import Error, Message

from federation_in_process import InProcessGrid
from foltr.core import Ask
from foltr.deployment.protocol import exchange
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.frames import Frame, Kind
from foltr.deployment.protocol.messages import AWAY, EXPIRED

AGREED = agreed(asked=3, fewest=1, rounds=99)
NEVER = object()  # the answer of a node that was killed
OF_NODES = {10 + i: range(i, i + 1) for i in range(3)}


class Federation:
    """Three nodes of a client each; asks to those in `killed` are never answered, or get one of
    Flower's own errors."""

    def __init__(self, code=None, deadline=30.0):
        self.killed, self.code, self.asked = set(), code, []
        participants = {
            node: participant_of(AGREED, clients=own) for node, own in OF_NODES.items()
        }
        self.grid = InProcessGrid(
            {node: self.answers(node, d) for node, d in participants.items()}
        )
        reply, pull = self.grid._reply, self.grid.pull_messages
        self.grid._reply = lambda ask: self.error(ask) or reply(ask)
        self.grid.pull_messages = lambda ids: [m for m in pull(ids) if m is not NEVER]
        parts = self.grid, AGREED, Members(OF_NODES)
        self.engine = Flower(*parts, deadline=deadline, message=self.grid.create_message)

    def answers(self, node, participant):
        def answer(text):
            self.asked.append((node, Frame.from_bytes(text).kind))
            return participant.answer(text)

        return answer

    def error(self, ask):
        if ask.metadata.dst_node_id not in self.killed:
            return None
        if self.code is not None:
            return Message(Error(self.code, "away"), reply_to=ask)
        return NEVER

    def round(self, t):
        began = exchange.time.monotonic()
        got = self.engine.collect(Ask(PARAMS, t, 3), np.arange(3)).arrived
        return got.clients.tolist(), exchange.time.monotonic() - began


class Clock:
    """It passes only while somebody sleeps."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_a_node_that_is_killed_costs_one_deadline(monkeypatch):
    monkeypatch.setattr(exchange, "time", Clock())
    monkeypatch.setattr(exchange, "PROBE", 0.02)
    here = Federation(deadline=30.0)
    assert here.round(0)[0] == [0, 1, 2]
    here.killed.add(11)
    clients, seconds = here.round(1)
    assert clients == [0, 2] and seconds >= 30.0
    waited = []
    for t in range(2, 5):
        clients, seconds = here.round(t)
        assert clients == [0, 2]
        waited.append(seconds)
    assert max(waited) < 1.0
    here.killed.clear()
    here.asked.clear()
    assert here.round(5)[0] == [0, 1, 2]
    assert [kind for node, kind in here.asked if node == 11] == [Kind.HELLO, Kind.LEARN]
    assert not here.engine.silent and here.round(6)[0] == [0, 1, 2]


@pytest.mark.parametrize("code", [EXPIRED, AWAY])
def test_flowers_own_errors_tell_that_a_node_is_silent(code):
    here = Federation(code)
    here.killed.add(12)
    assert here.round(0)[0] == [0, 1]
    assert 12 in here.engine.silent and here.engine.failures == {"late": 1}
    assert 12 not in here.engine.refused  # which would leave it out for longer
    here.killed.clear()
    assert here.round(1)[0] == [0, 1, 2]


def test_a_node_that_fails_is_not_silent():
    here = Federation(2)
    here.round(0)
    here.killed.add(12)
    assert here.round(1)[0] == [0, 1] and not here.engine.silent
    here.killed.clear()
    assert here.round(2)[0] == [0, 1, 2]
