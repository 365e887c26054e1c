"""An attack that calls the rule it is made for."""

import numpy as np
import pytest

from foltr.attacks.tailored import Tailored
from foltr.core import Cohort
from foltr.errors import Mistake
from foltr.seeds import stream
from foltr.spec import aggregators

RULES = aggregators.members()
NEEDS = {"NNM": {"rule": "Median()"}, "Bucketing": {"rule": "Median()"}}


def rule_called(name):
    try:
        return RULES[name]()
    except Mistake:
        return RULES[name](**NEEDS[name])


def a_round(n=20, m=2, d=6):
    updates = (stream(2, "updates").normals(n * d).reshape(n, d) + 0.5).astype(np.float32)
    return Cohort(np.arange(n), updates, np.ones(n)), np.arange(n) < m


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize("knowledge", ["own", "all"])
def test_it_moves_every_rule_at_least_as_far_as_each_step_that_it_tries(name, knowledge):
    rule, (c, malicious) = rule_called(name), a_round()
    attack = Tailored(rule=rule, knowledge=knowledge)
    attack.fits(20, 2)
    sent = attack.craft(c, malicious, np.zeros(6, np.float32), stream(4, "attack"))
    assert sent.shape == (2, 6) and np.isfinite(sent).all() and (sent == sent[0]).all()
    if knowledge == "own":
        return  # of honest updates it has only guesses
    mu = c.updates[~malicious].mean(axis=0, dtype=float)

    def moved(x):
        updates = c.updates.copy()
        updates[malicious] = x
        seen = Cohort(c.clients, updates, c.weights, trusted=mu.astype(np.float32))
        return np.linalg.norm(rule(seen, rule.init(6), stream(4, "attack").at(1))[0] - mu)

    longest = np.linalg.norm(c.updates[~malicious] - mu, axis=1).max()
    p = -c.updates[~malicious].std(axis=0, dtype=float)
    tried = [moved(mu + 16.0 / 2**k * longest * p / np.linalg.norm(p)) for k in range(10)]
    assert moved(sent[0]) >= max(tried) * (1.0 - 1e-5)


def test_it_refuses_what_its_rule_refuses():
    with pytest.raises(Mistake, match="n > m"):
        Tailored(rule="Krum(malicious=4)").fits(6, 2)
    assert Tailored(rule="Krum(malicious=2)").fits(10, 2) == ()
    assert "void" in Tailored(rule="Mean()", knowledge="own").fits(10, 1)[0]
    assert "takes all clients for equal" in Tailored(rule="Mean()", knowledge="own", direction="unit").fits(10, 1)[0]


def test_it_is_a_spec_with_a_rule_inside():
    from foltr.spec import attacks

    attack = attacks.build("Tailored(rule=Krum(malicious=2), direction='sign')")
    assert attacks.build(repr(attack)) == attack and repr(attack.rule) == "Krum(malicious=2, squared=False)"
