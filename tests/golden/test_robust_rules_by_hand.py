"""Every robust rule on a few clients whose numbers a hand can check.

Most updates are t (3, 4) for a whole number t, so that clients t and s are 5 |t - s| apart.
"""

import numpy as np
import pytest

from foltr.components.aggregators.bucketing import Bucketing
from foltr.components.aggregators.bulyan import Bulyan
from foltr.components.aggregators.centered_clipping import CenteredClipping
from foltr.components.aggregators.dnc import DnC
from foltr.components.aggregators.fltrust import FLTrust
from foltr.components.aggregators.geometric_median import GeometricMedian
from foltr.components.aggregators.krum import Krum, MultiKrum
from foltr.components.aggregators.mean import Mean
from foltr.components.aggregators.median import Median
from foltr.components.aggregators.nnm import NNM
from foltr.components.aggregators.trimmed_mean import TrimmedMean
from foltr.core import Cohort
from foltr.core.cohorts import bulyan_rows, distances, krum_scores
from foltr.core.seeds import stream

pytestmark = pytest.mark.usefixtures("both_ways")


def cohort(updates, weights=None, trusted=None):
    updates = np.array(updates, np.float32)
    weights = np.ones(len(updates)) if weights is None else np.array(weights, float)
    return Cohort(np.arange(len(updates)), updates, weights, trusted=trusted)


def along(*t, weights=None):
    return cohort([[3.0 * x, 4.0 * x] for x in t], weights)


def gives(rule, c, expected, rng=None):
    direction, _ = rule(c, rule.init(c.updates.shape[1]), rng or stream(0))
    np.testing.assert_allclose(direction, expected, rtol=1e-12, atol=1e-12)


def test_distances_and_krum_scores():
    """t = 0, 1, 6, 9, 13. The two nearest of 0 are 1 and 6 away, of 1: 1 and 5, of 6: 3 and 5, of
    9: 3 and 4, of 13: 4 and 7."""
    apart = distances(along(0, 1, 6, 9, 13).updates)
    assert apart[1].tolist() == [5.0, 0.0, 25.0, 40.0, 60.0]
    assert krum_scores(apart, 2).tolist() == [5.0 * s for s in (7, 6, 8, 7, 11)]
    assert krum_scores(apart, 2, squared=True).tolist() == [25.0 * s for s in (37, 26, 34, 25, 65)]


def test_krum_follows_one_client():
    """Those scores: 1 is the lowest by distances, 9 by their squares."""
    gives(Krum(malicious=1), along(0, 1, 6, 9, 13), [3.0, 4.0])
    gives(Krum(malicious=1, squared=True), along(0, 1, 6, 9, 13), [27.0, 36.0])


def test_krum_gives_equal_scores_to_the_lower_client():
    """m = 2: only the nearest counts, which is 1 away for 0, 1 and 2."""
    gives(Krum(malicious=2), along(0, 1, 2, 4, 50), [0.0, 0.0])
    c = along(0, 1, 2, 4, 50)
    gives(Krum(malicious=2), Cohort(np.array([9, 3, 8, 5, 1]), c.updates, c.weights), [3.0, 4.0])


def test_multi_krum_averages_the_best():
    """m = 1: scores 3, 2, 3, 5, 94 leave out 50. m = 2: scores 1, 1, 1, 2, 46 leave out 4 as
    well."""
    gives(MultiKrum(malicious=1), along(0, 1, 2, 4, 50), [3 * 7 / 4, 4 * 7 / 4])
    gives(MultiKrum(malicious=2), along(0, 1, 2, 4, 50), [3.0, 4.0])
    gives(
        MultiKrum(malicious=1),
        along(0, 1, 2, 4, 50, weights=[1, 2, 1, 1, 9]),
        [3 * 8 / 5, 4 * 8 / 5],
    )


def test_multi_krum_by_squares():
    """The two nearest of t = 0, 1, 4, 8, 9 sum up to 5, 4, 7, 5, 6, their squares to 17, 10, 25,
    17, 26: without them 4 is left out, with them 9."""
    gives(MultiKrum(malicious=1), along(0, 1, 4, 8, 9), [3 * 18 / 4, 4 * 18 / 4])
    gives(MultiKrum(malicious=1, squared=True), along(0, 1, 4, 8, 9), [3 * 13 / 4, 4 * 13 / 4])


# sorted: 1 2 3 4 90 and -90 6 7 8 9
COLUMNS = [[1.0, 8.0], [2.0, -90.0], [4.0, 6.0], [90.0, 7.0], [3.0, 9.0]]


def test_trimmed_mean_by_coordinates():
    gives(TrimmedMean(malicious=1), cohort(COLUMNS), [3.0, 7.0])
    gives(TrimmedMean(malicious=2), cohort(COLUMNS), [3.0, 7.0])
    # weights do not matter
    gives(TrimmedMean(malicious=0), cohort(COLUMNS, weights=[1, 2, 3, 4, 5]), [20.0, -12.0])
    gives(TrimmedMean(malicious=1), cohort(COLUMNS[:4]), [3.0, 6.5])


def test_median_by_coordinates():
    gives(Median(), cohort(COLUMNS, weights=[9, 1, 1, 1, 1]), [3.0, 7.0])
    gives(Median(), cohort(COLUMNS[:4]), [3.0, 6.5])  # of 1 2 4 90 and -90 6 7 8: the middle two
    gives(Median(), cohort(COLUMNS[:1]), [1.0, 8.0])


def test_bulyan_step_by_step():
    """t = 0, 1, 2, 3, 4, 6, 100 and m = 1: five of seven are chosen, the nearest four count, then
    three, two, one, one.

    First the scores are 30, 15, 10, 15, 18, 54, ...: client 2 is chosen. Of those left the scores
    are 26, 14, 14, 14, ...: client 1, the lowest id. Then 25, 10, 5, 13: client 4. Then 0, 3 and 6
    are 3 apart each: client 0. Then 3 and 6 are: client 3. Of 0, 1, 2, 3, 4 the three nearest to
    the median are 1, 2, 3."""
    c = along(0, 1, 2, 3, 4, 6, 100)
    assert bulyan_rows(c.updates, 1, 5).tolist() == [2, 1, 4, 0, 3]
    gives(Bulyan(malicious=1), c, [6.0, 8.0])


def test_bulyan_without_attackers_averages_all():
    gives(Bulyan(malicious=0), along(0, 1, 5), [6.0, 8.0])


def test_bulyan_takes_the_values_around_the_median():
    """Of 0, 1, 2, 3, 9 the three nearest to the median are 1, 2, 3."""
    c = cohort([[0.0], [1.0], [2.0], [3.0], [9.0], [9.5], [1000.0]])
    assert sorted(bulyan_rows(c.updates, 1, 5)) == [0, 1, 2, 3, 4]
    gives(Bulyan(malicious=1), c, [2.0])


def test_geometric_median_where_it_is_known():
    # where the diagonals cross
    gives(GeometricMedian(), cohort([[-1, 0], [3, 0], [0, -2], [0, 5]]), [0, 0])
    corners = [[np.cos(a), np.sin(a)] for a in (0.1, 0.1 + 2 * np.pi / 3, 0.1 + 4 * np.pi / 3)]
    direction = GeometricMedian(smoothing=1e-9).combine(cohort(corners))
    np.testing.assert_allclose(direction, 0.0, atol=1e-7)  # Fermat's point of a regular triangle


def test_geometric_median_on_a_line_is_the_weighted_median():
    """Weights 1, 1, 3: beyond half of the whole lies at t = 10."""
    direction = GeometricMedian(iterations=500).combine(along(0, 1, 10, weights=[1, 1, 3]))
    np.testing.assert_allclose(direction, [30.0, 40.0], atol=1e-5)


def test_geometric_median_does_not_stay_at_many_equal_updates():
    """0, 0, 0, 1, 5 with weights 1, 1, 1, 3, 1: to the right of 0 lie 4 of 7. From the middle one
    of them, 0, the first steps are as short as the smoothing."""
    c = cohort([[0], [0], [0], [1], [5]], weights=[1, 1, 1, 3, 1])
    np.testing.assert_allclose(GeometricMedian().combine(c), [1.0], atol=1e-5)


def test_geometric_median_leaves_an_update_that_it_begins_at():
    """Three at 0, two each at 5 e_1, 5 e_2, 5 e_3: 0 is the median of each coordinate. The six
    pull by 2 sqrt(3) > 3, but steps away from 0 begin as short as the smoothing. At (x, x, x) the
    sum is 3 sqrt(3) x + 6 sqrt((5 - x)^2 + 2 x^2), least where 27 x^2 - 90 x + 25 = 0."""
    c = cohort([*np.zeros((3, 3)), *5.0 * np.eye(3), *5.0 * np.eye(3)])
    direction = GeometricMedian(iterations=1000).combine(c)
    np.testing.assert_allclose(direction, (15 - 5 * np.sqrt(6)) / 9, atol=1e-6)


def test_geometric_median_counts_weight_and_not_attackers():
    """Three of weight 2 at t = -1, 0, 1 and four of weight 1 at a million: half of 10 is reached
    at t = 1."""
    c = along(*[1e6] * 4, -1, 0, 1, weights=[1, 1, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(GeometricMedian().combine(c), [3.0, 4.0], atol=1e-4)


def test_centred_clipping_moves_from_the_last_direction():
    """From 0: (3, 4) is shortened to (0.6, 0.8), (0.5, 0) stays: mean (0.55, 0.4). From there:
    (2.45, 3.6) has a length of 4.3546..., (-0.05, -0.4) stays."""
    rule, c = CenteredClipping(radius=1.0), cohort([[3.0, 4.0], [0.5, 0.0]])
    first, memory = rule(c, rule.init(2), stream(0))
    np.testing.assert_allclose(first, [0.55, 0.4], rtol=1e-12)
    second, memory = rule(c, memory, stream(0))
    length = np.hypot(2.45, 3.6)
    expected = [0.55 + (2.45 / length - 0.05) / 2, 0.4 + (3.6 / length - 0.4) / 2]
    np.testing.assert_allclose(second, expected, rtol=1e-12)
    gives(CenteredClipping(radius=1.0, iterations=2), c, expected)
    gives(CenteredClipping(radius=100.0), c, [1.75, 2.0])  # nothing is clipped: the mean
    assert memory[0].tolist() == second.tolist()


def test_dnc_drops_who_stands_out():
    """t = 0, 1, 2, 3, 14: the mean is 4, along the only direction the squares are 16, 9, 4, 1, 100
    (times 25). m = 1 drops 14, m = 2 drops 0 as well."""
    gives(DnC(malicious=1), along(0, 1, 2, 3, 14), [3 * 1.5, 4 * 1.5])
    gives(DnC(malicious=2), along(0, 1, 2, 3, 14), [6.0, 8.0])
    gives(
        DnC(malicious=1), along(0, 1, 2, 3, 14, weights=[1, 1, 1, 5, 7]), [3 * 18 / 8, 4 * 18 / 8]
    )
    gives(DnC(malicious=1, strictness=1.5), along(0, 1, 2, 3, 14), [6.0, 8.0])  # ceil(1.5) = 2


def test_dnc_looks_only_along_the_top_direction():
    """The mean is 0, most of the variance lies along the first axis (2 x 9 against 2 x 4): clients
    0 and 1 stand out, and of equal scores the higher id goes."""
    gives(DnC(malicious=1), cohort([[3, 0], [-3, 0], [0, 2], [0, -2]]), [1.0, 0.0])


def test_fltrust_counts_angles():
    """To (5, 0) the cosines are 1, 0, -1 and 0.6: (5, 0) once and (3, 4) 0.6 times, over 1.6."""
    own = np.array([5.0, 0.0], np.float32)
    c = cohort([[1, 0], [0, 3], [-2, 0], [0.3, 0.4]], weights=[1, 1, 50, 1], trusted=own)
    direction, _ = FLTrust()(c, (), stream(0))
    np.testing.assert_allclose(direction, [4.25, 1.5], rtol=1e-6)
    gives(FLTrust(), cohort([[-1, 0], [0, 3], [0, 0]], trusted=own), [0, 0])  # nobody agrees
    gives(FLTrust(), cohort([[1, 0]], trusted=np.zeros(2)), [0, 0])


def test_nearest_neighbour_mixing():
    """t = 0, 1, 3, 10, the three nearest each: 0, 1, 3 become 4/3, and 10 becomes (10 + 3 + 1) /
    3."""
    gives(NNM(rule=Median(), malicious=1), along(0, 1, 3, 10), [3 * 4 / 3, 4 * 4 / 3])
    gives(NNM(rule=Mean(), malicious=1), along(0, 1, 3, 10), [3 * 13 / 6, 4 * 13 / 6])
    mixed, farthest = (0 + 1 + 6) / 4, (10 + 6 + 1) / 4  # of weight 4, both
    whole = (mixed * 4 + farthest) / 5
    gives(
        NNM(rule=Mean(), malicious=1),
        along(0, 1, 3, 10, weights=[1, 1, 2, 1]),
        [3 * whole, 4 * whole],
    )


def test_mixing_equally_far_updates_takes_the_lower_client():
    """t = 0, 1, -1 and m = 1: client 0 is as near to 1 as to -1 and takes client 1."""
    gives(NNM(rule=Median(), malicious=1), along(0, 1, -1), [1.5, 2.0])  # of 1/2, 1/2, -1/2


def test_bucketing_of_three():
    """Buckets of two: {a, b} and {c}. The median of two is their mean: ((a + b) / 2 + c) / 2,
    three ways to do it."""
    rule = Bucketing(rule=Median(), size=2)
    got = {round(float(rule(along(0, 4, 12), (), stream(i))[0][0] / 3), 9) for i in range(50)}
    assert got == {(2 + 12) / 2, (6 + 4) / 2, (8 + 0) / 2}


def test_bucketing_keeps_the_weighted_mean():
    c = along(0, 1, 5, 6, 7, weights=[1, 2, 3, 4, 5])
    expected = Mean().combine(c)
    for size in (1, 2, 3, 5, 9):
        gives(Bucketing(rule=Mean(), size=size), c, expected)
    gives(Bucketing(rule=Median(), size=1), c, [15.0, 20.0])
    gives(Bucketing(rule=Median(), size=5), c, expected)


@pytest.mark.parametrize(
    "rule", [Krum(), MultiKrum(), TrimmedMean(), Median(), Bulyan(), GeometricMedian(), DnC()]
)
def test_one_who_shouts_is_not_heard(rule):
    """Ten clients near (1, 1), one at 1e6: the direction stays among the ten."""
    near = 1.0 + 0.01 * stream(4).normals(20).reshape(10, 2)
    direction, _ = rule(cohort([*near, [1e6, -1e6]]), rule.init(2), stream(0))
    assert np.abs(direction - 1.0).max() < 0.05
