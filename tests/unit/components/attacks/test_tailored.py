"""An attack that calls the rule it is made for."""

import numpy as np
import pytest

from asking import asked_of
from foltr.components.aggregators.mean import Mean
from foltr.components.attacks.tailored import Tailored
from foltr.core import Cohort
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import aggregators

pytestmark = pytest.mark.usefixtures("both_ways")

RULES = aggregators.members()


def a_round(n=20, m=2, d=6):
    updates = (stream(2, "updates").normals(n * d).reshape(n, d) + 0.5).astype(np.float32)
    return Cohort(np.arange(n), updates, np.ones(n)), np.arange(n) < m


@pytest.mark.parametrize("name", list(RULES))
def test_it_moves_every_rule_at_least_as_far_as_each_step_that_it_tries(name):
    rule, (c, malicious) = RULES[name](), a_round()
    attack = Tailored(rule=rule)
    attack.fits(20, 2)
    sent = attack.craft(c, malicious, asked_of(9, np.zeros(6, np.float32)), stream(4, "attack"))
    assert sent.shape == (2, 6) and np.isfinite(sent).all() and (sent == sent[0]).all()
    mu = c.updates[~malicious].mean(axis=0, dtype=float)

    def moved(x):
        updates = c.updates.copy()
        updates[malicious] = x
        seen = Cohort(c.clients, updates, c.weights, trusted=mu.astype(np.float32))
        return (rule(seen, rule.init(6), stream(4, "attack").at(1))[0] - mu) @ p

    longest = np.linalg.norm(c.updates[~malicious] - mu, axis=1).max()
    p = -c.updates[~malicious].std(axis=0, dtype=float)
    tried = [moved(mu + 16.0 / 2**k * longest * p / np.linalg.norm(p)) for k in range(10)]
    assert moved(sent[0]) >= max(tried) - 1e-5 * np.abs(tried).max()


def test_whom_it_does_not_know_it_draws_like_its_own(monkeypatch):
    """Own (0, 7), (4, 7): mu = (2, 7), the spread is (2, 0). Stand-ins weigh as much as own ones
    on average."""
    tried, combine, n = [], Mean.combine, 4002
    monkeypatch.setattr(
        Mean, "combine", lambda self, cohort: tried.append(cohort) or combine(self, cohort)
    )
    updates = np.full((n, 2), 99.0, np.float32)
    updates[:2] = [(0, 7), (4, 7)]
    c = Cohort(np.arange(n), updates, np.r_[1.0, 3.0, np.full(n - 2, 50.0)])
    Tailored(rule=Mean(), knowledge="own").craft(
        c, np.arange(n) < 2, asked_of(9, np.zeros(2, np.float32)), stream(4, "attack")
    )
    for seen in tried:
        drawn = seen.updates[2:]
        # 4,000 draws with an sd of 2: six standard errors
        np.testing.assert_allclose(drawn.mean(axis=0), [2, 7], atol=0.2)
        np.testing.assert_allclose(drawn.std(axis=0), [2, 0], atol=0.2)
        assert seen.weights.tolist() == [1, 3] + [2] * (n - 2) and seen.trusted.tolist() == [2, 7]
    assert len({seen.updates[2:].tobytes() for seen in tried}) == 1 < len(tried)


def test_the_mean_stands_for_the_servers_own_update():
    """Honest (3, 1), (3, -1): the server's own is taken for (3, 0), p = (0, -1). (3, -gamma)
    counts by its cosine c and moves FLTrust by 3 c sqrt(1 - c^2) / (6 / sqrt(10) + c): .507, .577,
    .439 with gamma = 2, 4, 8, and less at 6, 5, 4.5 and 4.25."""
    c, malicious = (
        Cohort(np.arange(3), np.array([[0, 0], [3, 1], [3, -1]], np.float32), np.ones(3)),
        np.arange(3) < 1,
    )
    crafted = Tailored(rule="FLTrust()").craft(
        c, malicious, asked_of(9, np.zeros(2, np.float32)), stream(4, "attack")
    )
    np.testing.assert_allclose(crafted, [[3, -4]], rtol=1e-6)


def test_it_refuses_what_its_rule_refuses():
    with pytest.raises(Mistake, match="n > m"):
        Tailored(rule="Krum(malicious=4)").fits(6, 2)
    assert Tailored(rule="Krum(malicious=2)").fits(10, 2) == ()
    assert "no effect" in Tailored(rule="Mean()", knowledge="own").fits(10, 1)[0]
    assert (
        "assumes that all clients equal"
        in Tailored(rule="Mean()", knowledge="own", direction="unit").fits(10, 1)[0]
    )


def test_it_is_a_spec_with_a_rule_inside():
    from foltr.core.spec import attacks

    attack = attacks.build("Tailored(rule=Krum(malicious=2), direction='sign')")
    assert (
        attacks.build(repr(attack)) == attack
        and repr(attack.rule) == "Krum(malicious=2, squared=False)"
    )
