"""What must stay on a device: a learner gets it and returns it, the engine keeps it, a checkpoint holds it."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import foltr.running
from foltr.experiment import Experiment
from foltr.kinds import SendsUpdates
from foltr.learners.pdgd import PDGD
from foltr.running import Run
from foltr.spec import learners


@dataclass(frozen=True)
class Momentum(SendsUpdates):
    """PDGD whose clients add half of their last update: each remembers its own."""

    inner: PDGD = field(default_factory=PDGD)

    @property
    def sessions(self):
        return self.inner.sessions

    def remembered(self, params):
        return np.zeros(len(params), np.float32)

    def learn(self, ranker, params, memory, user, rng, t, tell):
        update, weight, _ = self.inner.learn(ranker, params, np.empty(0), user, rng, t, tell)
        update = update + np.float32(0.5) * memory
        return update, weight, update


@pytest.fixture
def experiment():
    registered = learners.register(Momentum)
    yield Experiment(data="Synthetic(queries=20)", learner=registered(), clients=5, participation=0.6, rounds=9)
    learners.forget(__name__)


class Killed(BaseException):
    pass


def test_memory_is_each_clients_own_and_survives_a_kill(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.running, "CHECKPOINT_SECONDS", 0.0)

    def kill(progress):
        if progress.t == 5:
            raise Killed

    whole = experiment.run()
    with pytest.raises(Killed):
        experiment.run(tmp_path, watch=kill)
    resumed = experiment.run(tmp_path)
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert resumed.final["notes"] == ["runs plainly: there is no compiled twin for Momentum, Linear, Cascade together"]


def test_memory_matters(experiment):
    """Else the test above would pass with memory thrown away."""
    plain = Experiment(data="Synthetic(queries=20)", clients=5, participation=0.6, rounds=9)
    assert not np.allclose(plain.run().params, experiment.run().params, atol=1e-3)


def test_who_does_not_take_part_keeps_what_it_had(experiment):
    run = Run(experiment, None, 1, "local", lambda progress: None)
    engine = run._engine(np.zeros(46))
    engine.collect(np.zeros(46, np.float32), 0, np.array([1, 3]))
    moved = np.abs(engine.memory).sum(axis=1) > 0
    assert moved.tolist() == [False, True, False, True, False]
