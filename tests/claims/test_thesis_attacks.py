"""Chapter 5 of the thesis in kind, on MQ2008, from the file in reproduce/: what it finds, and what `Gated` adds. Levels are
means of five folds, each with its own seed, of the last five evaluations of offline nDCG@10."""

from collections import defaultdict

import numpy as np
import pytest

from foltr.spec import opened

pytestmark = pytest.mark.claims
KINDS = ("perfect", "navigational", "informational")
ROBUST = ("Krum", "MultiKrum", "TrimmedMean", "Median")
LIE, FANG_KRUM, FANG_MULTI, FANG_TRIMMED = "LittleIsEnough", "FangKrum", "FangMultiKrum", "FangTrimmed"
ATTACKS = [
    ("DataPoisoning", None),
    *((name, k) for name in (LIE, FANG_KRUM, FANG_MULTI, FANG_TRIMMED) for k in ("own", "all")),
]


@pytest.fixture(scope="module")
def levels(made):
    """levels(kind, rule, attack, knowledge, m) of rules that assume as many as attack."""
    found = defaultdict(list)
    for run in made("thesis-5-attacks"):
        rule, attack = opened(run.config["aggregator"]), opened(run.config.get("attack", "Nobody()"))
        assumed = rule.fields.get("malicious", 0)
        kind = opened(run.config["users"]).fields["kind"]
        m = run.config["malicious"]
        late = float(run.curve("ndcg@10").values[-5:].mean())
        found[kind, rule.name, attack.name, attack.fields.get("knowledge"), m or (0, assumed)].append(late)

    def level(kind, rule, attack="Nobody", knowledge=None, m=0, assumed=0):
        values = found[kind, rule, attack, knowledge, m or (0, assumed)]
        assert len(values) == 5, (kind, rule, attack, knowledge, m, assumed)
        return float(np.mean(values))

    return level


def test_more_attackers_hurt_more(levels):
    for kind in KINDS:
        for attack, knowledge in ATTACKS:
            hurt = [levels(kind, "Mean", attack, knowledge, m) for m in (1, 2, 3, 4)]
            assert hurt[3] < hurt[0] + 0.005 and min(hurt) == min(hurt[2:]), (kind, attack, knowledge, hurt)


def test_informational_clicks_are_easiest_to_attack_and_perfect_ones_hardest(levels):
    for m in (2, 3, 4):
        perfect, navigational, informational = (levels(kind, "Mean", "DataPoisoning", None, m) for kind in KINDS)
        assert perfect > navigational > informational - 0.01, m
