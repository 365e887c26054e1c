"""Noise of the operating system in an engine: everything but the noise is as in a simulation."""

import numpy as np
import pytest

from asking import collected
from foltr.core.seeds import SystemStream, stream
from foltr.core.system.process import Threads
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import Simulated, from_system
from foltr.simulation.runs.setup import population_of

DATA = "Synthetic(queries=20)"
UPDATES = (
    "Laplace(epsilon=10.0, clip=1.0)",
    "Gaussian(noise=1.0, clip=1.0)",
    "Gaussian(noise=1.0, clip=1.0, where='shares')",
    "GammaShares(epsilon=1.0, sensitivity=2.0)",
)
REWARDS = {"learner": "ES(sessions=2, levels=2)", "optimizer": "Adam(lr=0.001)"}


def cohort(name, noise, **changes):
    e = Experiment(**{"data": DATA, "clients": 30, **changes})
    data = e.data.load("train")
    params = e.ranker.init(data.width, stream(1, "init")).astype(np.float32)
    engine = Simulated(name, noise=noise)(e, population_of(e, data), params, Threads(1), 7)
    return collected(engine, params, 3, np.arange(30)), engine


@pytest.mark.parametrize("name", ["local", "debug"])
@pytest.mark.parametrize("privacy", UPDATES)
def test_only_the_noise_is_another(name, privacy):
    (simulated, seen), _ = cohort(name, "address", privacy=privacy)
    (one, also), engine = cohort(name, "system", privacy=privacy)
    (other, _), _ = cohort(name, "system", privacy=privacy)
    for messages in (one, other):
        assert messages.updates.dtype == np.float32
        assert (messages.updates != simulated.updates).any()
        np.testing.assert_array_equal(messages.weights, simulated.weights)
    assert (one.updates != other.updates).any()
    np.testing.assert_array_equal(seen.ndcg, also.ndcg)
    np.testing.assert_array_equal(seen.max_rr, also.max_rr)
    assert name == "debug" or engine.twin is not None  # only the noise is plain Python


@pytest.mark.parametrize("name", ["local", "debug"])
def test_without_a_privatizer_nothing_is_another(name):
    (simulated, _), _ = cohort(name, "address")
    (real, _), _ = cohort(name, "system")
    np.testing.assert_array_equal(simulated.updates, real.updates)


@pytest.mark.parametrize("name", ["local", "debug"])
def test_rewards_are_randomized_by_the_operating_system(name):
    """Kernels draw the noise of rewards by address: they are not used."""
    privacy = "RandomizedReward(p=0.6)"
    (simulated, _), _ = cohort(name, "address", **REWARDS, privacy=privacy)
    (one, _), engine = cohort(name, "system", **REWARDS, privacy=privacy)
    (other, _), _ = cohort(name, "system", **REWARDS, privacy=privacy)
    np.testing.assert_array_equal(one.updates[:, 0], simulated.updates[:, 0])  # seeds
    assert (one.updates != other.updates).any() and (one.updates != simulated.updates).any()
    assert name == "debug" or (engine.twin is None and "plain Python" in engine.notes[0])


def test_rewards_without_a_privatizer_keep_their_kernel():
    (simulated, _), _ = cohort("local", "address", **REWARDS)
    (real, _), engine = cohort("local", "system", **REWARDS)
    np.testing.assert_array_equal(simulated.updates, real.updates)
    assert engine.twin is not None


def test_every_client_has_a_stream_that_nobody_can_repeat():
    one, other = from_system(1), from_system(1)
    assert isinstance(one, SystemStream) and one.at(3) is one
    assert one.words(4).tolist() != other.words(4).tolist()
    assert len(one.words(0)) == 0
