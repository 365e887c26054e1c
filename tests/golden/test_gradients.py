"""PDGD's gradient and the rankers' pullbacks against finite differences, in float64."""

import numpy as np
import pytest

from foltr.components.learners.pdgd import document_weights
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core.seeds import stream

FEATURES, STEP = 5, 1e-5
RANKERS = [
    Linear(),
    *(MLP(hidden=4, activation=a, scale=1.0) for a in ("sigmoid", "relu", "tanh")),
]


def problem(ranker):
    """Parameters in float64 and nine documents."""
    rng = np.random.default_rng(6)
    docs = rng.normal(size=(9, FEATURES))
    params = ranker.init(FEATURES, stream(2, "init")).astype(np.float64)
    return (params if params.any() else rng.normal(size=len(params))), docs


def slope(function, params):
    """The gradient by central differences."""
    steps = STEP * np.eye(len(params))
    return np.array(
        [(function(params + step) - function(params - step)) / (2 * STEP) for step in steps]
    )


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_pullback_is_the_transposed_jacobian(ranker):
    params, docs = problem(ranker)
    dscores = np.random.default_rng(7).normal(size=len(docs))
    dscores[[1, 4]] = 0.0
    expected = slope(lambda p: dscores @ ranker.scores(p, docs), params)
    np.testing.assert_allclose(
        ranker.pullback(params, docs, dscores), expected, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("pairs", ["examined", "shown"])
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_pdgd_climbs_the_reweighted_pair_probabilities(ranker, pairs):
    """Thesis 3.9: sum over pairs of rho x gradient of P(d_k > d_l), the latter e^s_k / (e^s_k +
    e^s_l) = exp(log P), with rho = P(R*) / (P(R) + P(R*)) from the logarithms of both lists'
    probabilities."""
    params, docs = problem(ranker)
    ranking, clicks = (
        np.array([7, 2, 5, 0, 3, 8]),
        np.array([False, True, False, True, False, False]),
    )
    scores = ranker.scores(params, docs)

    def log_list(order):
        left = [np.setdiff1d(np.arange(len(docs)), order[:j]) for j in range(len(order))]
        return sum(
            scores[d] - np.log(np.exp(scores[rest]).sum())
            for d, rest in zip(order, left, strict=True)
        )

    expected = np.zeros(len(params))
    for a in np.flatnonzero(clicks):
        # the last click is at 3, counted from 0
        for b in [0, 2, 4] if pairs == "examined" else [0, 2, 4, 5]:
            k, l, swapped = ranking[a], ranking[b], ranking.copy()
            swapped[[a, b]] = l, k
            rho = 1.0 / (1.0 + np.exp(log_list(ranking) - log_list(swapped)))

            def log_p(p, k=k, l=l):
                s = ranker.scores(p, docs)
                return s[k] - np.logaddexp(s[k], s[l])

            expected += rho * np.exp(log_p(params)) * slope(log_p, params)
    found = ranker.pullback(params, docs, document_weights(scores, ranking, clicks, pairs))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_initial_parameters():
    assert not Linear().init(46, stream(1)).any()
    ranker = MLP(hidden=200)
    params = ranker.init(100, stream(1, "init"))
    assert params.dtype == np.float32 and len(params) == 100 * 200 + 200 + 200
    w, b, v = params[:20_000], params[20_000:20_200], params[20_200:]
    # six standard errors each: off by more with probability 1e-8
    assert w.std() == pytest.approx(1 / 100, rel=0.03)
    assert b.std() == pytest.approx(1 / 100, rel=0.3)
    assert v.std() == pytest.approx(1 / 200, rel=0.3)
    assert not MLP(scale=0.0).init(46, stream(1)).any()
    assert MLP(hidden=10, scale=0.5).init(50, stream(1)).std() == pytest.approx(0.5, rel=0.2)


def test_a_network_worked_by_hand():
    """f = 2, hidden = 2: W = ((1, 0), (0, 2)), b = (0, -1), v = (3, -1), parameters [W | b |
    v]."""
    params, docs = np.array([1, 0, 0, 2, 0, -1, 3, -1.0]), np.array([[1.0, 2.0]])
    assert MLP(hidden=2, activation="relu").scores(params, docs).tolist() == [3 * 1 - 1 * 3]
    tanh = 3 * np.tanh(1) - np.tanh(3)
    assert MLP(hidden=2, activation="tanh").scores(params, docs) == pytest.approx([tanh])
    sigmoid = 3 / (1 + np.exp(-1)) - 1 / (1 + np.exp(-3))
    assert MLP(hidden=2).scores(params, docs) == pytest.approx([sigmoid])
    assert Linear().scores(np.array([2.0, -1.0]), docs).tolist() == [0.0]
