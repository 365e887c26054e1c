"""Whether a client's update can be found among others, and that noise which is guaranteed to hide
it does."""

import numpy as np
import pytest

from foltr.simulation.audits.membership import membership, real_round, scores
from foltr.simulation.audits.noise import message, summed


@pytest.fixture
def found(made):
    def of(privacy, sizes=(2, 30), **fields):
        e, params, _ = made(privacy=privacy, **fields)
        updates = real_round(e, params, e.users, e.data.load("train"), 400, 1)
        rows = membership(e, updates, sizes, 500, 1e-5, lambda *_: None)
        return {(each.view.kind, each.view.arriving): each for each in rows}

    return of


def test_bare_messages_give_a_client_away_and_sums_less_and_less(found):
    rows = found(None)
    assert rows["message", 2].auc.mean == rows["message", 30].auc.mean == 1.0
    assert 1.0 >= rows["sum", 2].auc.mean > rows["sum", 30].auc.high > 0.55
    assert rows["message", 2].game.at_least > 2.2 and not rows["message", 2].game.broken


def test_shares_hide_nothing_in_the_clear_and_much_in_the_sum(found):
    rows = found("GammaShares(epsilon=1.2, sensitivity=3.0)", sizes=(30,))
    assert rows["message", 30].auc.low > 0.9
    # of 500 worlds of each kind, with a standard deviation of .018: six of them
    assert rows["sum", 30].auc.mean < 0.61 and not rows["sum", 30].game.broken


@pytest.mark.parametrize(
    "privacy", ["Laplace(epsilon=1.2, clip=0.3)", "Gaussian(noise=2.0, clip=0.3)"]
)
def test_noise_on_each_message_hides_who_is_there(found, privacy):
    for row in found(privacy, sizes=(2, 10)).values():
        assert not row.game.broken and np.isfinite(row.game.guarantee.epsilon)
        # .57 at most, and five and a half standard deviations of .018
        assert row.auc.mean < 0.67


def test_worlds_without_a_difference_are_not_distinguished(made):
    e, params, _ = made()
    one = np.tile(real_round(e, params, e.users, e.data.load("train"), 2, 1)[:1], (200, 1))
    for view in (message(5), summed(5)):
        ones, zeros = scores(None, one, view, 100, seed=1)
        np.testing.assert_allclose(ones, zeros)


def test_a_large_network_goes_number_by_number(found):
    rows = found(None, sizes=(2,), ranker="MLP(hidden=30)")
    assert rows["sum", 2].auc.mean > 0.8
