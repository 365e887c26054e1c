"""Measures worked by hand, and expected MaxRR against everything that a user can do."""

from itertools import product

import numpy as np
import pytest

from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.metrics import (
    discounts,
    gains,
    ideal_dcg,
    max_rr,
    mean_over_queries,
    measure_queries,
    online_performance,
)
from foltr.core.seeds import stream


def measured(labels_in_order, model=None, grades=3, tied=False):
    """nDCG, reciprocal rank and expected MaxRR of one query shown in this order."""
    labels = np.array(labels_in_order, np.int8)
    scores = np.zeros(len(labels)) if tied else -np.arange(len(labels), dtype=float)
    click, _ = (model or Cascade()).tables(grades, 10)
    return measure_queries(scores, labels, np.array([0, len(labels)]), click, stream(1, "ties"))[0]


def test_gains_and_discounts():
    assert gains(np.array([0, 1, 2, 3, 4], np.int8)).tolist() == [0, 1, 3, 7, 15]
    np.testing.assert_allclose(discounts(3), [1.0, 0.6309297535714575, 0.5])


def test_ndcg():
    """Grades 2, 0, 1: 3 / log2(2) + 1 / log2(4) = 3.5 of 3 + 1 / log2(3) = 3.63093."""
    assert measured([2, 0, 1])[0] == pytest.approx(3.5 / 3.6309297535714573)
    assert measured([2, 1, 0])[0] == 1.0
    assert measured([0] * 9 + [1])[0] == pytest.approx(1 / np.log2(11))
    assert measured([0] * 10 + [2])[0] == 0.0  # rank 11 is not seen, but its ideal is
    assert ideal_dcg(np.array([0, 1, 2, 0, 0], np.int8), np.array([0, 3, 5])).tolist() == [
        3 + 1 / np.log2(3),
        0.0,
    ]


def test_reciprocal_rank():
    assert measured([0, 0, 2, 1])[1] == pytest.approx(1 / 3)
    assert measured([1, 0])[1] == 1.0
    assert measured([0] * 10 + [1])[1] == 0.0


def test_queries_without_a_relevant_document():
    ndcg, rr, expected = measured([0, 0], Cascade(kind="informational"))
    assert np.isnan(ndcg) and np.isnan(rr)
    assert expected == pytest.approx(0.4 + 0.6 * 0.4 / 2)
    values = np.array([0.5, np.nan, 0.25])
    assert mean_over_queries(values, "skip") == 0.375
    assert mean_over_queries(values, "zero") == 0.25
    assert mean_over_queries(values, "one") == pytest.approx(1.75 / 3)
    assert np.isnan(mean_over_queries(np.array([np.nan]), "skip"))


def test_ties_are_broken_at_random():
    labels, offsets = np.tile([1, 0], 400).astype(np.int8), np.arange(0, 802, 2)
    click, _ = Cascade().tables(3, 10)
    first = measure_queries(np.zeros(800), labels, offsets, click, stream(1, "ties"))[:, 1]
    assert 150 < (first == 1.0).sum() < 250  # five standard deviations are 50


def test_max_rr():
    assert max_rr(np.array([False, False, True, True])) == pytest.approx(1 / 3)
    assert max_rr(np.zeros(10, bool)) == 0.0
    assert max_rr(np.array([False] * 10 + [True])) == 0.0  # the top 10 only
    values = {max_rr(np.arange(10) == rank) for rank in range(10)} | {max_rr(np.zeros(10, bool))}
    assert len(values) == 11  # V of FOLtR-ES's privatisation


def test_expected_max_rr():
    """Perfect user, grades 1, 0, 2: 1/2 at rank 1, else surely at rank 3."""
    assert measured([1, 0, 2])[2] == pytest.approx(0.5 + 0.5 / 3)


MODELS = [
    Cascade(kind="navigational"),
    Cascade(kind="informational"),
    Cascade(),
    PositionBased(eta=1.0),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_expected_max_rr_by_enumeration(model):
    """Every way to click and stop down a list of four, each with its probability."""
    grades = [1, 0, 2, 1]
    click, stop = model.tables(3, 4)
    total = mass = 0.0
    # (clicks, stops) if it gets there
    for ways in product([(False, False), (True, False), (True, True)], repeat=4):
        p, clicks, going = 1.0, np.zeros(4, bool), True
        for j, (clicked, stopped) in enumerate(ways):
            if not going:  # one representative of what is never reached
                p *= not clicked
                continue
            c, s = click[j, grades[j]], stop[j, grades[j]]
            p *= c * (s if stopped else 1.0 - s) if clicked else 1.0 - c
            clicks[j], going = clicked, not stopped
        mass += p
        total += p * max_rr(clicks)
    assert mass == pytest.approx(1.0)
    assert measured(grades, model)[2] == pytest.approx(total)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_expected_max_rr_by_simulation(model):
    grades = np.array([0, 1, 0, 2, 0, 0, 1, 0, 0, 0])
    seen = np.array(
        [max_rr(model.clicks(grades, 3, stream(4, "clicks", i))) for i in range(4_000)]
    )
    # six standard errors: off by more with probability 1e-8
    assert abs(seen.mean() - measured(grades, model)[2]) < 6 * seen.std() / np.sqrt(len(seen))


def test_online_performance():
    assert online_performance(np.ones(10_000)) == pytest.approx(1986.5409, abs=5e-5)
    # ALGORITHMS 7, type 2
    assert online_performance(np.full(10_000, 0.8)) == pytest.approx(1589.23, abs=5e-3)
    assert online_performance(np.array([1.0, 0.0, 0.5])) == pytest.approx(1.0 + 0.5 * 0.9995**2)
