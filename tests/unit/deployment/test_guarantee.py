"""What a node is told of its whole budget."""

import re

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.core.scoring import numbered
from foltr.deployment.guarantee import epsilon_of, experiment_of, spent, whole_budget
from foltr.deployment.protocol.agreement import Agreement


def agreement(**changes):
    usual = {
        "ranker": "Linear()",
        "learner": "PDGD(sessions=4)",
        "features": numbered(10),
        "asked": 20,
        "fewest": 16,
        "sessions": 4,
        "rounds": 50,
    }
    return Agreement(**usual | changes)


PRIVATE = {"privacy": "GammaShares(epsilon=2.0, sensitivity=1.0)", "channel": "SecureSum()"}


def test_the_whole_budget_is_the_servers_ledger_after_all_rounds():
    agreed = agreement(**PRIVATE)
    e = experiment_of(agreed, 40)  # the server's roster has more clients; who is asked is known
    assert whole_budget(agreed) == spent(e, agreed, 50).lines()
    half, whole = (epsilon_of(spent(e, agreed, t)) for t in (25, 50))
    assert half.keys() == whole.keys() and half != whole


def test_nobody_is_counted_as_colluding_in_a_deployment_and_it_says_so():
    text = " ".join(" ".join(whole_budget(agreement(**PRIVATE))).split())
    assert "No such client is counted." in text and "--colluding" not in text


def test_without_a_mechanism_there_is_no_guarantee():
    text = " ".join(" ".join(whole_budget(agreement())).split())
    assert re.search("There is no privacy guarantee", text)


def test_a_client_that_takes_part_once_in_ten_rounds_spends_a_tenth_of_the_rounds():
    apart, plain = agreement(**PRIVATE, separation=10), agreement(**PRIVATE)
    e = experiment_of(plain, 400)
    for rounds, answers in ((1, 1), (10, 1), (11, 2), (50, 5)):
        often = epsilon_of(spent(e, plain, answers))
        assert epsilon_of(spent(e, apart, rounds)) == often
    assert whole_budget(apart) == whole_budget(plain)  # `rounds` are those of one client
