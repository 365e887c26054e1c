"""The bytes of a round, against the frames that a server and its devices really exchange."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from federation_in_process import InProcessGrid
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core import Answers, Ask, Cohort
from foltr.core.scoring import numbered
from foltr.core.seeds import stream
from foltr.deployment.gateway.signing import SIGNATURE
from foltr.deployment.planning import traffic
from foltr.deployment.planning.traffic import Bytes, Traffic, example_message
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.frames import ALL_CLIENTS, Frame, Kind
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.deployment.protocol.sums import SumParticipant
from foltr.secure_sum import client, server
from foltr.secure_sum.in_process import secure_sum
from foltr.secure_sum.terms import Terms, degree_and_quorum


class Repeating:
    """An engine whose clients all send the same message."""

    def __init__(self, message, weight):
        self.message, self.weight, self.memory = message, weight, np.empty((20, 0), np.float32)

    def collect(self, ask, clients):
        n = len(clients)
        rows = Cohort(clients, np.tile(self.message, (n, 1)), np.full(n, self.weight))
        return Answers(clients, rows, None)


def exchanged(agreed, sizes):
    """The bytes of all asks and answers of one round, node by node: nodes with so many clients."""
    message, weight = example_message(agreed.learner, agreed.ranker, len(agreed.features))
    seen, nodes, ranges, start = [], {}, {}, 0
    for number, many in enumerate(sizes):
        own = range(start, start + many)
        device = Participant(
            agreed,
            own,
            lambda _: Repeating(message, weight),
            Records(None, agreed.id),
            offset=start,
        )
        if agreed.protocol is not None:
            device.sums = SumParticipant(agreed.protocol, agreed.fewest)

        def answer(text, device=device, many=many):
            made = device.answer(text)
            if Frame.from_bytes(text).kind != Kind.HELLO:
                seen.append((many, Bytes(len(text), len(made))))
            return made

        nodes[10 + number], ranges[10 + number], start = answer, own, start + many
    grid = InProcessGrid(nodes)
    engine = Flower(grid, agreed, Members(ranges), message=grid.create_message)
    ask = Ask(np.zeros(agreed.parameters, np.float32), 0, agreed.asked)
    arrived = engine.collect(ask, np.arange(start)).arrived
    assert len(arrived) and not engine.failures
    return seen


def agreed_of(n, ranker, learner, channel=None):
    fewest = 1 if channel is None else channel.fewest(n)
    return Agreement(ranker, learner, numbered(5), n, fewest, learner.sessions, 9, channel=channel)


def traffic_of(agreed, degree=0):
    words = len(example_message(agreed.learner, agreed.ranker, 5)[0])
    return Traffic(agreed.asked, agreed.asked, agreed.parameters, words, degree)


@pytest.mark.parametrize(
    ("ranker", "learner"),
    [(Linear(), PDGD()), (MLP(hidden=3), PDGD()), (Linear(), ES()), (MLP(), ES(antithetic=False))],
    ids=("linear", "MLP", "ES", "one-sided ES"),
)
def test_a_plain_round_has_these_bytes(ranker, learner):
    agreed = agreed_of(7, ranker, learner)
    for many, frames in exchanged(agreed, (1, 4, 2)):
        assert [frames] == traffic_of(agreed).steps(many)


@pytest.mark.parametrize("ranker", [Linear(), MLP(hidden=3)], ids=("linear", "MLP"))
def test_a_secure_sum_has_these_bytes(ranker):
    agreed = agreed_of(12, ranker, PDGD(), SecureSum())
    seen = exchanged(agreed, (1, 8, 3))
    for many in (1, 8, 3):
        steps = [frames for each, frames in seen if each == many]
        assert steps == traffic_of(agreed, degree=11).steps(many)


def test_messages_on_a_ring_have_these_bytes(monkeypatch):
    """A ring has fewer neighbours than there are clients."""
    n, d = 140, 3
    degree, _ = degree_and_quorum(n, 94, False)
    assert degree < n - 1
    model, sizes = np.zeros(d, np.float32), {}
    for module in (client, server):
        packing = module.pack

        def pack(terms, kind, *rest, packing=packing):
            text = packing(terms, kind, *rest)
            sizes.setdefault(kind.name, set()).add(len(text))
            return text

        monkeypatch.setattr(module, "pack", pack)
    terms = Terms.of(n, 1 + d, 94, model, seed=1)
    secure_sum(terms, {i: stream(0, i).words(1 + d) for i in range(n)}, model)
    expected = Traffic(n, n, d, d, degree)._messages
    up = [{message.up} for message in expected]
    down = [{message.down} for message in expected[1:]]
    assert [sizes[name] for name in ("KEYS", "SHARES", "MASKED", "UNMASK")] == up
    assert [sizes[name] for name in ("ROSTER", "DELIVERY", "SURVIVORS")] == down


def test_constants_of_other_modules_are_repeated_correctly():
    """They are repeated because those modules need packages that a plan does not need."""
    assert (traffic.CARD, traffic.SEALED) == (client.CARD, client.SEALED)
    assert (traffic.OWN, traffic.ENTRY) == (server.OWN, server.ENTRY)
    assert traffic.SIGNATURE == SIGNATURE


def test_a_device_signs_every_answer():
    plain = Traffic(10, 100, 46, 46)
    (step,) = plain.steps()
    assert plain.of_device() == step + Bytes(0, 64)
    assert plain.of_device() == Bytes(124 + 4 + 12 + 4 * 46, 124 + 4 + 5 + 8 + 4 * 46 + 64)


def test_a_list_of_clients_is_as_short_as_possible():
    few, many = (Traffic(n, ALL_CLIENTS, 1, 1, 10).steps()[0].down for n in (100, 10**6))
    assert many - few == 4 + ALL_CLIENTS // 8 - 400  # bits instead of numbers
