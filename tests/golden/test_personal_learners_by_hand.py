"""What a client keeps and what it sends, in one round that a hand can work out.

Two documents of equal score, shown in the order 0, 1; the second is clicked. Both orders are
equally likely, so rho = 1/2, the pair weighs 1/2 x 1/4, and document 1 should rise by 1/8 as
document 0 should fall. With lr = 0.8 the step is 0.1 x (gradient of the score of document 1 - that
of document 0)."""

import numpy as np
import pytest

from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core.seeds import stream

STEP = PDGD(lr=0.8, sessions=1)


class SecondIsClicked:
    """Shows its own list whatever is asked for, as a log does."""

    def __init__(self, docs, sessions=1):
        self.docs, self.sessions = np.array(docs, np.float32), sessions

    def session(self, show):
        show(self.docs)
        return self.docs, np.array([0, 1]), np.array([False, True])


def learned(learner, ranker, params, memory, docs, sessions=1):
    params, memory = np.array(params, np.float32), np.array(memory, np.float32)
    user, rng = SecondIsClicked(docs, sessions), stream(1, "ranking")
    return learner.learn(ranker, params, memory, user, rng, 0, lambda which, values, s: which)


def test_a_residual_of_the_linear_ranker():
    """It starts from (1, 0) + (-1, 0) = 0, so that both scores are 0: u = 0.1 x ((0, 2) - (1,
    0))."""
    learner = Personal(learner=STEP, pull=0.25)
    sent, weight, kept = learned(learner, Linear(), [1, 0], [-1, 0], [[1, 0], [0, 2]])
    np.testing.assert_allclose(sent, [-0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(kept, [0.75 * -1.1, 0.75 * 0.2], rtol=1e-6)
    assert weight == 1.0
    np.testing.assert_array_equal(
        learner.personal(np.float32([1, 0]), np.float32([-1, 0])), [0, 0]
    )


def test_nothing_is_sent_of_a_head():
    """W = 1, b = 0 and ReLU give the hidden units (1, 0) and (0, 1); the head (3, -1) + (-2, 2) =
    (1, 1) scores both 1.

    Gradients of the scores: document 0 has W' = ((1, 0), (0, 0)), b' = (1, 0), v' = (1, 0),
    document 1 the others."""
    params, own = [1, 0, 0, 1, 0, 0, 3, -1], [-2, 2]
    ranker = MLP(hidden=2, activation="relu")
    sent, _, kept = learned(FedPer(learner=STEP), ranker, params, own, [[1, 0], [0, 1]])
    np.testing.assert_allclose(sent, [-0.1, 0, 0, 0.1, -0.1, 0.1, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(kept, [-2.1, 2.1], rtol=1e-6)


def test_a_whole_network_of_ones_own():
    """The same with a residual of all eight parameters: everything is sent, and a part of it
    kept."""
    own = np.array([0, 0, 0, 0, 0, 0, -2, 2])
    learner, ranker = Personal(learner=STEP, pull=0.5), MLP(hidden=2, activation="relu")
    sent, _, kept = learned(learner, ranker, [1, 0, 0, 1, 0, 0, 3, -1], own, [[1, 0], [0, 1]])
    update = np.array([-0.1, 0, 0, 0.1, -0.1, 0.1, -0.1, 0.1])
    np.testing.assert_allclose(sent, update, rtol=1e-6)
    np.testing.assert_allclose(kept, 0.5 * (own + update), rtol=1e-6)


def test_fedprox_pulls_back_to_where_the_client_began():
    """Not to the server's weights: those are (1, 0), the client begins with (0, 0) and has x =
    (-0.1, 0.2) after its first search. The second would change it by mu x lr x ((0, 0) - x) beside
    the step of its clicks."""
    one = [[1, 0], [0, 2]]
    free, pulled = (PDGD(lr=0.8, sessions=2, mu=mu) for mu in (0.0, 0.5))
    without, *_ = learned(Personal(learner=free), Linear(), [1, 0], [-1, 0], one, 2)
    sent, *_ = learned(Personal(learner=pulled), Linear(), [1, 0], [-1, 0], one, 2)
    np.testing.assert_allclose(sent - without, -0.5 * 0.8 * np.array([-0.1, 0.2]), rtol=1e-5)


@pytest.mark.parametrize("pull", [0.0, 0.3, 1.0])
def test_what_is_kept_after_many_equal_updates(pull, monkeypatch):
    """r' = (1 - pull) (r + u) goes to u (1 - pull) / pull; without a pull it grows by u each
    round."""
    kept, u = np.zeros(2, np.float32), np.float32([0.5, -1.0])
    monkeypatch.setattr(PDGD, "learn", lambda *given: (u, 1.0, np.empty(0)))
    for _ in range(60):
        kept = learned(Personal(pull=pull), Linear(), [1, 0], kept, [[1, 0], [0, 1]])[2]
    np.testing.assert_allclose(kept, 60 * u if pull == 0.0 else u * (1.0 - pull) / pull, rtol=1e-5)
