"""Attacks, each on a round that a hand can work out. Most have one parameter: an update is one
number."""

import math

import numpy as np
import pytest

from asking import asked_of
from foltr.components.aggregators.krum import Krum
from foltr.components.attacks.compromised_model import CompromisedModel
from foltr.components.attacks.data_poisoning import DataPoisoning
from foltr.components.attacks.disguised import Disguised
from foltr.components.attacks.fang import FangKrum, FangMultiKrum, FangTrimmed
from foltr.components.attacks.inner_product import InnerProduct
from foltr.components.attacks.little_is_enough import LittleIsEnough
from foltr.components.attacks.mimic import Mimic
from foltr.components.attacks.min_max import MinMax, MinSum
from foltr.components.attacks.tailored import Tailored
from foltr.components.users.cascade import Cascade
from foltr.core import Cohort, cohorts
from foltr.core.errors import Mistake
from foltr.core.seeds import stream

pytestmark = pytest.mark.usefixtures("both_ways")


def sent(attack, malicious, honest, params=None):
    """What is sent in a round in which the malicious come first."""
    updates = np.array([*malicious, *honest], np.float32)
    updates = updates[:, None] if updates.ndim == 1 else updates
    n = len(updates)
    params = np.zeros(updates.shape[1]) if params is None else np.array(params)
    rows = np.arange(n) < len(malicious)
    c = Cohort(np.arange(n), updates, np.ones(n))
    return attack.craft(c, rows, asked_of(n, params.astype(np.float32)), stream(1, "attack"))


def every(value, m):
    return pytest.approx(np.full((m, 1), value), rel=1e-6)


def test_data_poisoning_changes_clicks_only():
    np.testing.assert_array_equal(sent(DataPoisoning(), [1.5, -2.0], [3.0]), [[1.5], [-2.0]])
    assert DataPoisoning().users == Cascade(kind="poison")
    click, stop = DataPoisoning().users.tables(5, 1)
    assert click[0].tolist() == [1.0, 0.8, 0.4, 0.2, 0.0] and not stop.any()
    assert DataPoisoning(clicks="Cascade(kind='informational')").users == Cascade(
        kind="informational"
    )
    assert not DataPoisoning().rewrites


# s = 5, 4, 3, 2 honest clients to win over; of the others 4 / 9, 4 / 8, 4 / 7, 4 / 6 are nearer
# than z
@pytest.mark.parametrize(("m", "z"), [(1, -0.1397), (2, 0.0), (3, 0.1800), (4, 0.4307)])
def test_the_z_of_ten_clients(m, z):
    assert LittleIsEnough().coefficient(10, m) == pytest.approx(z, abs=5e-5)


# (n - s) / n = .5, .6, .7, .8
@pytest.mark.parametrize(("m", "z"), [(1, 0.0), (2, 0.2533), (3, 0.5244), (4, 0.8416)])
def test_the_z_of_the_other_variant(m, z):
    assert LittleIsEnough(variant="all").coefficient(10, m) == pytest.approx(z, abs=5e-5)


def test_little_is_enough():
    """Own 1, 2, 3, 6: mu = 3, sigma^2 = (4 + 1 + 0 + 9) / 4 = 3.5; 3 - .4307 x 1.8708 = 2.1942."""
    assert sent(LittleIsEnough(), [1, 2, 3, 6], [9] * 6) == pytest.approx(
        np.full((4, 1), 2.1942), abs=1e-4
    )
    assert sent(LittleIsEnough(z=2.0), [1, 2, 3, 6], [9] * 6) == every(3 - 2 * math.sqrt(3.5), 4)
    assert sent(LittleIsEnough(), [5], [9] * 9) == every(5, 1)  # no spread
    assert sent(LittleIsEnough(), [5, 6], [9] * 8) == every(5.5, 2)  # z = 0
    assert sent(LittleIsEnough(z=1.0, knowledge="all"), [1], [3, 3, 5]) == every(
        3 - math.sqrt(2), 1
    )


def test_little_is_enough_says_where_it_is_void():
    own, both = LittleIsEnough(), LittleIsEnough(knowledge="all")
    assert (
        "no spread" in own.fits(10, 1)[0]
        and "z is 0" in own.fits(10, 2)[0]
        and own.fits(10, 3) == ()
    )
    assert "-0.14" in both.fits(10, 1)[0]
    with pytest.raises(ValueError, match="6 malicious clients of 10: take at most 5"):
        own.fits(10, 6)
    assert LittleIsEnough(z=1.0).fits(10, 6) == ()
    # no z hides them: honest
    np.testing.assert_array_equal(sent(own, [1, 2, 3], [9]), [[1], [2], [3]])


# sums of the two nearest: 3 + 6, 3 + 3, 3 + 4, 4 + 7, so that the smallest is 6
HONEST = [-4, -1, 2, 6]
OWN = [1, 2]  # with these the mean of all six is 1: s = -1


def krum_scores(crafted, honest, m, squared=False):
    updates = np.concatenate([crafted, np.array(honest, float).reshape(len(honest), -1)])
    return cohorts.krum_scores(
        np.sqrt(cohorts.squared_distances(updates)), len(updates) - m - 2, squared
    )


def test_fang_against_krum():
    """n = 6, m = 2, two nearest. The bound is 6 / (6 - 4 - 1) + max |u| = 12.

    lambda = 12: a copy at -12 scores 0 + 8, the honest -1 scores 6. lambda = 6: 0 + 2; the honest
    -4 has both copies at 2 and scores 4, the others 6 or more: picked."""
    crafted = sent(FangKrum(knowledge="all"), OWN, HONEST)
    assert crafted == every(-6, 2)
    assert krum_scores(crafted, HONEST, 2).tolist() == [2, 2, 4, 6, 7, 11]


def test_fang_against_krum_with_squares():
    """The smallest sum of squares is 9 + 9: the bound is sqrt(18 / 1) + 6 = 10.243. There (10.243
    - 4)^2 > 18; at its half 1.12^2 is the lowest score, because the honest -4 has it twice."""
    crafted = sent(FangKrum(knowledge="all", squared=True), OWN, HONEST)
    assert crafted == every(-(math.sqrt(18) + 6) / 2, 2)
    assert krum_scores(crafted, HONEST, 2, squared=True).argmin() == 0


def test_fang_against_multi_krum():
    """Four are averaged, so that two honest ones may be better: -1 and 2 are, with 6 and 7 against
    8 at lambda = 12."""
    crafted = sent(FangMultiKrum(knowledge="all"), OWN, HONEST)
    assert crafted == every(-12, 2)
    assert krum_scores(crafted, HONEST, 2).tolist() == [8, 8, 9, 6, 7, 11]


def test_a_number_that_nobody_changes_changes_nothing():
    """s = (-1, 0) with |s| = 1: the bound stays 12. (12 / sqrt(2) = 8.49 is none: at 9.9 a copy
    scores 5.9, the best honest model 6.) At the bound none is picked, at 6 a copy is."""
    crafted = sent(
        FangKrum(knowledge="all"),
        [(x, 0) for x in OWN],
        [(x, 0) for x in HONEST],
        params=[5.0, 7.0],
    )
    assert crafted == pytest.approx(np.array([[-6.0, 0.0]] * 2))
    assert krum_scores([[-9.9]] * 2, HONEST, 2).tolist() == pytest.approx(
        [5.9, 5.9, 8.9, 6, 7, 11]
    )


def test_fang_against_krum_goes_against_the_mean_of_all():
    """Own -10, -10: the mean of all six is -17 / 6, that of the honest is 3 / 4. So s = +1. At 12
    a copy scores 6, as the honest -1 does; at 6 it scores 0, as the honest 6 beside it does; at 3
    it scores 1, and the honest 2 has 2."""
    assert sent(FangKrum(knowledge="all"), [-10, -10], HONEST) == every(3, 2)


def test_the_start_of_own_knowledge_is_as_long_as_own_updates():
    """(2, -2, 2, 2) is 4 long, s is 2 long: lambda = 2. (2, 0, -2, 1) is 3 long, s is sqrt(3)
    long."""
    assert sent(FangKrum(), [(2, -2, 2, 2)], [(9,) * 4] * 9).tolist() == [[-2, 2, -2, -2]]
    crafted = sent(FangKrum(start=2.0), [(2, 0, -2, 1)], [(9,) * 4] * 9)
    assert crafted == pytest.approx(2 * math.sqrt(3) * np.array([[-1, 0, 1, -1]]))


def test_fang_gives_up_below_a_hundred_thousandth():
    """n = 6, m = 1, three nearest: a single copy beside 1, 2, 3, 4, 5 scores 6 at 0 and more
    below, the honest 3 scores
    4. The bound 4 / 3 + 5 is halved 20 times."""
    assert sent(FangKrum(knowledge="all"), [3], [1, 2, 3, 4, 5]) == every(-(4 / 3 + 5) / 2**20, 1)
    assert 1e-5 / 2 < (4 / 3 + 5) / 2**20 < 1e-5


def test_fang_with_own_knowledge():
    """Own 1, 2, 4, 5: s = -1, the start is their mean length 3, two nearest are summed.

    One copy at -lambda scores (1 + lambda) + (2 + lambda), never less than the 3 of own 2. Two
    copies score 0 and 1 + lambda: 4 at lambda = 3, 2.5 at 1.5; own 1 then scores 1 + 2.5, the
    others 3 or 4: picked."""
    own = [1, 2, 4, 5]
    assert sent(FangKrum(), own, [100] * 6) == every(-1.5, 4)
    assert sent(FangKrum(start=0.25), own, [100] * 6) == every(-0.75, 4)
    # Multi-Krum averages four, and one copy beside four own may be the last of them: it must only
    # be better than own 5, which scores 1 + 3. At 3, 1.5, .75 it scores 9, 6, 4.5; at .375 it is
    # 1.375 + 2.375
    assert sent(FangMultiKrum(), own, [100] * 6) == every(-0.375, 4)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_up_to_three_own_updates_reveal_nothing(m):
    """One distance is summed: a copy ties with its neighbour, and two copies are neighbours:
    lambda is the start."""
    own = [1.0, 4.0, 7.0][:m]
    assert sent(FangKrum(), own, [100] * (10 - m)) == every(-np.mean(own), m)
    assert len(FangKrum().fits(10, m)) == 1 and FangKrum().fits(10, 4) == ()


@pytest.mark.parametrize("attack", [FangKrum(), FangKrum(knowledge="all"), FangMultiKrum()])
def test_fang_against_krum_needs_more_than_2m_plus_1(attack):
    attack.fits(10, 4)
    with pytest.raises(
        ValueError, match=r"needs n > 2m \+ 1 clients, got m = 4 malicious of n = 9"
    ):
        attack.fits(9, 4)


def test_a_round_that_chance_gives_to_the_malicious_is_attacked_with_own_knowledge():
    assert sent(FangKrum(knowledge="all"), [1, 3], [50, 50, 50]) == every(-2, 2)


#  model before  honest updates     s   models     drawn from
FOUR_CASES = [
    (0.0, [-3, -1, 1], +1, (-3, 1), (1, 2)),  # mean < 0, max > 0: [max, 2 max]
    (-5.0, [-3, -1, 1], +1, (-8, -4), (-4, -2)),  # max <= 0: [max, max / 2]
    (5.0, [3, 1, -1], -1, (4, 8), (2, 4)),  # mean > 0, min > 0: [min / 2, min]
    (0.0, [3, 1, -1], -1, (-1, 3), (-2, -1)),  # min <= 0: [2 min, min]
]


@pytest.mark.parametrize(("theta", "honest", "s", "models", "interval"), FOUR_CASES)
def test_fang_against_trimmed_mean_with_full_knowledge(theta, honest, s, models, interval):
    honest = np.array(honest, float)
    assert (theta + honest.min(), theta + honest.max()) == models and np.sign(-honest.mean()) == s
    # as models
    crafted = sent(FangTrimmed(knowledge="all"), [honest.mean()] * 200, honest, [theta]) + theta
    assert interval[0] <= crafted.min() < interval[0] + 0.05 * (interval[1] - interval[0])
    assert interval[1] - 0.05 * (interval[1] - interval[0]) < crafted.max() <= interval[1]
    assert crafted.mean() == pytest.approx(
        np.mean(interval), abs=0.1 * (interval[1] - interval[0])
    )
    assert ((crafted >= models[1]) if s > 0 else (crafted <= models[0])).all()


def test_fang_against_trimmed_mean_with_another_b():
    crafted = sent(FangTrimmed(knowledge="all", b=10.0), [-1.0] * 200, [-3, -1, 1])
    assert crafted.min() >= 1 and 9.5 < crafted.max() <= 10


def test_fang_against_trimmed_mean_looks_at_all_for_the_side_and_at_the_honest_for_the_edge():
    """Malicious -20 and 50 before the attack: the mean of all is above 0, that of the honest -1.
    So s = -1, and the edge is the lowest honest -3. The second number has the mean 0 of all (and
    honest ones around it): theta stays."""
    honest = [(-3, 1), (-1, -1), (1, 0)]
    crafted = sent(FangTrimmed(knowledge="all"), [(-20, 0), (50, 0)] * 100, honest, [0.0, 7.0])
    assert -6 <= crafted[:, 0].min() < -5.9 and -3.1 < crafted[:, 0].max() <= -3
    assert not crafted[:, 1].any()


def test_fang_against_trimmed_mean_with_own_knowledge():
    """Own 1, 3 (sigma 1): 2 - [3, 4]; own -1, -3: -2 + [3, 4], whatever the model is. All 0 in the
    second number."""
    own = [(1, 0), (3, 0)] * 100
    crafted = sent(FangTrimmed(), own, [(50, 50)], [7.0, 7.0])
    assert -2 <= crafted[:, 0].min() < -1.95 and -1.05 < crafted[:, 0].max() <= -1
    assert not crafted[:, 1].any()
    mirrored = sent(FangTrimmed(), [(-x, 0) for x, _ in own], [(50, 50)], [7.0, 7.0])
    np.testing.assert_allclose(mirrored, -crafted, atol=1e-6)
    assert (
        sent(FangTrimmed(), [5], [50]) == every(5, 1)
        and "no effect" in FangTrimmed().fits(10, 1)[0]
    )


def test_a_compromised_model():
    """theta = 1, u = .5: the model -2 x 1.5 = -3 is the update -4 = -2 x .5 - 3 x 1."""
    assert sent(CompromisedModel(), [0.5], [9], [1.0]) == every(-4, 1)
    np.testing.assert_allclose(
        sent(CompromisedModel(z=1.0), [(1, 2), (0, 0)], [(9, 9)], [3, 4]), [[-7, -10], [-6, -8]]
    )


@pytest.mark.parametrize("direction", ["std", "unit", "sign"])
def test_min_max_and_min_sum_of_one_number(direction):
    """Honest 0, 1, 5: mu = 2, the farthest two are 5 apart: down to 0, where 5 is as far. Min-Sum:
    5 is 3 from the mean, so down to -1, where 1 + 4 + 36 = 41 = 25 + 16."""
    assert sent(MinMax(direction=direction), [7, 7], [0, 1, 5]) == every(0, 2)
    assert sent(MinSum(direction=direction), [7, 7], [0, 1, 5]) == every(-1, 2)
    assert sent(MinMax(direction=direction, knowledge="own"), [0, 1, 5], [7, 7]) == every(0, 3)
    assert sent(MinSum(direction=direction, knowledge="own"), [0, 1, 5], [7, 7]) == every(-1, 3)


def test_min_max_in_two_dimensions():
    """Honest (3, 0), (3, 4), 4 apart, mu = (3, 2). Along (-1, -1): g^2 + (2 + g)^2 <= 16 for the
    second, so g = sqrt(7) - 1. The spread is (0, 2), all in the second number: down by 2, where
    (3, 4) is 4 away."""
    honest = [(3, 0), (3, 4)]
    g = math.sqrt(7) - 1
    assert sent(MinMax(direction="sign"), [(0, 0)], honest) == pytest.approx(
        np.array([[3 - g, 2 - g]])
    )
    assert sent(MinMax(), [(0, 0)], honest) == pytest.approx(np.array([[3, 0]]))
    # Min-Sum goes 2 from the mean: along the spread to (3, 0), along (-1, -1) by sqrt(2) each
    assert sent(MinSum(), [(0, 0)], honest) == pytest.approx(np.array([[3, 0]]))
    assert sent(MinSum(direction="sign"), [(0, 0)], honest) == pytest.approx(
        np.array([[3, 2]]) - math.sqrt(2)
    )
    along = 1 - 2 / math.sqrt(13)
    assert sent(MinSum(direction="unit"), [(0, 0)], honest) == pytest.approx(
        np.array([[3, 2]]) * along
    )


def test_one_known_update_leaves_no_room():
    for attack in (MinMax(knowledge="own"), MinSum(knowledge="own")):
        assert sent(attack, [5], [1, 2, 3]) == every(5, 1)
        assert "no effect" in attack.fits(10, 1)[0] and attack.fits(10, 2) == ()


def test_inner_product_manipulation():
    assert sent(InnerProduct(scale=0.5), [10, 20], [1, 3]) == every(-1, 2)
    assert sent(InnerProduct(scale=2.0, knowledge="own"), [10, 20], [1, 3]) == every(-30, 2)


def test_mimic_copies_one_honest_client():
    updates = np.array([[0, 0], [1, 0], [-1, 0.1], [5, 0], [0, 2]], np.float32)
    c, malicious = (
        Cohort(np.array([9, 8, 7, 6, 5]), updates, np.ones(5)),
        np.array([0, 0, 0, 0, 1], bool),
    )
    args = malicious, asked_of(5, np.zeros(2, np.float32)), stream(1, "attack")
    # client 6 is the first honest one
    np.testing.assert_array_equal(Mimic().craft(c, *args), updates[[3]])
    # the honest updates lie along the first axis around 1.25, and (5, 0) is farthest out
    np.testing.assert_array_equal(Mimic(target="outermost").craft(c, *args), updates[[3]])
    closer = Cohort(c.clients, np.where(updates == 5, 2, updates), c.weights)  # now (-1, .1) is
    np.testing.assert_array_equal(Mimic(target="outermost").craft(closer, *args), updates[[2]])


def test_tailored_to_the_mean_goes_as_far_as_it_may():
    """Honest 0, 1, 5: mu = 2, the farthest is 3 away: 2 - 16 x 3."""
    assert sent(Tailored(rule="Mean()"), [7, 7], [0, 1, 5]) == every(-46, 2)
    assert sent(Tailored(rule="Mean()", reach=2.0), [7, 7], [0, 1, 5]) == every(-4, 2)


def test_tailored_to_krum_goes_as_far_as_it_is_picked():
    """HONEST: mu = .75, the farthest is 5.25 away. With two nearest and two copies, a copy at x <
    -4 scores -4 - x, and the best honest one 6: x = .75 - 5.25 gamma is picked up to gamma = 2.05.
    Of 16, 8, 4, 2, 1, ... 2 moves Krum most (10.5, to -9.75), and none of 3, 2.5, 2.25, 2.125 is
    picked."""
    assert sent(Tailored(rule="Krum(malicious=2)"), OWN, HONEST) == every(-9.75, 2)
    # with a reach of 20 the last tried are 20 / 16 = 1.25 and 1.25 + 1.25 x (1/2 + 1/8) = 2.03125
    assert sent(Tailored(rule="Krum(malicious=2)", reach=20.0), OWN, HONEST) == every(
        0.75 - 5.25 * 2.03125, 2
    )


@pytest.mark.parametrize("direction", ["std", "unit", "sign"])
def test_tailored_to_krum_does_not_take_an_honest_choice_for_its_own(direction):
    """Honest 5 e_1, ..., 5 e_5: mu = (1, ..., 1), each is sqrt(20) away, across p = -2 (1, ...,
    1). Three nearest: a single crafted 1 - 2 gamma is sqrt(20 (1 + gamma^2)) from all, and picked
    if these are less than the sqrt(50) between honest ones: gamma < sqrt(1.5) = 1.2247. Else an
    honest one is, sqrt(20) from mu but not along p: 0. With a reach of 12, 12 / 16 = .75 is best,
    then 1.125 and 1.21875; of 16, 1, then 1.125 and 1.1875."""
    honest = 5.0 * np.eye(5)
    for reach, gamma in ((12.0, 1.21875), (16.0, 1.1875)):
        crafted = sent(
            Tailored(rule=Krum(malicious=1), direction=direction, reach=reach),
            [np.zeros(5)],
            honest,
        )
        assert crafted == pytest.approx(np.full((1, 5), 1 - 2 * gamma), rel=1e-6)
        seen = Cohort(
            np.arange(6), np.concatenate([crafted, honest.astype(np.float32)]), np.ones(6)
        )
        np.testing.assert_array_equal(Krum(malicious=1).combine(seen), crafted[0])


# The honest mean is 2, so each would send -1; their own updates 1 and 5 lie 2 below and above
# their mean.
@pytest.mark.parametrize(("share", "messages"), [(1.0, [-3.0, 1.0]), (0.5, [-2.0, 0.0])])
def test_a_disguise_scatters_messages_as_honest_updates_do(share, messages):
    found = sent(
        Disguised(attack=InnerProduct(scale=0.5), share=share), [1.0, 5.0], [1.0, 2.0, 3.0]
    )
    assert found[:, 0].tolist() == pytest.approx(messages)


def test_a_disguise_needs_something_to_hide():
    with pytest.raises(Mistake, match="DataPoisoning changes no messages: it needs no disguise"):
        Disguised(attack="DataPoisoning()")
    (note,) = Disguised(attack=InnerProduct()).fits(10, 1)
    assert "a single malicious client" in note
