"""Every mechanism keeps what the ledger says of it, and the games are sharp enough to see it if
one did not.

Each game is decided by likelihood ratio; epsilon is shown to be at least something, and wrongly
so in one of 10^9 games (`conftest.py`). A mechanism whose guarantee is exceeded by that is broken,
and these tests fail. Twins that are broken on purpose must be caught. How close games must come,
and by how much twins are broken, leaves five standard errors and more."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.privacy.accounting import Bound
from foltr.simulation.audits.games import (
    epsilon_at_least,
    game_result,
    largest_distance,
    play,
    worst_updates,
)
from foltr.simulation.audits.noise import View, message, summed

GAMES = 40_000
LAPLACE = Laplace(epsilon=1.2, clip=1.0)
CLIENT, SHARES, SERVER = (
    Gaussian(noise=1.0, clip=1.0, where=where) for where in ("client", "shares", "server")
)
HALF, FULL = (
    GammaShares(epsilon=1.2, sensitivity=3.0),
    GammaShares(epsilon=1.2, sensitivity=3.0, clip="full"),
)
MODEL = View("model", 10, 10)


def games(privacy, view, d, played=None, games=GAMES):
    games = min(games, 4000) if view is MODEL else games  # whose noise is drawn round by round
    return list(
        play(
            worst_updates(privacy, np.zeros(d), view.asked), privacy, view, games, 1e-5, 1, played
        )
    )


# a mechanism, what is seen of it, and how close to its guarantee the game must come in one
# dimension
HOLDS = [
    (LAPLACE, message(10), 0.75),
    (LAPLACE, summed(5), 0.1),
    (CLIENT, message(10), 0.65),
    (SHARES, summed(10), 0.65),
    (SERVER, MODEL, 0.4),
    (HALF, summed(5), 0.75),
    (HALF, summed(5, 4), 0.5),
    (FULL, summed(2), 0.8),
]


@pytest.mark.parametrize("d", [1, 12])
@pytest.mark.parametrize(("privacy", "view", "close"), HOLDS, ids=str)
def test_mechanisms_keep_their_guarantee_and_the_game_comes_close(privacy, view, close, d):
    for game in games(privacy, view, d):
        assert all(np.isfinite(test.guarantee.epsilon) for test in game.tests)
        assert not game.broken, game
        if d == 1:
            assert max(test.at_least / test.guarantee.epsilon for test in game.tests) > close, game


BROKEN = [
    (LAPLACE, replace(LAPLACE, epsilon=2.4), message(10)),
    (CLIENT, replace(CLIENT, noise=0.5), message(10)),
    (SHARES, replace(SHARES, noise=0.5), summed(10)),
    (SERVER, replace(SERVER, noise=0.4), MODEL),
    (HALF, replace(HALF, epsilon=2.4), summed(5)),
    (FULL, replace(FULL, epsilon=2.4), summed(2)),
    (HALF, replace(HALF, epsilon=1.7), summed(5)),  # noise of two thirds
]


@pytest.mark.parametrize(("privacy", "played", "view"), BROKEN, ids=str)
def test_noise_that_is_too_small_is_caught(privacy, played, view):
    assert all(game.broken for game in games(privacy, view, 1, played))


@dataclass(frozen=True)
class Unclipped(Laplace):
    def on_client(self, payload, n, rng):
        return payload + super().on_client(np.zeros_like(payload), n, rng)


@dataclass(frozen=True)
class SharesTooMany(GammaShares):
    """Each of n clients adds the share of one of 2 n."""

    def on_client(self, payload, n, rng):
        return super().on_client(payload, 2 * n, rng)


def test_clipping_that_is_left_out_is_caught():
    (game,) = games(LAPLACE, message(10), 3, Unclipped(1.2, 1.0), games=2000)
    assert game.broken and game.right.mean > 0.99


@pytest.mark.slow
def test_shares_that_are_too_small_are_caught():
    assert all(
        game.broken for game in games(HALF, summed(3), 1, SharesTooMany(1.2, 3.0), games=20_000)
    )


def test_the_thesis_ball_with_the_published_code_s_sensitivity_would_be_caught():
    """A ball of Delta under noise for Delta: what clip='full' would be if the ledger believed its
    epsilon."""
    wider = worst_updates(FULL, np.zeros(1), 5)
    assert all(game.broken for game in play(wider, HALF, summed(5), GAMES, 1e-5, 1))


@pytest.mark.parametrize(
    ("privacy", "view"), [(HALF, message(100)), (SERVER, message(10)), (None, message(3))], ids=str
)
def test_what_is_nearly_bare_is_distinguished_and_nothing_was_guaranteed(privacy, view):
    pairs = {"two": (np.full(20, 0.1), np.full(20, -0.1))}
    (game,) = play(pairs, privacy, view, 4000, 1e-5, 1)
    assert game.at_least > 4.5 and game.right.mean > 0.98
    assert not game.broken and game.guarantee.epsilon == np.inf
    assert game.plain()["tests"][0]["epsilon_promised"] is None


def test_one_message_of_normal_shares_has_a_guarantee_of_its_own():
    (game,) = games(SHARES, message(10), 1)
    assert not game.broken and game.guarantee.epsilon > 40


def test_the_bound_of_epsilon_is_seldom_wrong():
    """Two normal variables at distance 1 and delta = 0.1: epsilon is 1.0066... of Balle & Wang;
    300 times."""
    from foltr.privacy.accounting import normal_epsilon

    true, rng, wrong, close = normal_epsilon(1.0, 0.1), np.random.default_rng(0), 0, []
    for _ in range(300):
        one, zero = rng.normal(1, 1, 4000), rng.normal(0, 1, 4000)
        found = epsilon_at_least(one[::2], one[1::2], zero[::2], zero[1::2], 0.1, 0.025)
        wrong += found > true
        close.append(found / true)
    assert wrong <= 40  # more of 300 at 5 % with probability 1e-8
    assert np.median(close) > 0.7


def test_equal_worlds_are_not_distinguished():
    rng = np.random.default_rng(1)
    ones, zeros = rng.normal(size=(2, 5000))
    game = game_result(
        "same", "view", "unit", ones, zeros, lambda delta: Bound(0.0, delta, "by itself"), 1e-5
    )
    assert game.at_least == 0.0 and not game.broken and 0.45 < game.right.mean < 0.55


def test_reach_finds_updates_that_the_noise_is_not_made_for():
    rng = np.random.default_rng(3)
    inside = rng.normal(size=(50, 4))
    inside *= 1.5 / np.linalg.norm(inside, axis=1, keepdims=True)
    allowed = largest_distance(HALF, np.append(inside, -inside, axis=0), 5)
    assert allowed.norm == "L2" and allowed.found == pytest.approx(3.0) and not allowed.broken
    assert largest_distance(HALF, 1.1 * np.append(inside, -inside, axis=0), 5).broken
    assert (
        largest_distance(LAPLACE, 10 * inside, 5).norm == "L1"
        and not largest_distance(LAPLACE, 10 * inside, 5).broken
    )
    assert largest_distance(None, inside, 5).plain()["allowed"] is None
