"""What does not go together is refused when the experiment is built; and rounds in which messages
are lost."""

from dataclasses import dataclass

import numpy as np
import pytest

from foltr import Experiment
from foltr.components.learners.es import ES, read_messages
from foltr.core import Cohort, Withheld
from foltr.errors import Mistake
from foltr.kinds import Memoryless, SendsUpdates, Untouched
from foltr.runs.account import ledger_of
from foltr.runs.config import experiment
from foltr.spec import aggregators, channels, learners, privatizers

SMALL = {"data": "Synthetic(queries=20)", "clients": 30, "rounds": 4, "evaluate_every": 4}


@dataclass(frozen=True)
class FirstRow(Memoryless):
    """Looks at single updates."""

    def combine(self, cohort):
        return cohort.updates[0].astype(np.float64)


@dataclass(frozen=True)
class AllOrNothing:
    """A channel that releases the mean if at least `least` messages arrived."""

    least: int = 20

    step = 0.0

    def withstands(self, asked):
        return None

    def fewest(self, asked):
        return self.least

    def carry(self, cohort, ask, rng):
        if len(cohort) < self.least:
            raise Withheld
        return Cohort(
            np.array([-1]),
            cohort.updates.mean(axis=0, keepdims=True),
            cohort.weights.sum(keepdims=True),
        )


@pytest.fixture(autouse=True)
def registered():
    aggregators.register(FirstRow), channels.register(AllOrNothing)
    yield
    aggregators.forget(__name__), channels.forget(__name__)


GAMMA = "GammaShares(epsilon=1.2, sensitivity=3)"


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"privacy": "RandomizedReward(p=0.9)"}, "PDGD sends none"),
        ({"privacy": GAMMA, "learner": "ES()"}, "ES sends rewards"),
        ({"privacy": "RandomizedReward(p=0.09)", "learner": "ES()"}, "p must be above 1 / 11"),
        (
            {"privacy": "RandomizedReward(p=0.3)", "learner": "ES(levels=3)"},
            "p must be above 1 / 3",
        ),
        ({"privacy": "RandomizedReward(p=1.1)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "RandomizedReward(p=0)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "GammaShares(epsilon=0, sensitivity=3)"}, "epsilon must be > 0, got 0"),
        ({"privacy": "GammaShares(epsilon=1, sensitivity=-3)"}, "sensitivity must be > 0, got -3"),
        ({"privacy": "Laplace(epsilon=1, clip=0)"}, "clip must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=0, clip=1)"}, "noise must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=1, clip=1, where='sever')"}, "'sever' is none of"),
        ({"privacy": GAMMA, "learner": "PDGD(max_norm=3)"}, "max_norm=3.0 is not the ball of 1.5"),
        ({"privacy": GAMMA, "aggregator": "FirstRow()"}, "FirstRow looks at single updates"),
        (
            {"privacy": "Gaussian(noise=1, clip=1, where='server')", "aggregator": "FirstRow()"},
            "made for their mean",
        ),
        ({"channel": "AllOrNothing()", "aggregator": "FirstRow()"}, "which AllOrNothing hides"),
        ({"channel": "AllOrNothing()", "learner": "ES()"}, "whose sum means nothing"),
        ({"channel": "AllOrNothing()", "dropout": 0.5}, "about 15 of 30 messages arrive"),
        ({"channel": "AllOrNothing()", "participation": 0.5}, "no sum of fewer than 20"),
        ({"dropout": 1.0}, "dropout must be in"),
        (
            {"dropout": 0.8, "aggregator": "Krum(malicious=4)"},
            "about 6 of 30 messages arrive in a round, and that is too few (Krum",
        ),
        ({"baseline": "LeastSquares()", "privacy": GAMMA}, "sends nothing: leave out privacy"),
        ({"learner": "ES(sessions=3)"}, "even number of sessions, got 3"),
        ({"learner": "ES(sigma=0)"}, "sigma must be > 0"),
        ({"learner": "ES(levels=1)"}, "levels must be in 2 .. 10^6, got 1"),
        ({"learner": "ES(objective='dcg', k=20)"}, "give k <= 16"),
        ({"learner": "ES(objective='mrr')"}, "'mrr' is none of"),
        ({"learner": "FOLtRES()"}, "it is ES"),
        ({"baseline": "MSE()"}, "it is LeastSquares"),
    ],
)
def test_refused(fields, why):
    with pytest.raises(Mistake) as refused:
        Experiment(**{**SMALL, **fields})
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"privacy": "Laplace(epsilon=1, clip=1)", "aggregator": "FirstRow()"},
        {"privacy": GAMMA, "learner": "PDGD(max_norm=1.5)"},
        {"privacy": GAMMA, "channel": "AllOrNothing()"},
        {"privacy": "none", "channel": "none", "dropout": "none"},
    ],
)
def test_allowed(fields):
    e = Experiment(**{**SMALL, **fields})
    assert Experiment(**e.config()) == e
    assert e.run().final["rounds"] == 4


def test_the_ball_is_the_learners():
    e = Experiment(**SMALL, privacy=GAMMA)
    assert e.learner.max_norm is None and e.device_learner.max_norm == 1.5
    full = Experiment(**SMALL, privacy=GAMMA.replace(")", ", clip='full')"))
    assert full.device_learner.max_norm == 3.0


def test_parts_that_are_not_there_leave_no_trace_in_the_config():
    """So that runs made before these parts existed keep their identity."""
    assert not {"privacy", "channel", "baseline", "dropout"} & set(Experiment(**SMALL).config())


def test_lost_messages_lose_updates_not_searches():
    whole, lossy = Experiment(**SMALL).run(), Experiment(**SMALL, dropout=0.5).run()
    assert whole.final["interactions"] == lossy.final["interactions"]
    assert not np.allclose(whole.params, lossy.params)
    assert not lossy.final["notes"]


def test_a_round_below_the_threshold_is_withheld_and_counted():
    e = Experiment(**{**SMALL, "rounds": 40}, channel="AllOrNothing(least=24)", dropout=0.2)
    result = e.run()
    (note,) = result.final["notes"]
    assert 1 <= int(note.split(" arrived in ")[1].split()[0]) <= 39 and "of 40 rounds" in note
    assert result.params.any()


def test_all_messages_lost():
    e = Experiment(**{**SMALL, "clients": 1}, dropout=0.999999)
    result = e.run()
    assert not result.params.any() and "4 of 4 rounds" in result.final["notes"][0]


def test_withheld_rounds_survive_a_resume(tmp_path, monkeypatch):
    import foltr.runs.train

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


@pytest.mark.parametrize(
    "payloads",
    [np.zeros((2, 3), np.float32), np.zeros(3, np.uint32), np.zeros((2, 4), np.uint32),
     np.array([[1, 0x7FC00000, 0]], np.uint32), np.array([[1, 0x7F800000, 0]], np.uint32)],
)  # fmt: skip
def test_messages_that_no_client_sends(payloads):
    with pytest.raises(Mistake):
        read_messages(payloads)


def test_an_uneven_number_of_sessions_is_refused_where_a_partition_sets_it():
    with pytest.raises(Mistake, match="got 5"):
        ES().check_halves(5)


@dataclass(frozen=True)
class Odd(Untouched):
    """A privatizer that does one thing wrong."""

    how: str = "fine"

    def on_client(self, payload, n, rng):
        wrong = {
            "scalar": np.float32(1),
            "one": payload[:1],
            "double": payload.astype(float),
            "rows": payload[None],
        }
        return wrong.get(self.how, payload)

    def on_server(self, direction, n, rng):
        return np.ones(1) if self.how == "server" else direction

    def events(self, setting):
        return {"text": ("bla",), "nothing": None}.get(self.how, ())

    def nominal(self):
        return "nothing"


@dataclass(frozen=True)
class Twice(SendsUpdates):
    """A learner that tells more than it declares."""

    how: str = "often"
    sessions: int = 2
    reward_levels = 3

    def learn(self, ranker, params, memory, user, rng, t, tell):
        for s in range(user.sessions):
            user.session(lambda docs: np.arange(min(10, len(docs))))
            tell(7 if self.how == "range" else 0, 1000 if self.how == "many" else 3, s)
            if self.how == "often":
                tell(0, 3, s)
        return np.zeros(len(params), np.float32), 2.0, memory


@pytest.fixture
def wrong_ones(registered):
    privatizers.register(Odd), learners.register(Twice)
    yield
    privatizers.forget(__name__), learners.forget(__name__)


@pytest.mark.parametrize("engine", ["local", "debug"])
@pytest.mark.parametrize("how", ["scalar", "one", "double", "rows", "server"])
def test_what_a_privatizer_gives_is_looked_at(wrong_ones, how, engine):
    with pytest.raises(Mistake, match="Odd"):
        Experiment(**SMALL, privacy=f"Odd(how={how!r})").run(engine=engine)


@pytest.mark.parametrize("how", ["text", "nothing"])
def test_events_that_nobody_knows_are_refused(wrong_ones, how):
    with pytest.raises(Mistake):
        Experiment(**SMALL, privacy=f"Odd(how={how!r})")


@pytest.mark.parametrize(
    "how, why",
    [("often", "twice"), ("many", "one of 1000 rewards, declared 3"), ("range", "reward 7")],
)
def test_a_learner_tells_what_it_declared(wrong_ones, how, why):
    e = Experiment(**SMALL, learner=f"Twice(how={how!r})", privacy="RandomizedReward(p=0.6)")
    with pytest.raises(Mistake, match=why):
        e.run()


def test_a_step_that_would_round_the_noise_away_is_refused():
    fields = {**SMALL, "privacy": "Gaussian(noise=5, clip=0.2, where='shares')"}
    with pytest.raises(
        Mistake, match="which would round away some of their noise: give it finer ones"
    ):
        Experiment(**fields, channel="SecureSum(fraction_bits=4)")
    Experiment(**fields, channel="SecureSum()")


@pytest.mark.parametrize(
    "privacy",
    [
        "Laplace(epsilon=1e-300, clip=1e10)",
        "Gaussian(noise=1e200, clip=1e200)",
        "Laplace(epsilon=1, clip=1e31)",
        "GammaShares(epsilon=1e-31, sensitivity=3)",
    ],
)
def test_noise_that_no_device_can_hold(privacy):
    with pytest.raises(Mistake, match="to fit into float32"):
        Experiment(**SMALL, privacy=privacy)


def test_fields_of_a_component_are_judged_together():
    made = experiment({"learner": "ES()", "learner.sessions": 3, "learner.antithetic": False})
    assert made.learner == ES(sessions=3, antithetic=False)
    made = experiment({"learner": "ES()", "privacy": "RandomizedReward(p=0.08)", "learner.k": 30})
    assert made.learner.reward_levels == 31
    made = experiment({"channel": "SecureSum()", "dropout": 0.4, "channel.threshold": 0.55})
    assert made.channel.threshold == 0.55
    with pytest.raises(Mistake, match="no privacy is set: give privacy as a whole first"):
        experiment({"privacy.epsilon": 3})
    with pytest.raises(Mistake, match="did you mean 'sessions'"):
        experiment({"learner.sesions": 3})


@pytest.mark.parametrize("dropout", [0.1, 0.2, 0.3, 0.32, 0.45])
def test_a_threshold_that_is_just_met(dropout):
    """0.7 x 90 is not 63 in floating point: no experiment may fail for that."""
    exact = [n for n in range(10, 400, 10) if round((1 - dropout) * n, 6) % 1 == 0]
    assert len(exact) >= 7
    for n in exact:
        e = Experiment(
            **{**SMALL, "clients": n},
            channel=f"SecureSum(threshold={1 - dropout})",
            dropout=dropout,
        )
        assert e.channel.fewest(n) == round((1 - dropout) * n)


@pytest.mark.parametrize("clients, channel, most", [
    (10, "SecureSum()", 6), (128, "SecureSum()", 85), (1000, "SecureSum()", 200),
    (1000, "SecureSum(consistency=True)", 666), (1000, "SecureSum(threshold=0.9)", 200),
])  # fmt: skip
def test_more_colluding_clients_than_a_channel_withstands_are_promised_nothing(
    clients, channel, most
):
    fields = {
        **SMALL,
        "clients": clients,
        "privacy": "Gaussian(noise=20, clip=0.1, where='shares')",
    }
    e = Experiment(**fields, channel=channel)
    assert ledger_of(e, 46, colluding=most).guarantee("server", "round").epsilon < 10.0
    with pytest.raises(Mistake, match=f"which withstands {most}"):
        ledger_of(e, 46, colluding=most + 1)


def test_a_channel_that_hides_nothing_is_no_secure_sum():
    e = Experiment(**SMALL, privacy=GAMMA, channel="AllOrNothing()")
    assert ledger_of(e, 46).guarantee("server", "round").epsilon == float("inf")
