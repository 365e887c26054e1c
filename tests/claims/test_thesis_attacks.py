"""Chapter 5 of the thesis in kind, on MQ2008, from the file in reproduce/: what it finds, and what
`Gated` adds. Levels are means of five folds, each with its own seed, of the last five evaluations
of offline nDCG@10."""

from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import pytest

from foltr.core.spec import opened

pytestmark = pytest.mark.claims
PERFECT, NAVIGATIONAL, INFORMATIONAL = KINDS = ("perfect", "navigational", "informational")
ROBUST = ("Krum", "MultiKrum", "TrimmedMean", "Median")
POISON = ("DataPoisoning", None)
KNOWING = product(("LittleIsEnough", "FangKrum", "FangMultiKrum", "FangTrimmed"), ("own", "all"))
ATTACKS = (POISON, *KNOWING)
FALLEN = 0.45  # far below what an untrained ranker has: the ranker was turned round
LITTLE = 0.01


@pytest.fixture(scope="module")
def level(made):
    """level(kind, rule, attack, m), where rules assume as many as attack; without an attack as
    many as m says."""
    found = defaultdict(list)
    for run in made("thesis-5-attacks"):
        kind, rule = opened(run.config["users"]).fields["kind"], opened(run.config["aggregator"])
        attack = opened(run.config["attack"]) if "attack" in run.config else None
        did = None if attack is None else (attack.name, attack.fields.get("knowledge"))
        if attack is not None and attack.fields.get("start", 1.0) != 1.0:
            did = (*did, attack.fields["start"])
        m = rule.fields.get("malicious", 0) if attack is None else run.config["malicious"]
        found[kind, rule.name, did, m].append(run.curve("ndcg@10").values[-5:].mean())

    def of(kind, rule, attack=None, m=0):
        values = found[kind, rule, attack, m]
        assert len(values) == 5, (kind, rule, attack, m)
        return float(np.mean(values))

    return of


@pytest.mark.parametrize("kind", KINDS)
def test_more_attackers_hurt_more(level, kind):
    for attack in ATTACKS:
        by_number = [level(kind, "Mean", attack, m) for m in (1, 2, 3, 4)]
        tuned_to_krum = attack == ("FangKrum", "own")  # and harmless to the mean
        assert tuned_to_krum or all(
            more < fewer + LITTLE for fewer, more in pairwise(by_number)
        ), (attack, by_number)


def test_informational_clicks_are_easiest_to_poison_and_perfect_ones_hardest(level):
    for m in (2, 3):  # with 4 there is nothing left to lose
        lost = [level(kind, "Mean") - level(kind, "Mean", POISON, m) for kind in KINDS]
        assert lost == sorted(lost), (m, lost)
    assert level(PERFECT, "Mean", POISON, 4) > 0.68
    assert (
        max(level(NAVIGATIONAL, "Mean", POISON, 4), level(INFORMATIONAL, "Mean", POISON, 3))
        < FALLEN
    )


def test_lie_is_weaker_than_poisoned_clicks(level):
    """Where those do anything at all: under perfect clicks they do not, and LIE by 4 of 10 does
    slightly more."""
    for kind, m, knows in product((NAVIGATIONAL, INFORMATIONAL), (2, 3, 4), ("own", "all")):
        assert (
            level(kind, "Mean", ("LittleIsEnough", knows), m)
            > level(kind, "Mean", POISON, m) + 0.05
        )


def test_krum_and_multi_krum_withstand_poisoned_navigational_clicks(level):
    """And informational ones from 3 of 10 on defeat all rules of the thesis."""
    for m in (3, 4):
        distances = [level(NAVIGATIONAL, rule, POISON, m) for rule in ("Krum", "MultiKrum")]
        coordinates = [level(NAVIGATIONAL, rule, POISON, m) for rule in ("TrimmedMean", "Median")]
        assert min(distances) > max(coordinates) + 0.04, m
        assert all(level(INFORMATIONAL, rule, POISON, m) < FALLEN for rule in ROBUST)


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_clear_gain_against_one_poisoner_of_ten(level, kind):
    assert (
        max(level(kind, rule, POISON, 1) for rule in ROBUST)
        < level(kind, "Mean", POISON, 1) + LITTLE
    )


@pytest.mark.parametrize("kind", KINDS)
def test_fang_defeats_krum_and_multi_krum_and_trimmed_mean_and_median_less(level, kind):
    for knows in ("own", "all"):
        krum, multi = (
            level(kind, "Krum", ("FangKrum", knows), 3),
            level(kind, "MultiKrum", ("FangMultiKrum", knows), 3),
        )
        assert krum < FALLEN and multi < level(kind, "Mean") - 0.2
        for rule in ("TrimmedMean", "Median"):
            assert level(kind, rule, ("FangTrimmed", knows), 3) > min(krum, multi) - LITTLE
    assert level(kind, "Krum", ("FangKrum", "all"), 2) < FALLEN
    assert (
        min(level(kind, rule, ("FangTrimmed", "all"), 2) for rule in ("TrimmedMean", "Median"))
        > 0.55
    )


@pytest.mark.parametrize("kind", KINDS)
def test_full_knowledge_matters_with_one_or_two_of_ten(level, kind):
    def gained(m):
        return level(kind, "Krum", ("FangKrum", "own"), m) - level(
            kind, "Krum", ("FangKrum", "all"), m
        )

    assert gained(1) > 0.05 and gained(2) > 0.25
    assert max(abs(gained(3)), abs(gained(4))) < LITTLE


@pytest.mark.parametrize("kind", KINDS)
def test_with_another_start_three_of_ten_need_full_knowledge(level, kind):
    """The papers leave open where attackers who know only their own updates start; 1 is foltr's
    choice, and decides the test above. With 4 of 10 it decides nothing."""
    for start in (10.0, 100.0, 400.0):
        three, four = (level(kind, "Krum", ("FangKrum", "own", start), m) for m in (3, 4))
        print(f"{kind}, start {start}: 3 of 10 {three:.4f}, 4 of 10 {four:.4f}")
        assert three > 0.66 and four < FALLEN


@pytest.mark.parametrize("kind", KINDS)
def test_four_of_ten_reverse_each_robust_rule_by_some_attack(level, kind):
    for rule in ROBUST:
        worst, attack = min((level(kind, rule, attack, 4), attack) for attack in ATTACKS)
        print(f"{kind} {rule}: {worst:.4f} under {attack}")
        assert worst < (0.36 if kind == PERFECT else 0.30)


def test_robust_rules_cost_most_where_clicks_are_noisy_and_few(level):
    """Nobody attacks. Krum, which follows one client, costs most; under informational clicks
    nothing is lost."""
    for m in (1, 2, 3, 4):
        assert level(NAVIGATIONAL, "Krum", m=m) < level(NAVIGATIONAL, "Mean") - 0.01
    assert level(NAVIGATIONAL, "Median") < level(NAVIGATIONAL, "Mean") - 0.004
    over = [np.mean([level(kind, "Krum", m=m) for kind in KINDS]) for m in (1, 2, 3, 4)]
    assert max(over) < np.mean([level(kind, "Mean") for kind in KINDS])


@pytest.mark.parametrize("kind", KINDS)
def test_robust_rules_make_lie_worse(level, kind):
    """Not in the thesis, which tries LIE against FedAvg alone: to it, rules are a way to be
    heard."""
    for knows in ("own", "all"):
        attack = ("LittleIsEnough", knows)
        assert (
            max(level(kind, rule, attack, 4) for rule in ROBUST)
            < level(kind, "Mean", attack, 4) - 0.02
        )


@pytest.mark.parametrize("kind", KINDS)
def test_gated_costs_nothing_when_nobody_attacks(level, kind):
    assert level(kind, "Gated") == pytest.approx(level(kind, "Mean"), abs=0.005)


@pytest.mark.parametrize("kind", KINDS)
def test_gated_is_at_least_as_good_as_the_best_rule_of_the_thesis(level, kind):
    """Under each attack, over 1 to 4 malicious of 10: than whichever rule is the best against that
    attack. Cell by cell it may be behind the luckiest of four rules, never by much."""
    numbers, behind = (1, 2, 3, 4), []
    for attack in ATTACKS:
        gated = [level(kind, "Gated", attack, m) for m in numbers]
        rules = [[level(kind, rule, attack, m) for m in numbers] for rule in ROBUST]
        best = max(np.mean(rule) for rule in rules)
        print(f"{kind} {attack}: gated {np.mean(gated):.4f}, best of the thesis {best:.4f}")
        assert np.mean(gated) >= best - 0.002, attack
        assert min(gated) > level(kind, "Mean") - LITTLE, attack
        behind += [max(values) - own for own, *values in zip(gated, *rules, strict=True)]
    print(
        kind,
        "ahead in",
        sum(value <= 0.0 for value in behind),
        "of",
        len(behind),
        "at most behind by",
        max(behind),
    )
    assert max(behind) < LITTLE
