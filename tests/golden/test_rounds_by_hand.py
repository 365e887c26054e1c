"""The round: local steps, the server's mean and step, each against a loop that a hand could
walk."""

from typing import ClassVar

import numpy as np
import pytest

from asking import collected
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD, document_weights
from foltr.components.optimizers.adam import Adam
from foltr.components.optimizers.sgd import SGD
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core import Cohort
from foltr.core.federation import Server
from foltr.core.seeds import stream
from foltr.core.world.population import SimulatedUser, iid
from foltr.simulation.engines.debug import Debug

RNG = stream(1, "unused")


class Replayed:
    """A user with given documents and given clicks, who is shown what the learner wants to
    show."""

    def __init__(self, sessions: int) -> None:
        rng = np.random.default_rng(8)
        self.sessions = sessions
        self.documents = [rng.random((6, 4)).astype(np.float32) for _ in range(sessions)]
        self.clicks = [rng.random(5) < 0.4 for _ in range(sessions)]
        # a session without clicks teaches nothing, but it pulls and clips
        self.clicks[1][:] = False
        self.made = 0

    def session(self, show):
        docs, clicks = self.documents[self.made], self.clicks[self.made]
        self.made += 1
        return docs, show(docs), clicks


START = np.array([1.0, -0.5, 0.25, 2.0])


def by_hand(learner: PDGD, t: int) -> np.ndarray:
    """PDGD.learn in float64, on the best list, for the linear ranker."""
    user, local, total = Replayed(4), START.copy(), np.zeros(4)
    for s in range(4):
        docs, clicks = user.documents[s].astype(float), user.clicks[s]
        at = local if learner.update == "session" else START
        ranking = np.argsort(-(docs @ at))[:5]
        gradient = document_weights(docs @ at, ranking, clicks) @ docs
        total += gradient
        rate = learner.lr * learner.decay ** (4 * t + s)
        local = local + rate * (gradient - learner.mu * (local - START))
        norm = np.sqrt((local**2).sum())
        if learner.max_norm is not None and norm > learner.max_norm:
            local = local * learner.max_norm / norm
    if learner == PDGD(k=5, explore=False, update="round"):
        # FedSGD: one step along the sum
        np.testing.assert_allclose(local, START + learner.lr * total)
    return local - START


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mu": 0.7},
        {"max_norm": 1.5},
        {"max_norm": 5.0},
        {"decay": 0.8},
        {"update": "round"},
        {"lr": 0.9, "mu": 10.0},
    ],
    ids=str,
)
def test_local_steps(fields):
    learner = PDGD(k=5, explore=False, **fields)
    start = START.astype(np.float32)
    found, weight, memory = learner.learn(
        Linear(),
        start,
        np.empty(0, np.float32),
        Replayed(4),
        RNG,
        2,
        send_reward=lambda which, values, s: which,
    )
    np.testing.assert_allclose(found, by_hand(learner, t=2), rtol=1e-4, atol=2e-6)
    assert weight == 4.0 and memory.shape == (0,) and found.dtype == np.float32
    if learner.max_norm == 1.5:
        # the thesis' ball, Delta / 2 = 1.5
        assert np.linalg.norm(start + found) <= 1.5 * (1 + 1e-6)
    assert (start == START).all()  # what was broadcast is not written to


def test_the_mean_is_weighted_by_interactions():
    cohort = Cohort(
        np.arange(3), np.array([[1, 0], [4, 8], [-2, 2]], np.float32), np.array([1.0, 2.0, 5.0])
    )
    direction, memory = Mean()(cohort, (), RNG)
    assert direction.tolist() == [(1 + 8 - 10) / 8, (16 + 10) / 8] and memory == ()
    assert direction.dtype == np.float64


def test_the_mean_of_more_rows_than_it_takes_at_a_time():
    rng = np.random.default_rng(3)
    updates, weights = (
        rng.normal(size=(700, 1000)).astype(np.float32),
        rng.integers(1, 9, 700).astype(float),
    )
    found = Mean().combine(Cohort(np.arange(700), updates, weights))
    np.testing.assert_allclose(
        found, np.average(updates.astype(float), axis=0, weights=weights), rtol=1e-10, atol=1e-14
    )


def test_two_steps_of_adam():
    """Step 1: m/(1 - b1) = g and sqrt(v/(1 - b2)) = |g|, so every parameter moves by lr towards
    sign(g). Step 2, g = (2, 0): m = .9 x .2 + .1 x 2 = .38 of 1 - .81 = .19: 2; v = 4 (1 - b2^2)
    of 1 - b2^2: 4; lr once more. Second parameter: m = .9 x (-.1) = -.09 of .19, v = .999 x .001
    of 1 - .999^2 = .001999."""
    adam, params, memory = Adam(lr=0.5), np.zeros(2), Adam(lr=0.5).init(2)
    params, memory = adam(params, np.array([2.0, -1.0]), memory)
    np.testing.assert_allclose(params, [0.5, -0.5], rtol=1e-7)
    params, memory = adam(params, np.array([2.0, 0.0]), memory)
    second = -0.5 + 0.5 * (-0.09 / 0.19) / np.sqrt(0.999 * 0.001 / 0.001999)
    np.testing.assert_allclose(params, [1.0, second], rtol=1e-7)


def test_adam_as_published():
    """Kingma & Ba, algorithm 1, number by number; ascent, hence the plus."""
    rng, adam = np.random.default_rng(4), Adam(lr=0.01, b1=0.8, b2=0.95, eps=1e-3)
    params, memory, theta, m, v = np.zeros(3), adam.init(3), [0.0] * 3, [0.0] * 3, [0.0] * 3
    for t in range(1, 30):
        g = rng.normal(size=3)
        params, memory = adam(params, g, memory)
        for i in range(3):
            m[i] = 0.8 * m[i] + 0.2 * g[i]
            v[i] = 0.95 * v[i] + 0.05 * g[i] ** 2
            theta[i] += 0.01 * (m[i] / (1 - 0.8**t)) / ((v[i] / (1 - 0.95**t)) ** 0.5 + 1e-3)
    np.testing.assert_allclose(params, theta, rtol=1e-10)


class Witnessed(SimulatedUser):
    """A user whose sessions are written down."""

    seen: ClassVar[list] = []

    def session(self, show):
        Witnessed.seen.append(super().session(show))
        return Witnessed.seen[-1]


def test_batched_centralised_pdgd_sums_the_gradients(small_data, monkeypatch):
    """n clients, one session each, SGD(lr=n): theta + 0.1 x the sum of n gradients at theta."""
    n, theta = 40, np.array([0.4, -1.0, 0.3, 0.8, 0.1])
    learner = PDGD(lr=0.1, sessions=1)
    monkeypatch.setattr("foltr.simulation.engines.debug.SimulatedUser", Witnessed)
    monkeypatch.setattr(Witnessed, "seen", [])
    population = iid(small_data, Cascade(kind="informational"), n, 1)
    engine = Debug(learner, Linear(), population, 1, np.empty((n, 0), np.float32))
    server = Server(learner, Mean(), SGD(lr=float(n)))
    cohort, _ = collected(engine, theta.astype(np.float32), 0, np.arange(n))
    after = server.step(server.init(theta), cohort, RNG)
    gradients = [
        document_weights(docs.astype(float) @ theta, ranking, clicks) @ docs
        for docs, ranking, clicks in Witnessed.seen
    ]
    assert len(gradients) == n and after.t == 1
    np.testing.assert_allclose(after.params, theta + 0.1 * np.sum(gradients, axis=0), rtol=1e-5)
    centralised = server.step(
        server.init(theta), Cohort(cohort.clients[:1], cohort.updates[:1], cohort.weights[:1]), RNG
    )
    # one client: lr alone
    np.testing.assert_allclose(centralised.params, theta + n * 0.1 * gradients[0], rtol=1e-4)
