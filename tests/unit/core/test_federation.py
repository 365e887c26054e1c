"""Rounds: of which few clients, or none, answer; in which messages are lost; with a client of the
server's own."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import foltr.simulation.runs.train
from foltr.components.aggregators.mean import Mean
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Ask, Cohort, Observed
from foltr.core.errors import Mistake
from foltr.core.federation import Delivery, Server, federate
from foltr.core.guards import check_answers
from foltr.core.kinds import Memoryless, PrivatizerDefaults
from foltr.core.metrics import online_performance
from foltr.core.seeds import stream
from foltr.core.spec import channels
from foltr.experiment import Experiment
from foltr.simulation.runs.columns import Metrics
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


def test_thresholds_go_by_who_was_to_be_asked_not_by_who_was_reached_or_answered():
    """Of ten a secure sum needs seven. Devices made a tenth of the noise each, so six messages do
    not carry what is guaranteed, even if only six devices could be reached."""
    assert SecureSum().fewest(10) == 7 and SecureSum().fewest(6) == 4
    few, _ = rounds(Reached(asked=10, answering=6), channel=SecureSum())
    reached, _ = rounds(Reached(asked=6, answering=6), channel=SecureSum())
    enough, _ = rounds(Reached(asked=10, answering=7), channel=SecureSum())
    assert few.withheld == reached.withheld == 3 and enough.withheld == 0
    np.testing.assert_allclose(enough.params, [3.0, 3.0], rtol=1e-6)


class Keeps(Memoryless):
    """A rule that keeps the cohorts it was given."""

    def __init__(self):
        self.given = []

    def combine(self, cohort):
        self.given.append(cohort)
        return np.zeros(2)


def answered(clients):
    """The rounds of a server with a client of its own, number 10, when these clients answer."""
    rule, clients = Keeps(), np.array(clients, np.int64)

    @dataclass
    class Some(Reached):
        def collect(self, ask, asked):
            assert list(asked) == [*range(10), 10] and ask.n == 10
            rows = np.stack([np.full(2, c, np.float32) for c in clients] or [np.empty(2)])
            sent = Cohort(clients, rows[: len(clients)], np.ones(len(clients)))
            return Answers(asked, sent, Observed(np.ones(len(clients)), np.ones(len(clients))))

    server = Server(PDGD(), rule, SGD())
    parts = server, Some(11, 11), server.init(np.zeros(2)), 1, lambda t: np.arange(10), 1
    done = federate(*parts, lambda *_: None, Delivery(host=10))
    return done, rule.given


def test_the_servers_own_client_is_known_by_its_id_and_not_by_its_place():
    for clients in ([3, 7, 10], [10, 3, 7], [3, 10, 7]):
        state, (cohort,) = answered(clients)
        assert cohort.clients.tolist() == [3, 7] and cohort.trusted.tolist() == [10.0, 10.0]
        assert cohort.updates[:, 0].tolist() == [3.0, 7.0] and state.withheld == 0


@pytest.mark.parametrize("clients", [[], [3, 7], [10]])
def test_without_clients_or_without_the_servers_own_one_nothing_is_learned(clients):
    state, given = answered(clients)
    assert state.t == state.withheld == 1 and not given


@pytest.mark.parametrize(
    ("clients", "wrong"), [([3, 11], r"\[11\] were not asked"), ([3, 3], "answers twice")]
)
def test_an_engine_cannot_answer_for_others_or_twice(clients, wrong):
    with pytest.raises(Mistake, match=wrong):
        answered(clients)


def test_an_engine_gives_a_row_and_a_weight_for_each_client():
    sent = Cohort(np.arange(3), np.ones((2, 4), np.float32), np.ones(3))
    with pytest.raises(Mistake, match=r"\(2, 4\) numbers and \(3,\) weights of \(3,\)"):
        check_answers(Answers(sent.clients, sent, None), sent.clients)


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ({"clients": [0, 1]}, "no arrays"),
        ({"clients": np.array([[0], [1]])}, r"of \(2, 1\) clients"),
        ({"weights": np.array([1.0, np.nan])}, "finite and > 0"),
        ({"weights": np.array([1.0, -1.0])}, "finite and > 0"),
    ],
)
def test_what_an_engine_cannot_mean_is_refused(parts, wrong):
    whole = {"clients": np.arange(2), "updates": np.ones((2, 4)), "weights": np.ones(2)}
    with pytest.raises(Mistake, match=wrong):
        check_answers(Answers(np.arange(2), Cohort(**whole | parts), None), np.arange(2))


def test_what_is_observed_is_of_those_who_answered():
    sent = Cohort(np.arange(2), np.ones((2, 4)), np.ones(2))
    answers = Answers(np.arange(3), sent, Observed(np.ones(3), np.ones(3)))
    with pytest.raises(Mistake, match="observed 3 and 3 clients, and 2 answered"):
        check_answers(answers, np.arange(3))


def test_a_channel_may_say_of_how_many_messages_it_is_the_mean():
    class Loses(AllOrNothing):
        def carry(self, cohort, ask, rng):
            return replace(super().carry(cohort, ask, rng), mean_of=2)

    sent = Cohort(np.arange(3), np.ones((3, 4), np.float32), np.ones(3))
    ask = Ask(np.zeros(4, np.float32), 0, 3)
    for channel, expected in ((AllOrNothing(least=1), 3), (Loses(least=1), 2)):
        got = Delivery(channel=channel).carried(sent, ask, stream(1))
        assert got.mean_of == got.sending(got.updates).mean_of == expected


def test_messages_are_clipped_on_arrival_and_a_mean_is_not_taken_for_a_message():
    """Also where a channel makes the mean of a single one."""
    given = []

    class Noisy(PrivatizerDefaults):
        def on_arrival(self, updates):
            given.append(updates)
            return updates

        def on_server(self, mean, n, rng):
            given.append(n)
            return mean

    server = Server(PDGD(), Mean(), SGD(), Noisy())
    for n, mean_of, expected in ((2, None, 2), (1, None, 1), (1, 1, 1), (1, 7, 7)):
        given.clear()
        rows = Cohort(np.arange(n), np.ones((n, 2)), np.ones(n), mean_of=mean_of)
        server.step(server.init(np.zeros(2)), rows, stream(1))
        assert given[-1] == expected and len(given) == (2 if mean_of is None else 1)


def test_a_round_without_searches_counts_nothing_online():
    assert online_performance(np.array([0.5, np.nan, 0.25]), gamma=0.5) == 0.5 + 0.25 * 0.25
    assert np.isnan(online_performance(np.array([np.nan])))


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
    slow = "rounds are made one by one: no compiled stretch of rounds for dropout"
    assert lossy.final["notes"] == [slow] and not whole.final["notes"]


def test_a_round_below_the_threshold_is_withheld_and_counted(all_or_nothing):
    e = Experiment(**{**SMALL, "rounds": 40}, channel="AllOrNothing(least=24)", dropout=0.2)
    result = e.run()
    _, note = result.final["notes"]
    assert 1 <= int(note.split(" arrived in ")[1].split()[0]) <= 39 and "of 40 rounds" in note
    assert result.params.any()


def test_all_messages_lost():
    e = Experiment(**{**SMALL, "clients": 1}, dropout=0.999999)
    result = e.run()
    assert not result.params.any() and "4 of 4 rounds" in result.final["notes"][-1]


def test_withheld_rounds_survive_a_resume(all_or_nothing, tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)
    e = Experiment(**{**SMALL, "rounds": 30}, channel="AllOrNothing(least=24)", dropout=0.2)

    class Killed(BaseException):
        pass

    def kill(progress):
        if progress.t == 20:
            raise Killed

    with pytest.raises(Killed):
        e.run(tmp_path, watch=kill)
    assert e.run().final["notes"] == e.run(tmp_path).final["notes"]


@dataclass
class Carrying:
    """An engine that has carried the messages itself: one row, the mean of `messages`."""

    messages: int
    row: np.ndarray = field(default_factory=lambda: np.ones((1, 2)))
    weight: float = 20.0
    memory: np.ndarray = field(default_factory=lambda: np.empty((10, 0), np.float32))
    notes: tuple[str, ...] = ()

    def collect(self, ask, clients):
        mean = Cohort(np.array([-1]), self.row, np.array([self.weight]), mean_of=self.messages)
        return Answers(clients, mean, None)


def test_a_mean_that_was_carried_is_used_as_it_is():
    """No attack, no loss and no second sum touches it."""

    def rewrite(cohort, ask, rng):
        raise AssertionError("it is no client's message")

    given = {"rewrite": rewrite, "dropout": 0.99, "channel": SecureSum()}
    state, metrics = rounds(Carrying(7), **given)
    assert state.withheld == 0 and metrics.online["interactions"] == [20.0] * 3
    np.testing.assert_allclose(state.params, [3.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        (Carrying(6), "6 of 10 messages"),
        (Carrying(0), "the mean of 0"),
        (Carrying(11), "the mean of 11"),
        (Carrying(7, np.ones((2, 2))), "not one row"),
        (Carrying(7, np.ones(2)), "not one row"),
        (Carrying(7, np.full((1, 2), np.nan)), "not finite"),
        (Carrying(7, weight=0.0), "finite and > 0"),
        (Carrying(7, weight=np.inf), "finite and > 0"),
    ],
)
def test_a_mean_that_may_not_be_released_or_is_none_is_refused(engine, told):
    with pytest.raises(Mistake, match=told):
        rounds(engine, channel=SecureSum())


def test_the_servers_noise_is_made_for_the_messages_of_a_carried_mean():
    seen = []

    class Noise(PrivatizerDefaults):
        def on_arrival(self, updates):
            raise AssertionError("a mean cannot be clipped")

        def on_server(self, mean, n, rng):
            seen.append(n)
            return mean

    server = Server(PDGD(), Mean(), SGD(), Noise())
    federate(
        server,
        Carrying(8),
        server.init(np.zeros(2)),
        2,
        lambda t: np.arange(10),
        1,
        lambda *_: None,
        Delivery(channel=SecureSum()),
    )
    assert seen == [8, 8]


def test_the_servers_draws_of_a_round_keep_their_addresses():
    """Stored runs depend on them: its noise is at address 0 below the round, the rule at 1."""
    drawn = []

    class Noise(PrivatizerDefaults):
        def on_server(self, mean, n, rng):
            drawn.append(rng.uniform())
            return mean

    class Draws(Keeps):
        def __call__(self, cohort, memory, rng):
            drawn.append(rng.uniform())
            return cohort.updates[0].astype(float), memory

    server = Server(PDGD(), Draws(), SGD(), Noise())
    cohort = Cohort(np.arange(2), np.ones((2, 2)), np.ones(2))
    server.step(server.init(np.zeros(2)), cohort, stream(5))
    assert drawn == [stream(5).at(0).uniform(), stream(5).at(1).uniform()]


def test_the_servers_own_client_is_kept_apart_where_nothing_is_observed():
    """As in a real federation, whose server sees no clicks."""
    cohort = Cohort(np.arange(3), np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(3))
    answers = Delivery(host=1).without_host(Answers(cohort.clients, cohort, None))
    assert answers.observed is None and answers.arrived.clients.tolist() == [0, 2]
    assert answers.arrived.trusted.tolist() == [2.0, 3.0]
