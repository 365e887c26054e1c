"""Measures of lists, rounds and runs, worked by hand."""

import numpy as np
import pytest

import foltr
from foltr.core import Cohort
from foltr.core.world.measures import Lists, Round
from foltr.simulation.runs.columns import late_or_sum


def of(measure, shown, all_labels=None, highest=2):
    best = np.sort(np.array(all_labels or shown))[::-1]
    return measure.of_lists(Lists(np.array([shown]), best[None], highest))[0]


def test_ndcg_at_any_depth():
    """Of labels 0 2 1: 3 / log2(3) = 1.8928 of 3 + 1 / log2(3) = 3.6309, with the first two; with
    all three 1 / log2(4) = .5 more."""
    assert of(foltr.nDCG(k=2), [0, 2, 1]) == pytest.approx(1.8927892607143724 / 3.6309297535714573)
    assert of(foltr.nDCG(k=None), [0, 2, 1]) == pytest.approx(2.3927892607143724 / 3.63092975357)
    assert of(foltr.nDCG(k=1), [0, 2, 1]) == 0.0 and np.isnan(of(foltr.nDCG(), [0, 0]))


def test_err():
    """Labels 1 0 2 of 2: R = 1/4, 0, 3/4, so 1/4 + (3/4)(3/4) / 3 = .4375."""
    assert of(foltr.ERR(), [1, 0, 2]) == pytest.approx(0.4375)
    assert of(foltr.ERR(k=2), [1, 0, 2]) == pytest.approx(0.25)
    # of 4, as gdeval has it: R = 1/16, 0, 3/16
    assert of(foltr.ERR(highest=4), [1, 0, 2]) == pytest.approx(1 / 16 + 15 / 16 * 3 / 16 / 3)
    with pytest.raises(foltr.Mistake, match="the data has the label 2: set highest to it"):
        of(foltr.ERR(highest=1), [1, 0, 2])


def test_precision_recall_average_precision_and_reciprocal_rank():
    """Relevant at ranks 2, 3 and 5 of 5, and one more that is not in the list."""
    shown, judged = [0, 1, 2, 0, 1], [0, 1, 2, 0, 1, 1]
    assert of(foltr.P(k=5), shown, judged) == pytest.approx(3 / 5)
    assert of(foltr.P(k=10), shown, judged) == pytest.approx(3 / 10)
    assert of(foltr.R(k=3), shown, judged) == pytest.approx(2 / 4)
    assert of(foltr.RR(k=10), shown, judged) == pytest.approx(1 / 2)
    assert of(foltr.RR(k=1), shown, judged) == 0.0
    expected = (1 / 2 + 2 / 3 + 3 / 5) / 4
    assert of(foltr.MAP(), shown, judged) == pytest.approx(expected)
    assert of(foltr.MAP(k=2), shown, judged) == pytest.approx(1 / 2 / 4)
    # relevant from label 2 on: rank 3 only
    assert of(foltr.P(k=5, rel=2), shown, judged) == pytest.approx(1 / 5)
    assert of(foltr.RR(rel=2), shown, judged) == pytest.approx(1 / 3)
    assert of(foltr.MAP(rel=2), shown, judged) == pytest.approx(1 / 3)
    assert np.isnan(of(foltr.R(rel=2), [1, 0, 1]))


def test_names_and_labels():
    assert foltr.nDCG(k=5).name == "ndcg@5" and foltr.nDCG(k=5).label == "nDCG@5"
    assert foltr.nDCG(k=None).name == "ndcg" and foltr.RR(k=3).label == "MRR@3"
    assert foltr.P(k=3, rel=2).name == "p_rel=2@3" and foltr.MAP().name == "map"


def divergence(updates, weights):
    cohort = Cohort(np.arange(len(updates)), np.array(updates, np.float32), np.array(weights))
    return foltr.Divergence().of_round(
        Round(1, np.zeros(2, np.float32), cohort, cohort.updates, None)
    )


def test_divergence():
    """(1, 0) and (0, 1): the mean (.5, .5) has the square .5, each update 1: half cancels."""
    assert divergence([[1, 0], [0, 1]], [1.0, 1.0]) == pytest.approx(0.5)
    assert divergence([[1, 0], [1, 0]], [1.0, 3.0]) == pytest.approx(0.0)
    assert divergence([[1, 0], [-1, 0]], [1.0, 1.0]) == pytest.approx(1.0)
    # weights 3 and 1: the mean is .5, its square .25 of 1
    assert divergence([[1, 0], [-1, 0]], [3.0, 1.0]) == pytest.approx(0.75)
    assert divergence([[1e-30, 0], [0, 1e-30]], [1.0, 1.0]) == pytest.approx(0.5)
    assert np.isnan(divergence([[0, 0], [0, 0]], [1.0, 1.0]))


def test_the_late_mean_and_the_sum():
    """Of 40 rounds the last two; a measure that adds up as its sum."""
    values = np.arange(40.0)
    assert late_or_sum(foltr.MaxRR(), values) == 38.5
    assert late_or_sum(foltr.BytesSent(), values) == 780.0
    assert np.isnan(late_or_sum(foltr.MaxRR(), np.array([])))
