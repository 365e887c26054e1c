"""Attacks on single updates that were made by hand or by the real client code."""

from dataclasses import replace

import numpy as np
import pytest

from foltr.components.rankers.linear import Linear
from foltr.core.seeds import stream
from foltr.simulation.audits.guesses import (
    Seen,
    at_random,
    higher_distance_count,
    higher_probability,
    higher_score,
    least_deviations,
    least_squares,
    least_squares_with_weights,
    minimum_norm_solution,
)

DOCS = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], np.float32)
WEIGHTS = np.array([0.3, 0.2, 0.1, 0.4], np.float32)


def seen(update, docs=DOCS, weights=WEIGHTS):
    return Seen(
        Linear(), weights, docs, docs.T.astype(float), np.asarray(update, float), stream(1)
    )


def test_the_heuristics_of_pham_by_hand():
    """Scores (.3, .2, .1) become (.4, .25, .0): risen, risen, fallen; the first is above two more
    than before."""
    told = seen([0.1, 0.05, -0.1, 0.0])
    assert higher_score(told).clicked.tolist() == [True, True, False]
    # 2, 1, 0 of two others; half is one
    assert higher_distance_count(told).clicked.tolist() == [True, False, False]
    before, after = np.exp([0.3, 0.2, 0.1]), np.exp([0.4, 0.25, 0.0])
    share = after / after.sum() > before / before.sum()
    assert (
        higher_probability(told).clicked.tolist() == share.tolist() == [True, False, False]
        or share[1]
    )


def test_least_squares_by_hand():
    assert least_squares(seen([0.1, 0.0, -0.1, 0.0])).clicked.tolist() == [True, False, False]
    tiny = seen([0.1, 1e-8, -0.1, 0.0])  # a document outside any pair, but for rounding
    assert least_squares(tiny).clicked.tolist() == [True, False, False]


def test_scaling_back_into_a_ball_hides_clicks_from_plain_least_squares_only():
    """The update is a (c . docs) - b weights: the ball moves every document's coefficient down."""
    clicked = np.array([0.1, -0.02, -0.08, 0.0])
    scaled = 0.5 * clicked - 0.5 * WEIGHTS
    assert least_squares(seen(scaled)).clicked.tolist() == [False, False, False]
    assert least_squares_with_weights(seen(scaled)).clicked.tolist() == [True, False, False]
    assert least_deviations(seen(scaled)).clicked.tolist() == [True, False, False]


def test_noise_in_few_numbers_does_not_move_least_deviations():
    rng = np.random.default_rng(0)
    docs = rng.normal(size=(10, 46)).astype(np.float32)
    true = np.where(np.arange(10) < 3, 0.1, -0.04)
    weights = rng.normal(size=46).astype(np.float32)
    update = true @ docs
    update[[4, 30]] += (2.0, -1.5)
    told = seen(update, docs, weights)
    assert least_deviations(told).clicked.tolist() == (true > 0).tolist()
    assert least_squares(told).clicked.tolist() != (true > 0).tolist()


@pytest.mark.parametrize("shape", [(40, 11), (46, 100), (400, 350), (330, 900)])
def test_the_shortest_solution_however_large_the_system(shape):
    rng = np.random.default_rng(2)
    a, y = rng.normal(size=shape), rng.normal(size=(shape[0], 3))
    np.testing.assert_allclose(
        minimum_norm_solution(a, y), np.linalg.lstsq(a, y, rcond=None)[0], atol=1e-6
    )
    np.testing.assert_allclose(
        minimum_norm_solution(a, y[:, 1]), minimum_norm_solution(a, y)[:, 1], atol=1e-6
    )


def test_random_guesses_are_as_many_as_said_and_differ_by_address():
    docs = np.eye(10, 46, dtype=np.float32)
    one = at_random(3)(seen(np.zeros(46), docs, np.zeros(46, np.float32)))
    assert one.clicked.sum() == 3
    others = [
        at_random(4)(replace(seen(np.zeros(46), docs), rng=stream(i))).clicked for i in range(40)
    ]
    assert (
        all(guess.sum() == 4 for guess in others) and len({tuple(guess) for guess in others}) > 20
    )
    assert at_random(4)(seen(np.zeros(4))).clicked.sum() == 3  # a list of three


def test_a_zero_update_and_zero_weights_are_no_news():
    still = seen(np.zeros(4), weights=np.zeros(4, np.float32))
    for attack in (
        higher_score,
        higher_probability,
        higher_distance_count,
        least_squares,
        least_squares_with_weights,
        least_deviations,
    ):
        assert not attack(still).clicked.any()
