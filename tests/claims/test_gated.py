"""What it takes to deceive `Gated`, on MQ2008, from the file in reproduce/. Levels are means of
three folds, each with its own seed, of the last five evaluations of offline nDCG@10."""

from collections import defaultdict

import numpy as np
import pytest

from foltr.core.spec import opened

pytestmark = pytest.mark.claims
NOISY = ("navigational", "informational")
LITTLE = 0.01


@pytest.fixture(scope="module")
def levels(made):
    """(partition, roaming, kind, rule, attack, m) -> level; m is 0 where nobody attacks."""
    found = defaultdict(list)
    for run in made("gated"):
        c = run.config
        where = (
            opened(c["partition"]).name,
            opened(c["partition"]).fields.get("labels"),
            c["roaming"],
        )
        kind, rule = opened(c["users"]).fields["kind"], opened(c["aggregator"])
        m = c["malicious"] if "attack" in c else 0
        # of honest runs of rules that assume 2 or 4, the former
        if m or rule.fields.get("malicious", 2) == 2:
            found[where, kind, rule.name, c.get("attack"), m].append(
                run.curve("ndcg@10").values[-5:].mean()
            )
    assert {len(values) for values in found.values()} == {3}
    return {place: float(np.mean(values)) for place, values in found.items()}


EVEN, TURNS = ("IID", None, False), ("IID", None, True)


def attacked(levels, where, rule):
    """(kind, attack, m) -> level, of all attacks that were tried."""
    return {
        (kind, attack, m): level
        for (place, kind, its, attack, m), level in levels.items()
        if place == where and its == rule and m
    }


@pytest.mark.parametrize("kind", NOISY)
def test_no_disguise_and_no_strength_deceives_it(levels, kind):
    honest = levels[EVEN, kind, "Mean", None, 0]
    tried = {
        place: level
        for place, level in attacked(levels, EVEN, "Gated").items()
        if place[0] == kind
    }
    assert len(tried) == 18 and min(tried.values()) > honest - LITTLE
    for rule in ("Mean", "Median", "MultiKrum", "TrimmedMean"):
        worst = min(
            level for place, level in attacked(levels, EVEN, rule).items() if place[0] == kind
        )
        assert worst < honest - 0.2


def test_who_takes_turns_defeats_it(levels):
    hurt = attacked(levels, TURNS, "Gated")
    poisoned = [
        level
        for (_, attack, m), level in hurt.items()
        if opened(attack).name == "DataPoisoning" and m == 4
    ]
    assert len(poisoned) == len(NOISY) and max(poisoned) < 0.4
    copies = [
        level for (_, attack, _), level in hurt.items() if opened(attack).name.startswith("Fang")
    ]
    assert len(copies) == 8 and min(copies) > 0.66  # which are seen all the same


def test_honest_clients_who_differ_cost_little(levels):
    for where in (("ByLabel", 2, False), ("ByVolume", None, False), ("ByClicks", None, False)):
        for kind in ("perfect", *NOISY) if where[0] != "ByClicks" else ("perfect",):
            assert (
                levels[where, kind, "Gated", None, 0]
                > levels[where, kind, "Mean", None, 0] - 0.006
            )


@pytest.mark.parametrize("kind", ("perfect", *NOISY))
def test_where_each_client_has_one_label_gated_may_be_far_below_the_mean(levels, kind):
    """Every rule fails there, and three repetitions differ much."""
    where = ("ByLabel", 1, False)
    found = {
        rule: levels[where, kind, rule, None, 0]
        for rule in ("Mean", "Median", "Gated", "MultiKrum")
    }
    print(kind, {rule: round(level, 3) for rule, level in found.items()})
    assert max(found.values()) < 0.56
    assert kind != "informational" or found["Gated"] < found["Mean"] - 0.05
