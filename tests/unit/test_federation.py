"""Rounds: of which few clients, or none, answer; in which messages are lost; with a client of the
server's own."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import foltr.runs.train
from foltr.components.aggregators.mean import Mean
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Ask, Cohort
from foltr.experiment import Experiment
from foltr.federation import Delivery, Observed, Server, federate
from foltr.runs.folder import Metrics
from foltr.spec import channels
from threshold_channel import AllOrNothing


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


def test_the_servers_own_client_is_kept_apart():
    cohort = Cohort(np.arange(3), np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3))
    delivery = Delivery(host=2)
    np.testing.assert_array_equal(delivery.asked(np.array([0, 1])), [0, 1, 2])
    seen = Observed(np.array([0.1, 0.2, 0.9]), np.array([0.3, 0.4, 0.8]))
    answers = delivery.without_host(Answers(cohort.clients, cohort, seen))
    sent, observed = answers.arrived, answers.observed
    np.testing.assert_array_equal(answers.asked, [0, 1])
    np.testing.assert_array_equal(sent.clients, [0, 1])
    np.testing.assert_array_equal(sent.trusted, [4, 5])
    np.testing.assert_array_equal(observed.ndcg, [0.1, 0.2])


SMALL = {"data": "Synthetic(queries=20)", "clients": 30, "rounds": 4, "evaluate_every": 4}


@pytest.fixture
def all_or_nothing():
    channels.register(AllOrNothing)
    yield
    channels.forget(AllOrNothing.__module__)


def test_lost_messages_lose_updates_not_searches():
    whole, lossy = Experiment(**SMALL).run(), Experiment(**SMALL, dropout=0.5).run()
    assert whole.final["interactions"] == lossy.final["interactions"]
    assert not np.allclose(whole.params, lossy.params)
    assert not lossy.final["notes"]


def test_a_round_below_the_threshold_is_withheld_and_counted(all_or_nothing):
    e = Experiment(**{**SMALL, "rounds": 40}, channel="AllOrNothing(least=24)", dropout=0.2)
    result = e.run()
    (note,) = result.final["notes"]
    assert 1 <= int(note.split(" arrived in ")[1].split()[0]) <= 39 and "of 40 rounds" in note
    assert result.params.any()


def test_all_messages_lost():
    e = Experiment(**{**SMALL, "clients": 1}, dropout=0.999999)
    result = e.run()
    assert not result.params.any() and "4 of 4 rounds" in result.final["notes"][0]


def test_withheld_rounds_survive_a_resume(all_or_nothing, tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.runs.train, "CHECKPOINT_SECONDS", 0.0)
    e = Experiment(**{**SMALL, "rounds": 30}, channel="AllOrNothing(least=24)", dropout=0.2)

    class Killed(BaseException):
        pass

    def kill(progress):
        if progress.t == 20:
            raise Killed

    with pytest.raises(Killed):
        e.run(tmp_path, watch=kill)
    assert e.run().final["notes"] == e.run(tmp_path).final["notes"]
