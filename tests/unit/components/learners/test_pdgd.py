"""PDGD: which fields it refuses, and the ball that its weights are scaled into."""

import numpy as np
import pytest

from foltr.components.learners.pdgd import PDGD, Local
from foltr.components.rankers.linear import Linear
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.stepwise import Start


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"lr": 0.0}, "lr must be > 0"),
        ({"sessions": 0}, "sessions must be in 1"),
        ({"sessions": 10**9 + 1}, "sessions must be in 1"),
        ({"k": 0}, "k must be in 1"),
        ({"k": 101}, "k must be in 1"),
        ({"decay": 0.0}, "decay must be in"),
        ({"decay": 1.001}, "decay must be in"),
        ({"max_norm": 0.0}, "max_norm must be > 0"),
        ({"mu": -0.001}, "mu must be >= 0"),
        ({"mu": 0.001, "update": "round"}, "mu has no effect"),
    ],
    ids=str,
)
def test_fields_just_out_of_range_are_refused(fields, told):
    with pytest.raises(Mistake, match=told):
        PDGD(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"sessions": 1},
        {"sessions": 10**9},
        {"k": 1},
        {"k": 100},
        {"decay": 1.0},
        {"mu": 0.0, "update": "round"},
        {"mu": 0.001},
    ],
    ids=str,
)
def test_the_ends_of_the_ranges_are_allowed(fields):
    learner = PDGD(**fields)
    assert {name: getattr(learner, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("length", "scaled"),
    [(5e29, [0.6, 0.8]), (5e30, [0.0, 0.0])],  # 1 / length is 2e-30, 2e-31
)
def test_weights_that_are_too_far_out_to_be_scaled_become_0(length, scaled):
    learner = PDGD(update="round", max_norm=1.0)
    params = np.zeros(2, np.float32)
    start = Start(Linear(), params, np.empty(0, np.float32), 1, stream(1), 0, lambda *_: None)
    weights = np.array([0.6 * length, 0.8 * length], np.float32)
    payload, _, _ = learner.finish(start, Local(weights, made=1))
    np.testing.assert_allclose(payload, scaled, rtol=1e-6)


def test_a_learner_that_is_restricted_without_a_ball_keeps_its_own():
    learner = PDGD(max_norm=2.0)
    assert learner.restricted(single_search=True) == PDGD(max_norm=2.0, explore=False, sessions=1)
    assert learner.restricted() == learner
    assert PDGD().restricted(ball=3.0) == PDGD(max_norm=3.0)


def test_the_defaults_are_those_of_stored_runs():
    """A change of one would change the identity of every run that leaves it out."""
    defaults = (
        "PDGD(lr=0.1, sessions=4, k=10, decay=1.0, pairs='examined', explore=True, max_norm=None,"
        " mu=0.0, update='session')"
    )
    assert repr(PDGD()) == defaults
