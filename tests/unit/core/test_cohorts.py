"""Rules and attacks that compare all pairs of updates are refused up front where n^2 distances do
not fit in memory."""

import pytest

from foltr.components.aggregators.krum import Krum
from foltr.core import cohorts
from foltr.core.errors import Mistake
from foltr.core.system.process import machine_memory
from foltr.experiment import Experiment

QUADRATIC = [
    ("Krum()", 8),
    ("MultiKrum()", 8),
    ("NNM(rule=Mean())", 8),
    ("Bulyan()", 20),
    ("Gated(fallback=Krum())", 8),
]


@pytest.mark.parametrize(("rule", "each"), QUADRATIC)
def test_a_rule_that_compares_all_pairs(rule, each, monkeypatch):
    monkeypatch.setattr(cohorts, "machine_memory", lambda: each * 1000**2)
    Experiment(clients=1000, aggregator=rule)
    with pytest.raises(Mistake, match=r"every pair of 1,001 updates: n\^2 distances need") as told:
        Experiment(clients=1001, aggregator=rule)
    assert "At most 1,000 updates fit: lower clients or participation" in str(told.value)


def test_participation_and_buckets_are_the_way_out(monkeypatch):
    monkeypatch.setattr(cohorts, "machine_memory", lambda: 8 * 1000**2)
    Experiment(clients=5000, participation=0.2, aggregator="Krum()")
    Experiment(clients=2000, aggregator="Bucketing(rule=Krum(), size=2)")
    with pytest.raises(Mistake, match=r"1500 buckets of 3000 clients: Krum.* pair of 1,500"):
        Experiment(clients=3000, aggregator="Bucketing(rule=Krum(), size=2)")


@pytest.mark.parametrize("attack", ["MinMax", "FangKrum", "FangMultiKrum"])
def test_an_attack_that_compares_all_updates_that_it_knows(attack, monkeypatch):
    monkeypatch.setattr(cohorts, "machine_memory", lambda: 8 * 500**2)
    Experiment(clients=1000, attack=f"{attack}(knowledge='own')", malicious=3)
    with pytest.raises(Mistake, match=rf"{attack}.* compares every pair of 997 updates"):
        Experiment(clients=1000, attack=f"{attack}(knowledge='all')", malicious=3)


def test_a_machine_whose_memory_is_not_known_refuses_nothing(monkeypatch):
    monkeypatch.setattr(cohorts, "machine_memory", lambda: None)
    e = Experiment(clients=10**8, aggregator="Krum()")
    assert (e.clients, e.aggregator) == (10**8, Krum())


def test_the_memory_of_this_machine():
    there = machine_memory()
    assert there is None or 10**8 < there < 10**16
