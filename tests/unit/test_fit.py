"""What does not go together is refused when the experiment is built; and rounds in which messages are lost."""

from dataclasses import dataclass

import numpy as np
import pytest

from foltr import Experiment
from foltr.core import Cohort, Withheld
from foltr.errors import Mistake
from foltr.kinds import Memoryless
from foltr.learners.es import ES, read_messages
from foltr.spec import aggregators, channels

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

    hides_messages = False

    def fewest(self, asked):
        return self.least

    def carry(self, cohort, asked, rng):
        if len(cohort) < self.least:
            raise Withheld
        return Cohort(np.array([-1]), cohort.updates.mean(axis=0, keepdims=True), cohort.weights.sum(keepdims=True))


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
        ({"privacy": GAMMA, "learner": "ES()"}, "ES sends rewards and a seed"),
        ({"privacy": "RandomizedReward(p=0.09)", "learner": "ES()"}, "p must be above 1 / 11"),
        ({"privacy": "RandomizedReward(p=0.3)", "learner": "ES(levels=3)"}, "p must be above 1 / 3"),
        ({"privacy": "RandomizedReward(p=1.1)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "RandomizedReward(p=0)", "learner": "ES()"}, "p is a probability"),
        ({"privacy": "GammaShares(epsilon=0, sensitivity=3)"}, "epsilon must be > 0, got 0"),
        ({"privacy": "GammaShares(epsilon=1, sensitivity=-3)"}, "sensitivity must be > 0, got -3"),
        ({"privacy": "Laplace(epsilon=1, clip=0)"}, "clip must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=0, clip=1)"}, "noise must be > 0, got 0"),
        ({"privacy": "Gaussian(noise=1, clip=1, where='sever')"}, "'sever' is none of"),
        ({"privacy": GAMMA, "learner": "PDGD(max_norm=3)"}, "max_norm=3.0 is not the ball of 1.5"),
        ({"privacy": GAMMA, "aggregator": "FirstRow()"}, "FirstRow looks at single updates"),
        ({"privacy": "Gaussian(noise=1, clip=1, where='server')", "aggregator": "FirstRow()"}, "made for their mean"),
        ({"channel": "AllOrNothing()", "aggregator": "FirstRow()"}, "which AllOrNothing hides"),
        ({"channel": "AllOrNothing()", "learner": "ES()"}, "whose sum means nothing"),
        ({"channel": "AllOrNothing()", "dropout": 0.5}, "about 15 of 30 messages arrive"),
        ({"channel": "AllOrNothing()", "participation": 0.5}, "no sum of fewer than 20"),
        ({"dropout": 1.0}, "dropout must be in"),
        ({"baseline": "LeastSquares()", "privacy": GAMMA}, "sends nothing: leave out privacy"),
        ({"learner": "ES(sessions=3)"}, "even number of sessions, got 3"),
        ({"learner": "ES(sigma=0)"}, "sigma must be > 0"),
        ({"learner": "ES(levels=1)"}, "levels must be >= 2"),
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
    import foltr.running

    monkeypatch.setattr(foltr.running, "CHECKPOINT_SECONDS", 0.0)
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
        ES().even(5)
