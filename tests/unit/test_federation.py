"""Rounds of which few clients, or none, answer."""

from dataclasses import dataclass, field

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Ask, Cohort
from foltr.federation import Delivery, Server, federate
from foltr.runs.folder import Metrics


@dataclass
class Reached:
    """An engine that reaches `asked` of the clients, of which `answering` answer with ones."""

    asked: int
    answering: int
    asks: list[Ask] = field(default_factory=list)
    memory: np.ndarray = field(default_factory=lambda: np.empty((10, 0), np.float32))
    notes: tuple[str, ...] = ()

    def collect(self, ask, clients):
        self.asks.append(ask)
        there = clients[: self.answering]
        sent = Cohort(there, np.ones((len(there), 2), np.float32), np.ones(len(there)))
        arrived = sent if len(there) else Cohort.empty(2)
        return Answers(clients[: self.asked], arrived, None)


def rounds(engine, **delivery):
    server, metrics = Server(PDGD(), Mean(), SGD()), Metrics()

    def record(state, sent, observed):
        metrics.add_round(sent, observed)

    start = server.init(np.zeros(2))
    done = federate(
        server, engine, start, 3, lambda t: np.arange(10), 1, record, Delivery(**delivery)
    )
    return done, metrics


def test_no_answers_are_a_round_without_learning():
    engine = Reached(asked=10, answering=0)
    state, metrics = rounds(engine, rewrite=lambda cohort, ask, rng: 1 / 0)
    assert state.t == state.withheld == 3 and not state.params.any()
    assert metrics.online["interactions"] == [0.0] * 3
    assert np.isnan(metrics.online["online_ndcg@10"]).all()
    assert [ask.n for ask in engine.asks] == [10] * 3 and [ask.t for ask in engine.asks] == [
        0,
        1,
        2,
    ]


def test_thresholds_go_by_who_was_asked_not_by_who_answered():
    """Of ten asked a secure sum needs seven; where only six were reached, four are enough."""
    assert SecureSum().fewest(10) == 7 and SecureSum().fewest(6) == 4
    few, _ = rounds(Reached(asked=10, answering=6), channel=SecureSum())
    enough, _ = rounds(Reached(asked=10, answering=7), channel=SecureSum())
    reached, _ = rounds(Reached(asked=6, answering=4), channel=SecureSum())
    assert few.withheld == 3 and enough.withheld == reached.withheld == 0
    np.testing.assert_allclose(enough.params, [3.0, 3.0], rtol=1e-6)
