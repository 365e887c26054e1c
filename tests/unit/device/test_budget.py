"""The privacy budget of a device, against the ledger of its federation."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.components.rankers.linear import Linear
from foltr.deployment.guarantee import experiment_of, spent
from foltr.deployment.protocol.agreement import Agreement
from foltr.device.budget import Spent, epsilon_after, messages_within, spent_of, spent_text
from foltr.device.searching import NAMES
from foltr.experiment import Experiment
from foltr.privacy.guarantee import DELTA, ledger_of
from property_settings import examples

SHARES = Agreement(
    Linear(start=(5.0,)), PDGD(lr=0.2, sessions=4), NAMES, asked=5, fewest=4, sessions=4,
    rounds=12, privacy=Gaussian(noise=8.0, clip=1.0, where="shares"), channel=SecureSum(),
)  # fmt: skip
SINGLE = replace(SHARES, privacy=Laplace(epsilon=0.25, clip=1.0), channel=None)
PLAIN = replace(SHARES, privacy=None, channel=None)
NOISY = [SHARES, SINGLE, replace(SHARES, separation=3)]


@pytest.mark.parametrize("agreed", NOISY, ids=["shares", "single", "separation"])
def test_epsilon_grows_with_every_answer(agreed):
    found = [epsilon_after(agreed.text, answers) for answers in range(13)]
    assert found[0] == 0.0 and math.isfinite(found[-1])
    assert all(before < after for before, after in pairwise(found))


@pytest.mark.parametrize("answers", [1, 2, 5, 12])
def test_epsilon_is_that_of_the_server_s_own_ledger(answers):
    for agreed in NOISY:
        rounds = answers * (agreed.separation or 1)
        ledger = spent(experiment_of(agreed, agreed.asked), agreed, rounds)
        expected = ledger.guarantee("server", "client").epsilon
        assert epsilon_after(agreed.text, answers) == expected


def test_epsilon_is_that_of_foltr_privacy_for_as_many_rounds():
    """The ledger of an experiment whose clients all answer, before anything runs."""
    e = Experiment(
        data="Synthetic(queries=20)", ranker=SINGLE.ranker, learner=SINGLE.learner,
        privacy=SINGLE.privacy, clients=5, rounds=3,
    )  # fmt: skip
    ledger = ledger_of(e, len(NAMES), DELTA)
    found = ledger.guarantee("server", "client").epsilon
    assert epsilon_after(SINGLE.text, 3) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("agreed", NOISY, ids=["shares", "single", "separation"])
def test_a_budget_buys_the_messages_that_brute_force_counts(agreed):
    steps = [epsilon_after(agreed.text, answers) for answers in range(13)]
    for step in steps[1:]:
        for budget in (math.nextafter(step, 0.0), step, math.nextafter(step, math.inf)):
            expected = sum(each <= budget for each in steps[1:])
            assert messages_within(agreed.text, budget) == expected


@examples(30)
@given(st.floats(1e-6, 50.0), st.integers(1, 12))
def test_any_budget_buys_the_messages_that_brute_force_counts(budget, rounds):
    text = replace(SHARES, rounds=rounds).text
    fitting = [n for n in range(1, rounds + 1) if epsilon_after(text, n) <= budget]
    assert messages_within(text, budget) == max(fitting, default=0)


def test_the_agreement_s_own_limit_holds_beside_any_budget():
    assert messages_within(SHARES.text, None) == messages_within(SHARES.text, 1e9) == 12
    assert messages_within(PLAIN.text, None) == 12


def test_a_budget_may_be_too_small_for_one_message():
    one = epsilon_after(SHARES.text, 1)
    assert messages_within(SHARES.text, one / 2) == 0
    assert spent_of(SHARES.text, one / 2, 0).over
    assert not spent_of(SHARES.text, one, 0).over


def test_without_noise_a_message_costs_everything():
    assert epsilon_after(PLAIN.text, 0) == 0.0 and epsilon_after(PLAIN.text, 1) == math.inf
    assert messages_within(PLAIN.text, 5.0) == 0
    assert not spent_of(PLAIN.text, None, 3).over


def test_noise_that_a_simulation_can_repeat_buys_nothing():
    open_to_all = replace(SHARES, noise="address")
    assert messages_within(open_to_all.text, 100.0) == 0


def test_a_period_s_budget_is_spent_by_its_own_messages():
    text = SHARES.text
    budget = epsilon_after(text, 2)
    assert not spent_of(text, budget, 1, 9).over
    assert spent_of(text, budget, 2, 9).over
    assert not spent_of(text, budget, 0, 9).over


def test_the_agreement_s_limit_counts_the_messages_of_all_periods():
    text = SHARES.text
    budget = epsilon_after(text, 2)
    assert not spent_of(text, budget, 0, 11).over
    found = spent_of(text, budget, 0, 12)
    assert found.over
    assert spent_text(found, 30.0) == (
        "This device has sent all 12 messages that the agreement allows."
    )


def test_what_is_spent_is_said():
    found = Spent(2, 0.5, 1.0, 5, 2, 12)
    assert spent_text(found, 30.0) == "2 of 5 messages in 30 days; so far epsilon 0.50."
    over = Spent(5, 0.99, 1.0, 5, 5, 12)
    assert "The budget is spent (5 of 5 messages in 30 days)" in spent_text(over, 30.0)
    assert "there is no privacy budget" in spent_text(spent_of(PLAIN.text, None, 0), 365.0)
    assert "there is no privacy budget" in spent_text(spent_of(PLAIN.text, None, 2), 365.0)
    unlimited = spent_text(spent_of(SHARES.text, None, 0), 365.0)
    assert unlimited == "0 of 12 messages in 365 days; so far epsilon 0.00."
