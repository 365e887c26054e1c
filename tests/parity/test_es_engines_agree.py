"""FOLtR-ES compiled and plain: the same seeds, lists, clicks and replaced rewards, hence the same
messages; and what the kernel says a message means is what the server makes of it."""

import numpy as np
import pytest
from engine_cases import INFORMATIONAL, SEED, usual, weights
from populations import FEATURES, dataset, lengths_between, varied

from asking import collected
from foltr.components.learners.es import ES
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.population import iid
from foltr.simulation.engines.debug import Debug
from foltr.simulation.engines.local import Local

CLIENTS = 150
MODELS = (Cascade(), Cascade(kind="navigational"), INFORMATIONAL, PositionBased(eta=0.5))
NETWORK = MLP(hidden=10, activation="relu", scale=0.0)
CASES = {
    "published": ES(),
    "one way": ES(antithetic=False, sessions=3),
    "wide": ES(sigma=1.0),
    "dcg": ES(objective="dcg", k=8),
    "dcg in levels": ES(objective="dcg", levels=11),
    "ctr": ES(objective="ctr"),
    "first": ES(objective="first", levels=4),
    "last": ES(objective="last", k=5),
    "shared": ES(entropy="shared"),
    "shared, one way": ES(entropy="shared", antithetic=False, sessions=3),
}


def rounds(learner, ranker=Linear(), privacy=None, params=None, population=None, threads=None):  # noqa: B008
    population = population or iid(usual(), INFORMATIONAL, CLIENTS, learner.sessions)
    memory, clients = np.empty((population.clients, 0), np.float32), np.arange(population.clients)
    params = weights(0.01) if params is None else params
    if threads is None:
        return collected(
            Debug(learner, ranker, population, SEED, memory, privacy), params, 2, clients
        )
    return collected(
        Local(learner, ranker, population, SEED, memory, privacy, threads=threads),
        params,
        2,
        clients,
    )


def agree(learner, **fields):
    """Both engines on a round; the messages of one client may differ, where two scores round to
    the other order."""
    plain, seen = rounds(learner, **fields)
    fast, also_seen = rounds(learner, threads=Threads(1), **fields)
    assert plain.updates.dtype == fast.updates.dtype == np.uint32
    assert (plain.updates[:, 0] == fast.updates[:, 0]).all() and (
        plain.weights == fast.weights
    ).all()
    same = (plain.updates == fast.updates).all(axis=1)
    assert (~same).sum() <= 1
    np.testing.assert_allclose(seen.ndcg[same], also_seen.ndcg[same], atol=1e-12)
    np.testing.assert_allclose(seen.max_rr[same], also_seen.max_rr[same], atol=1e-12)
    params = fields.get("params", weights(0.01))
    assert fast.directions.tobytes() == learner.decode(fast.updates, params).tobytes()
    return fast


@pytest.mark.parametrize("name", CASES)
def test_linear(name):
    fast = agree(CASES[name])
    # rewards differ, so there was something to compare
    assert len(set(fast.updates[:, 1].tolist())) >= 3


@pytest.mark.parametrize("name", ["published", "one way", "dcg in levels", "shared"])
def test_a_network_from_zero(name):
    params = NETWORK.init(FEATURES, stream(0))
    assert not params.any()
    fast = agree(CASES[name], ranker=NETWORK, params=params)
    assert fast.directions.any(axis=0).all()


@pytest.mark.parametrize("name", ["published", "dcg in levels", "shared", "one way"])
@pytest.mark.parametrize("p", [1.0, 0.9, 0.3])
def test_rewards_replaced_at_random(name, p):
    replaced = agree(CASES[name], privacy=RandomizedReward(p=p))
    bare = agree(CASES[name])
    changed = (replaced.updates[:, 1] != bare.updates[:, 1]).mean()
    assert changed == 0.0 if p == 1.0 else changed > (1.0 - p) / 2.0


@pytest.mark.parametrize(
    "learner", [ES(antithetic=False), ES(antithetic=False, entropy="shared")], ids=repr
)
def test_unlike_clients(learner):
    population = varied(dataset(lengths_between(2, 30), labellings=3), MODELS, 200)
    assert len(set(population.sessions.tolist())) > 1
    agree(learner, population=population)


@pytest.mark.parametrize("learner", [ES(), ES(entropy="shared")], ids=repr)
@pytest.mark.parametrize("ranker", [Linear(), NETWORK], ids=repr)
def test_any_number_of_threads(learner, ranker):
    params = ranker.init(FEATURES, stream(0)) + np.float32(0.01)
    found = []
    for number in (1, 2, 3):
        with Threads(number).running() as threads:
            found.append(rounds(learner, ranker, RandomizedReward(p=0.8), params, threads=threads))
    for cohort, seen in found[1:]:
        assert cohort.updates.tobytes() == found[0][0].updates.tobytes()
        assert cohort.directions.tobytes() == found[0][0].directions.tobytes()
        assert seen.max_rr.tobytes() == found[0][1].max_rr.tobytes()
