"""The rollback guard."""

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.core import Cohort
from foltr.core.seeds import stream
from foltr.deployment.server.forgetting import GuardedServer


def cohort(x):
    return Cohort(np.array([0]), np.array([[x]], np.float32), np.ones(1))


def test_a_model_that_is_worse_than_the_best_so_far_is_not_adopted():
    server = GuardedServer(
        PDGD(), Mean(), SGD(lr=1.0), measure=lambda params: float(params[0]), tolerance=0.2
    )
    state = server.init(np.zeros(1))
    path = []
    for step in (1.0, -0.15, -0.1, -0.04, 0.5):
        state = server.step(state, cohort(step), stream(1))
        path.append((round(float(state.params[0]), 6), bool(server.seen["refused"])))
    # .85 is within .2 of the best, 1; .75 is not; .81 is; small losses do not add up
    assert path == [(1.0, False), (0.85, False), (0.85, True), (0.81, False), (1.31, False)]
    assert state.t == 5


def test_without_held_out_queries_every_model_is_adopted():
    server = GuardedServer(PDGD(), Mean(), SGD(lr=1.0))
    state = server.step(server.init(np.zeros(1)), cohort(-9.0), stream(1))
    assert state.params.tolist() == [-9.0]
