"""From an experiment to its clients, those of the server included."""

from dataclasses import replace

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.system.process import Threads
from foltr.experiment import Experiment
from foltr.simulation.runs.setup import delivery_of, population_of, warmed_up

SMALL = Experiment(data="Synthetic(queries=30)", clients=6, rounds=4, learner="PDGD(sessions=3)")


def test_trusted_queries_become_the_servers_own_client():
    e = replace(SMALL, aggregator="FLTrust(queries=4)")
    data = e.data.load("train")
    p = population_of(e, data)
    assert p.clients == 6 and p.server_clients == 1 and delivery_of(e, p).host == 6
    rows, _, offsets = p.held(6)
    assert len(offsets) == 5 and set(offsets[:-1].tolist()) <= set(range(len(rows)))
    with pytest.raises(Mistake, match="FLTrust wants 500 trusted queries, and there are 30"):
        population_of(replace(e, aggregator="FLTrust(queries=500)"), data)


def test_noise_does_not_touch_what_the_server_learns_alone():
    shared = replace(SMALL, partition="Sharing(of=ByLabel(), share=0.3, warmup=20)")
    # a ball that nothing reaches
    private = replace(shared, privacy="GammaShares(epsilon=1.2, sensitivity=500)")
    data, params = shared.data.load("train"), np.zeros(shared.data.load("train").width)
    alone = [
        warmed_up(e, population_of(e, data), params, Threads(1), "local")
        for e in (shared, private)
    ]
    np.testing.assert_array_equal(*alone)
    assert np.abs(alone[0]).max() > 0


def test_equal_weights_are_those_of_clients_not_of_the_server():
    uneven = replace(
        SMALL,
        privacy="GammaShares(epsilon=1.2, sensitivity=3)",
        partition="ByVolume(sessions=(1, 5))",
    )
    with pytest.raises(Mistake, match="GammaShares needs equal weights"):
        population_of(uneven, uneven.data.load("train"))
    even = replace(uneven, partition="ByVolume(sessions=(5, 5), of=Sharing(of=ByLabel()))")
    # it searches 3 times, as the learner says
    assert population_of(even, even.data.load("train")).server_clients == 1
