"""Rankers of many clients, measured in one compiled call: the bits of `Evaluator`, one by one."""

import numpy as np
import pytest
from engine_cases import INFORMATIONAL, scattered, usual
from populations import FEATURES, dataset, lengths_between, varied

from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.population import iid
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.client_rankers import ClientEvaluator

SEVERAL = dataset(lengths_between(1, 30, queries=60), grades=3, labellings=3, relevant=0.05)
ONE = dataset(lengths_between(1, 40, queries=50), grades=3, relevant=0.08)
POPULATIONS = {
    "alike": lambda: iid(usual(), Cascade(), 12, 1),
    "varied": lambda: varied(SEVERAL, (Cascade(), INFORMATIONAL), 23),
    "scattered": lambda: scattered(usual(), 11),
}
RANKERS = (Linear(), MLP(hidden=5), MLP(hidden=16, activation="tanh"))


def rankers_of(ranker, shared, n, own):
    """n rankers that differ from the shared one in their last `own` parameters; every third has
    many equal scores."""
    rankers = np.tile(shared, (n, 1))
    d = len(shared)
    rankers[:, d - own :] += stream(5, "own").normals(n * own).reshape(n, own).astype(np.float32)
    rankers[::3, d - own :] = 0.0
    return rankers


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
@pytest.mark.parametrize("held_out", [SEVERAL, ONE], ids=["labellings", "one labelling"])
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
@pytest.mark.parametrize("population", POPULATIONS)
def test_as_one_by_one(population, ranker, held_out, empty):
    p, shared = POPULATIONS[population](), ranker.init(FEATURES, stream(1, "init"))
    shared = shared + stream(2).normals(len(shared)).astype(np.float32) * 0.3
    clicks = ((1.0, Cascade().tables(3, 10)[0]),)
    evaluate = Evaluator(ranker, held_out, clicks, empty, 7, Threads(1))
    clients = np.arange(p.clients)
    for own in {ranker.head or len(shared), len(shared)}:  # the output layer alone, or all
        rankers = rankers_of(ranker, shared, p.clients, own)
        expected = [evaluate(each)["ndcg@10"] for each in rankers]
        on_own = [evaluate.of_client(each, p, c) for c, each in enumerate(rankers)]
        assert len(set(expected)) > 2
        for number in (1, 2):
            with Threads(number).running() as threads:
                shared_out = Evaluator(ranker, held_out, clicks, empty, 7, threads)
                measure = ClientEvaluator(shared_out, p, shared)
                np.testing.assert_array_equal(measure.on_held_out(rankers), expected)
                np.testing.assert_array_equal(measure.on_own(rankers, clients), on_own)
                some = clients[::-2]
                found = measure.on_own(rankers[some], some)
                np.testing.assert_array_equal(found, np.array(on_own)[some])


def test_by_definition_where_there_is_no_kernel():
    p, shared = POPULATIONS["varied"](), stream(2).normals(FEATURES).astype(np.float32)
    plain = Evaluator(Linear(), SEVERAL, (), "skip", 7, Threads(1), plain=True)
    fast = Evaluator(Linear(), SEVERAL, (), "skip", 7, Threads(1))
    rankers, clients = rankers_of(Linear(), shared, 5, FEATURES), np.arange(5)
    one, other = ClientEvaluator(plain, p, shared), ClientEvaluator(fast, p, shared)
    assert not one.compiled and other.compiled
    found = one.on_held_out(rankers), one.on_own(rankers, clients)
    np.testing.assert_allclose(found[0], other.on_held_out(rankers), rtol=1e-6)
    np.testing.assert_allclose(found[1], other.on_own(rankers, clients), rtol=1e-6)


@pytest.mark.parametrize("ranker", [Linear(), MLP(hidden=3)], ids=repr)
def test_scores_that_are_not_finite(ranker):
    p, shared = POPULATIONS["alike"](), ranker.init(FEATURES, stream(1, "init"))
    rankers = np.tile(shared, (4, 1))
    rankers[2, -1] = np.inf
    measure = ClientEvaluator(Evaluator(ranker, ONE, (), "skip", 7, Threads(1)), p, shared)
    with pytest.raises(FloatingPointError, match="not finite"):
        measure.on_held_out(rankers)
    with pytest.raises(FloatingPointError, match="not finite"):
        measure.on_own(rankers, np.arange(4))
