"""Kharitonov (WSDM 2019), Table 2: what one privatized MaxRR of a list of five can tell, to every
printed digit; and eq. 10."""

import math
from itertools import product

import numpy as np
import pytest

from foltr.components.learners.es import ES
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.simulation.audits.rewards import chances, click_tables, reported, worst_pair

P = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
TABLE_2 = {
    "perfect": ("0.51", "1.61", "2.71", "3.81", "4.55", "6.20"),
    "navigational": ("0.47", "1.52", "2.58", "3.65", "4.39", "6.00"),
    "informational": ("0.28", "1.00", "1.70", "2.56", "3.13", "4.39"),
}
FIVE = ES(k=5)  # hence six values


@pytest.mark.parametrize("kind", TABLE_2)
def test_table_2_to_every_printed_digit(kind):
    ours = tuple(f"{worst_pair(FIVE, Cascade(kind), 3, p).epsilon:.2f}" for p in P)
    assert ours == TABLE_2[kind]


@pytest.mark.parametrize("kind", TABLE_2)
@pytest.mark.parametrize("p", P)
def test_all_243_labellings_written_out_as_the_seed_does_give_the_same(kind, p):
    """q over the six outputs by its definition; then max over ordered pairs of labellings and over
    outputs."""
    click, _ = click_tables(Cascade(kind), 3, 5)
    outputs = []
    for grades in product(range(3), repeat=5):
        q, still = np.zeros(6), 1.0
        for rank, grade in enumerate(grades, 1):
            q[rank] = still * click[0, grade]
            still *= 1.0 - click[0, grade]
        q[0] = still
        outputs.append(q * p + (1.0 - q) * (1.0 - p) / 5.0)
    ratios = np.log(np.array(outputs)[:, None, :] / np.array(outputs)[None, :, :])
    assert worst_pair(FIVE, Cascade(kind), 3, p).epsilon == pytest.approx(ratios.max(), abs=1e-12)


@pytest.mark.parametrize("p", P)
def test_no_pair_exceeds_equation_10_and_perfect_users_reach_it(p):
    for kind in TABLE_2:
        for users, grades in ((Cascade(kind), 3), (Cascade(kind), 5), (PositionBased(eta=1.0), 3)):
            found = worst_pair(ES(k=10), users, grades, p) if p > 1 / 11 else None
            assert found is not None and found.epsilon <= found.bound + 1e-12
            assert found.bound == pytest.approx(math.log(p * 10 / (1 - p)))
    assert worst_pair(FIVE, Cascade("perfect"), 3, p).epsilon == pytest.approx(
        math.log(p * 5 / (1 - p))
    )


@pytest.mark.parametrize("objective", ["maxrr", "first", "last", "ctr", "dcg"])
@pytest.mark.parametrize("kind", TABLE_2)
def test_the_chances_of_a_reward_are_those_of_the_click_patterns(objective, kind):
    """Every pattern's probability by the cascade's definition, summed by the code that the learner
    gives it."""
    learner, lists = ES(k=4, objective=objective), np.array(list(product(range(3), repeat=4)))
    click, stop = click_tables(Cascade(kind), 3, 4)
    expected = np.zeros((len(lists), learner.reward_levels))
    _, coded = learner.reward_values()
    for pattern in product((False, True), repeat=4):
        last = max((j for j in range(4) if pattern[j]), default=-1)
        for i, grades in enumerate(lists):
            c, s = click[range(4), grades], stop[range(4), grades]
            seen = np.prod(
                [
                    c[j] * (1 - s[j] if j < last else 1) if pattern[j] else 1 - c[j]
                    for j in range(last + 1)
                ]
            )
            after = np.prod(1 - c[last + 1 :])
            chance = after if last < 0 else seen * (s[last] + (1 - s[last]) * after)
            expected[i, coded[learner.code(np.array(pattern))]] += chance
    ours = chances(learner, click, stop, lists)
    np.testing.assert_allclose(ours, expected, atol=1e-14)
    np.testing.assert_allclose(reported(ours, 0.7).sum(axis=1), 1.0, atol=1e-12)


def test_levels_put_rewards_together_and_the_bound_follows():
    coarse = ES(k=4, objective="dcg", levels=4)
    found = worst_pair(coarse, Cascade("informational"), 3, 0.8)
    assert found.epsilon <= found.bound == pytest.approx(np.log(0.8 * 3 / 0.2))


def test_long_lists_of_other_objectives_are_shortened():
    assert worst_pair(ES(objective="ctr"), Cascade(), 5, 0.9).depth == 7
    assert worst_pair(ES(), Cascade(), 5, 0.9).depth == 10
