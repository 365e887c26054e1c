"""Click tables as the papers print them, and scans worked by hand."""

import numpy as np
import pytest

from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.errors import Mistake

# ALGORITHMS 2, typed from there: kind -> P(click | grade), P(stop | click, grade)
PRINTED = {
    ("perfect", 3): ([0, 0.5, 1], [0, 0, 0]),
    ("navigational", 3): ([0.05, 0.5, 0.95], [0.2, 0.5, 0.9]),
    ("informational", 3): ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
    ("poison", 3): ([1, 0.5, 0], [0, 0, 0]),
    ("perfect", 5): ([0, 0.2, 0.4, 0.8, 1], [0, 0, 0, 0, 0]),
    ("navigational", 5): ([0.05, 0.3, 0.5, 0.7, 0.95], [0.2, 0.3, 0.5, 0.7, 0.9]),
    ("informational", 5): ([0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
    ("poison", 5): ([1, 0.8, 0.4, 0.2, 0], [0, 0, 0, 0, 0]),
    ("perfect", 2): ([0, 1], [0, 0]),
    ("navigational", 2): ([0.05, 0.95], [0.2, 0.9]),
    ("informational", 2): ([0.3, 0.7], [0.1, 0.5]),
    ("poison", 2): ([1, 0], [0, 0]),
}


class Scripted:
    """A stream that says what it is told: click draw and stop draw of rank 1, of rank 2, ..."""

    def __init__(self, *draws: float) -> None:
        self.draws = iter(draws)

    def uniform(self) -> float:
        return next(self.draws)

    def skip(self) -> None:
        next(self.draws)


@pytest.mark.parametrize("kind, grades", PRINTED)
def test_cascade_tables(kind, grades):
    click, stop = Cascade(kind=kind).tables(grades, depth=10)
    assert click.shape == stop.shape == (10, grades)
    assert (click == PRINTED[kind, grades][0]).all() and (stop == PRINTED[kind, grades][1]).all()


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("grades", [2, 3, 5])
def test_position_based_tables(eta, grades):
    click, stop = PositionBased(eta=eta).tables(grades, depth=10)
    for rank in range(1, 11):
        for grade, p in enumerate(PRINTED["perfect", grades][0]):
            assert click[rank - 1, grade] == pytest.approx((1 / rank) ** eta * p)
    assert not stop.any()  # independent clicks


def test_a_table_for_other_grades_is_refused():
    with pytest.raises(Mistake):
        Cascade().tables(4, 10)
    with pytest.raises(Mistake):
        PositionBased().tables(4, 10)


@pytest.mark.parametrize(
    "shown, draws, clicked",
    [
        # click and go on, click and stop: rank 3 is not looked at though its draw says click
        ([2, 1, 2], [0.94, 0.91, 0.49, 0.49, 0.0, 0.0], [True, True, False]),
        # no click: the stop draw is not looked at, however low
        ([0, 2, 0], [0.06, 0.0, 0.94, 0.95, 0.04, 0.0], [False, True, True]),
        # a draw equal to the probability is no click (draws lie in [0, 1), P = 1 always clicks and
        # P = 0 never)
        ([1, 1], [0.5, 0.0, 0.499, 0.5], [False, True]),
        ([2], [0.9499, 0.0], [True]),
    ],
)
def test_navigational_scans(shown, draws, clicked):
    clicks = Cascade(kind="navigational").clicks(np.array(shown), 3, Scripted(*draws))
    assert clicks.tolist() == clicked


def test_position_based_users_never_stop():
    # eta = 1, grade 2 of 3: P(click) = 1, 1/2, 1/3
    clicks = PositionBased(eta=1.0).clicks(
        np.array([2, 2, 2]), 3, Scripted(0.99, 0.0, 0.51, 0.0, 0.33, 0.0)
    )
    assert clicks.tolist() == [True, False, True]
