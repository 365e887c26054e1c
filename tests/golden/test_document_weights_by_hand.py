"""PDGD's document weights (thesis 3.9-3.12), worked by hand in fractions. Scores are the
logarithms of masses e^s."""

from fractions import Fraction as F

import numpy as np
import pytest

from foltr.components.learners.pdgd import document_weights


def weights_of(masses, ranking, clicked_ranks, pairs="examined"):
    clicks = np.zeros(len(ranking), bool)
    clicks[list(clicked_ranks)] = True
    return document_weights(np.log(np.array(masses, float)), np.array(ranking), clicks, pairs)


def assert_weights(found, expected):
    np.testing.assert_allclose(found, [float(w) for w in expected], rtol=1e-12, atol=1e-15)


def test_two_documents():
    """Masses 1 and 3, list R = (3, 1): P(R) = 3/4, P(R*) = 1/4, so rho = 1/4; the slope is 1 x 3 /
    4^2 = 3/16."""
    assert_weights(weights_of([1, 3], [1, 0], [1]), [F(3, 64), -F(3, 64)])
    # the one right after the click counts
    assert_weights(weights_of([1, 3], [1, 0], [0]), [-F(3, 64), F(3, 64)])
    # R = (1, 3) is the less likely order: rho = 3/4
    assert_weights(weights_of([1, 3], [0, 1], [1]), [-F(9, 64), F(9, 64)])


def test_three_documents_all_shown():
    """Masses 1, 2, 3, list (3, 1, 2), click on the middle one. P(R) = 3/6 x 1/3 = 1/6.

    1 over 3: R* = (1, 3, 2), P = 1/6 x 3/5 = 1/10, rho = 3/8, slope 3/16: 9/128.
    1 over 2: R* = (3, 2, 1), P = 3/6 x 2/3 = 1/3, rho = 2/3, slope 2/9: 4/27.
    """
    assert_weights(
        weights_of([1, 2, 3], [2, 0, 1], [1]), [F(9, 128) + F(4, 27), -F(4, 27), -F(9, 128)]
    )


def test_three_documents_two_shown():
    """Masses 1, 2, 3, list (2, 3) of the last two: P(R) = 2/6 x 3/4 = 1/4, P(R*) = 3/6 x 2/3 =
    1/3, rho = 4/7, slope 6/25: 24/175. The mass never shown counts in D, but that document gets no
    weight."""
    assert_weights(weights_of([1, 2, 3], [1, 2], [1]), [0, -F(24, 175), F(24, 175)])


def test_a_pair_with_documents_between():
    """Masses 1, 2, 4 in the order (4, 2, 1), clicks on the last two: 2 over 4 and 1 over 4. P(R) =
    4/7 x 2/3.

    2 over 4: R* = (2, 4, 1), P = 2/7 x 4/5, rho = (8/35) / (8/35 + 8/21) = 3/8, slope 8/36 = 2/9:
    1/12. 1 over 4: R* = (1, 2, 4), P = 1/7 x 2/6 = 1/21, rho = (1/21) / (1/21 + 8/21) = 1/9, slope
    4/25: 4/225."""
    assert_weights(
        weights_of([1, 2, 4], [2, 1, 0], [1, 2]), [F(4, 225), F(1, 12), -F(1, 12) - F(4, 225)]
    )


@pytest.mark.parametrize(
    "clicked, pairs, eighths",
    [
        # equal scores: every pair weighs 1/2 x 1/4 = 1/8, so the weights count pairs
        ([1], "examined", [-1, 2, -1, 0, 0]),
        ([1], "shown", [-1, 4, -1, -1, -1]),
        ([0], "examined", [1, -1, 0, 0, 0]),
        ([4], "examined", [-1, -1, -1, -1, 4]),  # nothing comes after the last
        ([1, 3], "examined", [-2, 3, -2, 3, -2]),
        ([0, 2], "examined", [2, -2, 2, -2, 0]),
        ([0, 2], "shown", [3, -2, 3, -2, -2]),
        ([0, 1, 2, 3, 4], "examined", [0, 0, 0, 0, 0]),
        ([0, 1, 2, 3, 4], "shown", [0, 0, 0, 0, 0]),
        ([], "examined", [0, 0, 0, 0, 0]),
        ([], "shown", [0, 0, 0, 0, 0]),
    ],
)
def test_which_pairs_count(clicked, pairs, eighths):
    found = weights_of([1] * 7, [6, 5, 4, 3, 2], clicked, pairs)
    assert_weights(found[[6, 5, 4, 3, 2]], [F(e, 8) for e in eighths])
    assert not found[:2].any()


def test_a_single_document_has_nothing_to_lose_to():
    assert weights_of([2], [0], [0]).tolist() == [0.0]
