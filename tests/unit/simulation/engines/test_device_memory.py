"""What must stay on a device: a learner gets it and returns it, the engine keeps it, a checkpoint
holds it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import foltr.simulation.runs.train
from asking import collected
from foltr.components.learners.pdgd import PDGD
from foltr.core import Learner
from foltr.core.kinds import SendsUpdates
from foltr.core.spec import learners
from foltr.core.system.process import Threads
from foltr.experiment import Experiment
from foltr.simulation.runs.setup import engine_of, population_of


@dataclass(frozen=True)
class Momentum(SendsUpdates):
    """PDGD whose clients add half of their last update: each remembers its own."""

    inner: Learner = field(default_factory=PDGD)

    @property
    def sessions(self):
        return self.inner.sessions

    def remembered(self, ranker, params):
        return np.zeros(len(params), np.float32)

    def learn(self, ranker, params, memory, user, rng, t, tell):
        update, weight, _ = self.inner.learn(ranker, params, np.empty(0), user, rng, t, tell)
        update = update + np.float32(0.5) * memory
        return update, weight, update


@pytest.fixture
def experiment():
    registered = learners.register(Momentum)
    yield Experiment(
        data="Synthetic(queries=20)", learner=registered(), clients=5, participation=0.6, rounds=9
    )
    learners.forget(__name__)


class Killed(BaseException):
    pass


def kill(progress):
    if progress.t >= 5:  # compiled rounds come in stretches
        raise Killed


@pytest.fixture
def saves_often(monkeypatch):
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)


def test_memory_is_each_clients_own_and_survives_a_kill(experiment, tmp_path, saves_often):
    whole = experiment.run()
    with pytest.raises(Killed):
        experiment.run(tmp_path, watch=kill)
    resumed = experiment.run(tmp_path)
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert resumed.final["notes"] == [
        "runs as plain Python: there is no compiled kernel for Momentum, Linear, Cascade together"
    ]


@pytest.mark.parametrize("learner", ["FedPer()", "Personal(pull=0.1)"])
def test_compiled_memory_survives_a_kill(learner, tmp_path, saves_often):
    fields = dict(
        data="Synthetic(queries=20)",
        clients=5,
        participation=0.6,
        rounds=9,
        ranker="MLP(hidden=4)",
    )
    experiment = Experiment(learner=learner, **fields)
    whole, forgetful = experiment.run(), Experiment(**fields).run()
    with pytest.raises(Killed):
        experiment.run(tmp_path, watch=kill)
    resumed = experiment.run(tmp_path)
    assert resumed.params.tobytes() == whole.params.tobytes() != forgetful.params.tobytes()
    assert not any("plain Python" in note for note in resumed.final["notes"])


def test_memory_matters(experiment):
    """Else the first test above would pass with memory thrown away."""
    plain = Experiment(data="Synthetic(queries=20)", clients=5, participation=0.6, rounds=9)
    assert not np.allclose(plain.run().params, experiment.run().params, atol=1e-3)


@pytest.mark.parametrize("learner", [None, "Personal()"])
def test_who_does_not_take_part_keeps_what_it_had(experiment, learner):
    if learner is not None:
        experiment = replace(experiment, learner=learner)
    population = population_of(experiment, experiment.data.load("train"))
    engine = engine_of(experiment, population, np.zeros(46), Threads(1), "local")
    collected(engine, np.zeros(46, np.float32), 0, np.array([1, 3]))
    moved = np.abs(engine.memory).sum(axis=1) > 0
    assert moved.tolist() == [False, True, False, True, False]
