"""Two rounds of `Gated` with one parameter and five clients, worked by hand.

Round 1: the updates 1, -1, 2, -2, 0 have the mean square 2, which with a hundredth of itself is
2.02. In units of its root their energies are 1, 1, 4, 4, 0 (over 2.02), their mean is 0. Noise is
the median energy, 1; the median of what is remembered is 0, and so is the centre; distances are 1,
1, 4, 4, 0. Of the clients that sent something the median energy is 2.5, so that no update is long
(16 medians would be).

Round 2: what was kept, 1, -1 and 0, has the mean square 2/3: the new unit is smaller by the root
of 3. Updates: 2, 0, 0, -2, 0; r is the mean over trusted clients (0, 1, 4), 2/3. With decay 1/2, w
= 3/2 and q = 5/4. In units of the first round S = FIRST / 2 + sqrt(3) (SECOND - 2/3) = 2.809,
-1.655, -0.155, -5.619, -1.155, of which 2/3 are means: the three nearest to their median, the last
one, are those of clients 1, 2 and 4. Their centre is at S = -0.988. Energies over q are 4.467,
0.2, 0.8, 10.4, 0: the noise is 0.8. Distances are the squares of S + 0.988 (over 5/4 x 0.8 = 1).
"""

import numpy as np
import pytest

from foltr.components.aggregators import gated as gating
from foltr.components.aggregators.gated import Gated
from foltr.core import Cohort
from foltr.core.seeds import stream

pytestmark = pytest.mark.usefixtures("both_ways")

RULE = Gated(horizon=2, limit=3.0, uneven=2.0, longest=4.0)
FIRST, SECOND = [1.0, -1.0, 2.0, -2.0, 0.0], [2.0, 0.0, 0.0, -2.0, 0.0]
WEIGHTS = np.array([1.0, 2.0, 1.0, 1.0, 4.0])


def after(*rounds, rule=RULE):
    memory, direction = rule.init(1), None
    for updates in rounds:
        cohort = Cohort(
            np.arange(len(updates)),
            np.array(updates, np.float32)[:, None],
            WEIGHTS[: len(updates)],
        )
        direction, memory = rule(cohort, memory, stream(0, "rule"))
    return direction, memory


def test_the_first_round():
    direction, (ids, sums, tallies, scale) = after(FIRST)
    assert ids.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(sums[:, 0], np.array(FIRST) / np.sqrt(2.02), rtol=1e-12)
    np.testing.assert_array_equal(tallies[:, [gating.WEIGHT, gating.SQUARES]], np.ones((5, 2)))
    np.testing.assert_allclose(
        tallies[:, gating.ENERGY], np.array([1, 1, 4, 4, 0]) / 2.02, rtol=1e-12
    )
    np.testing.assert_allclose(
        tallies[:, gating.SCORE], np.array([1, 1, 4, 4, 0]) / 3.0, rtol=1e-12
    )
    assert RULE.suspects((ids, sums, tallies, scale)).tolist() == [2, 3]
    assert direction.tolist() == [pytest.approx((1.0 * 1 - 1.0 * 2 + 0.0 * 4) / 7)]
    np.testing.assert_allclose(scale, [2 / 3, 1.0, 2.5 / 2.02], rtol=1e-12)


def test_the_second_round():
    direction, memory = after(FIRST, SECOND)
    _, sums, tallies, scale = memory
    root = np.sqrt(3.0)  # the second round's unit in the first one's
    away = root * (np.array(SECOND) - 2 / 3)
    second = np.array(FIRST) / 2 + away
    np.testing.assert_allclose(sums[:, 0], second / np.sqrt(2.02), rtol=1e-12)
    np.testing.assert_allclose(tallies[:, gating.WEIGHT], 1.5)
    np.testing.assert_allclose(tallies[:, gating.SQUARES], 1.25)
    energy = np.array([1, 1, 4, 4, 0]) / 4 + np.minimum(3 * np.square(SECOND), away**2)
    np.testing.assert_allclose(tallies[:, gating.ENERGY], energy / 2.02, rtol=1e-12)

    np.testing.assert_allclose(energy / 1.25, [4.46667, 0.2, 0.8, 10.4, 0.0], rtol=1e-5)
    distances = (second - second[[1, 2, 4]].mean()) ** 2
    np.testing.assert_allclose(distances, [14.4208, 0.44444, 0.69444, 21.4448, 0.02778], rtol=1e-4)
    # their median is 0.69, so 3 is allowed: clients 0 and 3 are suspected, the others are those of
    # the centre already
    np.testing.assert_allclose(tallies[:, gating.SCORE], distances / 3.0, rtol=1e-12)
    assert RULE.suspects(memory).tolist() == [0, 3]  # client 2 is back
    assert direction.tolist() == [0.0]
    np.testing.assert_allclose(scale, [2 / 3 / 2, 1.5, 2.5 / 2.02 / 2 + 12 / 2.02], rtol=1e-12)


def test_where_clients_differ_more_is_allowed():
    """D is 1, 1, 4, 4, 0, its median 1: with uneven = 5 nobody is suspected, and the mean is that
    of all."""
    direction, memory = after(FIRST, rule=Gated(limit=3.0, uneven=5.0, longest=4.0))
    np.testing.assert_allclose(
        memory[2][:, gating.SCORE], np.array([1, 1, 4, 4, 0]) / 5.0, rtol=1e-12
    )
    assert direction.tolist() == [pytest.approx((1 * 1 - 1 * 2 + 2 * 1 - 2 * 1) / 9)]


def test_a_long_update_is_shortened_in_memory_and_left_out():
    """Of 1, -1, 2, -2, 30 the median energy is 4: with longest = 3 the energy may be 36, a length
    of 6."""
    direction, (_, sums, tallies, _) = after([1.0, -1.0, 2.0, -2.0, 30.0], rule=Gated(limit=1e6))
    unit = np.sqrt(910 / 5 * 1.01)
    assert sums[4, 0] * unit == pytest.approx((30 - 6) * 6 / 30)  # the mean of all is 6
    assert tallies[4, gating.ENERGY] * unit**2 == pytest.approx(((30 - 6) * 6 / 30) ** 2)
    assert direction.tolist() == [pytest.approx((1 * 1 - 1 * 2 + 2 - 2) / 5)]


def test_equal_updates_are_left_out_unless_they_are_nothing_or_the_majority():
    rule = Gated(limit=1e6)
    weighted = [(WEIGHTS[[0, 1, 4]] * (1.0, -1.0, 0.5)).sum() / 7]
    assert after([1.0, -1.0, 2.0, 2.0, 0.5], rule=rule)[0].tolist() == weighted
    assert after([0.0, -1.0, 2.0, 3.0, 0.0], rule=rule)[0].tolist() == [(-2.0 + 2.0 + 3.0) / 9]
    assert after([1.0, -1.0, 2.0, 2.0], rule=rule)[0].tolist() == [(1.0 - 2.0) / 3]
    assert after([1.0, 2.0, 2.0, 2.0, 0.5], rule=rule)[0].tolist() == [
        (1.0 + 4.0 + 2.0 + 2.0 + 2.0) / 9
    ]
