"""FOLtR-ES with numbers that a hand can check, and with closed forms."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from foltr.components.learners._published_draws import PublishedDraws
from foltr.components.learners.es import ES, message, read_messages, seed_of
from foltr.components.rankers.linear import Linear
from foltr.core.seeds import Stream, gaussian, stream


def as_it_is(which, values, session):
    return which


class OneList:
    """A user who always meets the same documents and clicks on those that are relevant."""

    def __init__(self, docs, relevant, sessions):
        self.docs, self.relevant, self.sessions = (
            np.array(docs, np.float32),
            np.array(relevant),
            sessions,
        )
        self.seen = []

    def session(self, show):
        ranking = show(self.docs)
        self.seen.append(ranking.tolist())
        return self.docs, ranking, self.relevant[ranking]


def test_a_message_is_twelve_bytes():
    sent = message(0xDEADBEEF, np.array([0.5, 0.25]))
    assert sent.dtype == np.uint32 and sent.nbytes == 12
    assert sent.astype("<u4").tobytes().hex() == "efbeadde" + "0000003f" + "0000803e"
    seeds, means = read_messages(sent[None])
    assert seeds.tolist() == [0xDEADBEEF] and means.tolist() == [[0.5, 0.25]]
    assert message(1, np.array([1.0])).nbytes == 8


# a float32 could not hold the third
@pytest.mark.parametrize("seed", [0, 1, 2**24 + 1, 2**31, 2**32 - 1])
def test_a_seed_survives(seed):
    assert read_messages(message(seed, np.array([0.1, 0.2]))[None])[0].tolist() == [seed]


def test_the_direction_of_a_message():
    es = ES(sigma=0.5)
    v = es.perturbations(np.array([7]), 3)[0]
    got = es.decode(message(7, np.array([0.75, 0.25]))[None], np.zeros(3, np.float32))[0]
    np.testing.assert_array_equal(got, v * np.float32(0.5))  # (0.75 - 0.25) / (2 x 0.5)
    one_way = ES(sigma=0.5, antithetic=False)
    got = one_way.decode(message(7, np.array([0.75]))[None], np.zeros(3, np.float32))[0]
    np.testing.assert_array_equal(got, v * np.float32(1.5))  # 0.75 / 0.5


def test_a_perturbation_comes_from_its_seed_alone():
    first = ES().perturbations(np.array([7, 8]), 5)
    np.testing.assert_array_equal(first[0], ES(sigma=9.0, k=3).perturbations(np.array([7]), 5)[0])
    np.testing.assert_array_equal(first[0, :3], ES().perturbations(np.array([7]), 3)[0])
    assert (first[0] != first[1]).all()
    np.testing.assert_array_equal(first[0].view(np.uint32), PINNED)


# a deployed device must never draw others
PINNED = [1068325660, 3206237415, 3221729366, 1060581378, 1065924256]


def test_halves_are_ranked_by_both_signs():
    docs = np.eye(4)
    user = OneList(docs, [True, False, False, False], 4)
    payload, weight, _ = ES(sigma=1.0, k=4).learn(
        Linear(), np.zeros(4, np.float32), None, user, stream(3), 0, as_it_is
    )
    v = ES().perturbations(payload[:1], 4)[0]
    up = np.argsort(-v).tolist()
    assert user.seen == [up, up, up[::-1], up[::-1]] and weight == 4.0
    _, means = read_messages(payload[None])
    np.testing.assert_allclose(
        means[0], [1 / (1 + up.index(0)), 1 / (1 + up[::-1].index(0))], rtol=1e-6
    )
    assert payload[0] == seed_of(stream(3))


@pytest.mark.parametrize(
    "objective, clicks, reward",
    [
        ("maxrr", [0, 0, 1, 1, 0], 1 / 3),
        ("maxrr", [0, 0, 0, 0, 0], 0.0),
        ("first", [0, 0, 1, 1, 0], 0.6),  # 1 - 2 / 5
        ("last", [0, 0, 1, 1, 0], 0.4),  # 1 - 3 / 5
        ("last", [0, 0, 0, 0, 0], 0.0),
        ("ctr", [1, 0, 1, 1, 0], 0.6),
        ("dcg", [1, 0, 1, 0, 0], 1.5),  # 1 / log2(2) + 1 / log2(4)
        ("dcg", [0, 0, 0, 0, 0], 0.0),
    ],
)
def test_rewards(objective, clicks, reward):
    es = ES(k=5, objective=objective)
    values, coded = es.reward_values()
    assert values[coded[es.code(np.array(clicks, bool))]] == pytest.approx(reward)
    assert es.reward_levels == (32 if objective == "dcg" else 6)


def test_levels_are_evenly_spaced_and_the_nearest_is_taken():
    values, coded = ES(k=5, levels=3).reward_values()
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert coded.tolist() == [0, 2, 1, 1, 0, 0]  # 0, 1, 1/2, 1/3, 1/4 (half way, to even), 1/5


def test_the_mean_direction_is_the_gradient_of_the_smoothed_reward():
    """Two documents x and 0, the first relevant, lists of one: the reward is 1 if (w + sigma v) .
    x > 0, so its mean is Phi(w . x / (sigma |x|)), whose gradient is phi(.) x / (sigma |x|)."""
    sigma, x, w = 0.7, np.array([0.6, -0.8]), np.array([0.3, -0.2], np.float32)  # |x| = 1
    es, n = ES(sigma=sigma, k=1, sessions=2), 4000
    got = np.zeros(2)
    for client in range(n):
        user = OneList([x, [0, 0]], [True, False], 2)
        payload, _, _ = es.learn(Linear(), w, None, user, stream(5, client), 0, as_it_is)
        got += es.decode(payload[None], w)[0] / n
    z = float(w @ x) / sigma
    exact = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / sigma * x
    # six standard errors at most: off by more with probability 1e-8
    np.testing.assert_allclose(got, exact, atol=6 * 0.5 / sigma / math.sqrt(n))
    assert np.linalg.norm(got - exact) < 0.2 * np.linalg.norm(exact)


def test_normal_quantiles():
    u = np.concatenate(
        [
            np.linspace(1e-9, 1 - 1e-9, 20_001),
            2.0 ** -np.arange(2, 54),
            1 - 2.0 ** -np.arange(2, 53),
        ]
    )
    np.testing.assert_allclose(gaussian(u), ndtri(u), rtol=2e-7, atol=1e-9)
    draws = np.sort(Stream(1).gaussians(100_000))
    distance = np.abs(ndtr(draws) - (np.arange(100_000) + 0.5) / 100_000).max()
    assert distance < 1.95 / math.sqrt(100_000)  # Kolmogorov and Smirnov, one in a thousand


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32 - 1])
def test_the_published_stream_is_numpys(seed):
    ours, theirs = PublishedDraws(seed), np.random.RandomState(seed)
    drawn = [*ours.gaussians(300), *ours.gaussians(401)]
    assert drawn == theirs.normal(np.zeros(701), 1.0, size=701).tolist()
    ours, theirs = PublishedDraws(seed), np.random.RandomState(seed)
    for n in [471, 1, 2, 512, 513] * 100:
        assert ours.integer(n) == theirs.randint(0, n)
        assert ours.uniform() == theirs.uniform()
