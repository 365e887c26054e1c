"""Clients that made no search in a round send nothing, and the round goes on without them."""

import numpy as np
import pytest

import foltr
from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.partitions.by_volume import ByVolume
from foltr.components.rankers.linear import Linear
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core import Ask
from foltr.core.system.process import Threads
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local


def engine_with(kind, learner, sessions):
    data = Synthetic(queries=20).load("train")
    partition = ByVolume(sessions=sessions)
    population = partition.population(data, Cascade(), 4, learner.sessions, 1)
    parts = learner, Linear(), population, 1, np.zeros((4, 0), np.float32)
    return Debug(*parts) if kind == "debug" else Local(*parts, threads=Threads(1))


@pytest.mark.parametrize("kind", ["debug", "local"])
@pytest.mark.parametrize("learner", [PDGD(), ES()], ids=["PDGD", "ES"])
def test_who_searched_sends_what_it_sends_alone(kind, learner):
    ask = Ask(np.zeros(Synthetic().load("train").width, np.float32), 3, 4)
    some = engine_with(kind, learner, (2, 0, 4, 0)).collect(ask, np.arange(4))
    alone = engine_with(kind, learner, (2, 2, 4, 4)).collect(ask, np.array([0, 2]))
    assert some.asked.tolist() == [0, 1, 2, 3]
    assert some.arrived.clients.tolist() == [0, 2]
    assert some.arrived.weights.tolist() == [2.0, 4.0]
    assert some.arrived.updates.tobytes() == alone.arrived.updates.tobytes()
    assert some.observed.ndcg.tolist() == alone.observed.ndcg.tolist()


@pytest.mark.parametrize("kind", ["debug", "local"])
def test_a_round_in_which_nobody_searched_changes_nothing(kind):
    ask = Ask(np.zeros(Synthetic().load("train").width, np.float32), 0, 2)
    answers = engine_with(kind, PDGD(), (0, 0, 1, 1)).collect(ask, np.array([0, 1]))
    assert answers.asked.tolist() == [0, 1] and len(answers.arrived) == 0


def test_a_run_with_clients_that_do_not_search(tmp_path):
    common = dict(data="Synthetic(queries=20)", clients=4, rounds=6, participation=0.5)
    made = foltr.Experiment(partition="ByVolume(sessions=(0, 3, 0, 0))", **common)
    result = made.run(out=tmp_path)
    other = foltr.Experiment(partition="ByVolume(sessions=(0, 3, 0, 0))", **common)
    plain = other.run(out=tmp_path / "debug", engine="debug")
    made = result.metrics.online["interactions"]
    assert made == plain.metrics.online["interactions"]
    assert 0.0 < sum(made) < 18.0 and set(made) == {0.0, 3.0}
