"""The compiled search against its plain parts, before any ranker: list, clicks, tally and document
weights."""

import numpy as np
import pytest
from populations import FEATURES, dataset

from foltr.components.learners.pdgd import PDGD, document_weights
from foltr.components.rankers.linear import Linear
from foltr.components.users.cascade import Cascade
from foltr.core.metrics import discounts, gains, ideal_dcg, max_rr
from foltr.core.ranking import best_first, plackett_luce
from foltr.core.seeds import Stream, key
from foltr.core.world.population import SimulatedUser, iid
from foltr.kernels.interaction import NO_CLICK, NOT_FINITE, interact, scratch_of

MODEL, GRADES = Cascade(kind="informational"), 3
NO_ROWS = np.empty(0, np.int32)  # of a block of consecutive documents


def searched(scores, labels, depth, explore, pairs, i):
    """What the kernel makes of one search: ranking, clicks, weights of the shown documents, tally,
    last click."""
    n = len(scores)
    k, scratch, tally = min(depth, n), scratch_of(n, depth), np.zeros(2)
    ideal = ideal_dcg(labels, np.array([0, n]))[0]
    addresses = np.uint64(key(1, "ranking", i)), np.uint64(key(1, "user", i))
    measured = ideal, gains(np.arange(GRADES)), discounts(10)
    click, stop = MODEL.tables(GRADES, depth)
    last = interact(
        scores,
        n,
        k,
        explore,
        pairs == "shown",
        *addresses,
        labels,
        NO_ROWS,
        0,
        click,
        stop,
        *measured,
        scratch,
        tally,
    )
    return scratch[3][:k], scratch[6][:k], scratch[7][:k], tally, last


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("pairs", ["examined", "shown"])
@pytest.mark.parametrize("spread", [0.0, 2.0, 30.0, 79.0, 100.0, 1000.0, 5000.0])
def test_a_search(spread, pairs, explore):
    rng = np.random.default_rng(int(spread))
    for i in range(40):
        n, depth = int(rng.integers(1, 30)), int(rng.choice([1, 3, 10, 20]))
        scores = (spread * rng.random(n)).astype(np.float32)
        # some close together, else weights vanish
        scores[rng.random(n) < 0.5] = scores[0] + np.float32(rng.normal())
        labels = rng.integers(0, GRADES, n).astype(np.int8)
        ranking, clicks, weights, tally, last = searched(scores, labels, depth, explore, pairs, i)
        k, draws = min(depth, n), Stream(key(1, "user", i))
        policy = plackett_luce if explore else best_first
        assert ranking.tolist() == policy(scores, k, Stream(key(1, "ranking", i))).tolist()
        draws.uniforms(2)  # the query and the click model
        assert clicks.tolist() == MODEL.clicks(labels[ranking], GRADES, draws).tolist()
        assert last == (np.flatnonzero(clicks)[-1] if clicks.any() else NO_CLICK)
        ideal, top = ideal_dcg(labels, np.array([0, n]))[0], labels[ranking][:10]
        ndcg = gains(top) @ discounts(len(top)) / ideal if ideal > 0 else 0.0
        np.testing.assert_allclose(tally, [ndcg, max_rr(clicks)], rtol=1e-12)
        if clicks.any():
            expected = document_weights(scores, ranking, clicks, pairs)[ranking]
            # masses, and the closeness of two scores, are good to 2e-7 and enter products of up to
            # k factors
            np.testing.assert_allclose(weights, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 5, 20, 41])
def test_a_score_that_is_no_number_is_refused(bad, n):
    """On the best list: a sampler that overlooks it never ends."""
    for where in range(n):
        scores = np.arange(n, dtype=np.float32)
        scores[where] = bad
        assert searched(scores, np.zeros(n, np.int8), 3, False, "examined", 0)[4] == NOT_FINITE


@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_plain_learner_refuses_it_too(bad, explore):
    user = SimulatedUser(iid(dataset([5]), MODEL, clients=1, sessions=1), 0, Stream(1))
    params = np.full(FEATURES, bad, np.float32)
    with pytest.raises(FloatingPointError):
        PDGD(explore=explore).learn(
            Linear(),
            params,
            np.empty(0, np.float32),
            user,
            Stream(2),
            0,
            lambda which, values, s: which,
        )
