"""FOLtR-ES against the adversary of Kharitonov (WSDM 2019), section 4, through the real engine."""

import numpy as np
import pytest

from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.core.errors import Mistake
from foltr.simulation.audits.rewards import TwoQueries


def game(made, p, played=None, times=4000, **fields):
    e, params, found = made(
        privacy=None if p is None else f"RandomizedReward(p={p})", **{"learner": "ES()", **fields}
    )
    queries = np.array([search.query for search in found])
    held_out = e.data.load("vali")
    return TwoQueries(e, e.users, held_out, 1e-5, played=played).play(params, queries, times)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["perfect", "navigational", "informational"])
def test_no_sent_reward_reveals_more_than_equation_10(made, p, kind):
    found = game(made, p, users=f"Cascade(kind={kind!r})", times=12_000)
    assert not found.broken and found.unit == "one interaction"
    assert found.guarantee.epsilon == pytest.approx(np.log(p * 10 / (1 - p)))
    if kind == "perfect":
        assert found.at_least > 0.3 * found.guarantee.epsilon


@pytest.mark.parametrize(("said", "done"), [(0.3, 0.6), (0.5, 0.8), (0.8, 0.98)])
def test_a_p_that_is_wrong_is_caught(made, said, done):
    assert game(made, said, RandomizedReward(done), times=12_000).broken


@pytest.mark.parametrize("objective", ["dcg", "ctr", "first", "last"])
def test_other_objectives_keep_it_too(made, objective):
    found = game(made, 0.5, learner=f"ES(k=6, objective={objective!r}, levels=5)", times=3000)
    assert not found.broken and found.guarantee.epsilon == pytest.approx(np.log(0.5 * 4 / 0.5))


def test_bare_rewards_distinguish_queries(made):
    found = game(made, None, times=2000)
    assert found.guarantee.epsilon == np.inf and found.right.mean > 0.8 and found.at_least > 3.0


def test_a_small_network_and_shared_entropy_run_as_well(made):
    assert not game(made, 0.5, ranker="MLP(hidden=3)", times=1000).broken
    shared = game(made, 0.5, learner="ES(entropy='shared')", times=300)
    assert shared.guarantee.epsilon == np.inf  # its seed tells the user's luck


def test_a_click_model_without_tables_is_refused(made, monkeypatch):
    e, params, found = made(learner="ES()")
    monkeypatch.setattr(type(e.users), "tables", lambda self, grades, depth: None)
    queries = np.array([search.query for search in found])
    with pytest.raises(Mistake, match="no table"):
        TwoQueries(e, e.users, e.data.load("vali"), 1e-5).play(params, queries, 300)
