"""Evaluation: the kernel against `measure_queries`, and nDCG against the field's own tools."""

from itertools import pairwise

import ir_measures
import numpy as np
import pytest
from engine_cases import EPS, weights
from populations import FEATURES, dataset, lengths_between
from sklearn.metrics import ndcg_score

import foltr
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.components.users.position_based import PositionBased
from foltr.core.metrics import discounts, gains, ideal_dcg, mean_over_queries, measure_queries
from foltr.core.seeds import Stream, key, stream
from foltr.core.system.process import Threads
from foltr.kernels.evaluation import measure
from foltr.simulation.evaluation import MEASURES, Evaluator

DATA = dataset(lengths_between(1, 40, queries=200), grades=5, relevant=0.15)
LABELS, OFFSETS = DATA.labels[0], DATA.offsets
QUERIES = list(pairwise(OFFSETS))


@pytest.mark.parametrize("levels", [0, 3, 1000])
@pytest.mark.parametrize("model", [Cascade(kind="navigational"), PositionBased(eta=0.5)], ids=repr)
def test_the_kernel_measures_what_is_defined(levels, model):
    """From all tied to hardly tied: equal scores are drawn by the same words."""
    scores = (
        np.random.default_rng(levels).integers(0, levels + 1, DATA.documents).astype(np.float32)
    )
    click, address, found = model.tables(5, 10)[0], key(3, "ties"), np.empty((DATA.queries, 3))
    tables = ideal_dcg(LABELS, OFFSETS), click, gains(np.arange(5)), discounts(10)
    measure(scores, LABELS, OFFSETS, 0, DATA.queries, *tables, np.uint64(address), found)
    expected = measure_queries(scores, LABELS, OFFSETS, click, Stream(address))
    # there are queries without a relevant document
    assert 0 < np.isnan(expected[:, 0]).sum() < DATA.queries / 2
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "ranker",
    [Linear(), *(MLP(hidden=9, activation=a) for a in ("sigmoid", "relu", "tanh"))],
    ids=repr,
)
def test_both_evaluators_score_alike(ranker):
    params = weights() if ranker == Linear() else ranker.init(FEATURES, stream(1, "init"))
    click = Cascade().tables(5, 10)[0]
    mixed = (0.7, click), (0.3, click**2)
    plain, fast = (
        Evaluator(ranker, DATA, mixed, "skip", 7, Threads(1), plain=plain)
        for plain in (True, False)
    )
    np.testing.assert_allclose(
        fast._scores(params), plain._scores(params), atol=16 * EPS * (1 + np.abs(params).max())
    )
    a, b = plain(params.astype(np.float64)), fast(params.astype(np.float64))
    assert list(a) == list(b) == list(MEASURES)
    np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-9)


def test_empty_queries_by_convention():
    clicks = ((1.0, Cascade().tables(5, 10)[0]),)
    skip, zero, one = (
        Evaluator(Linear(), DATA, clicks, e, 7, Threads(1))(weights())["ndcg@10"]
        for e in ("skip", "zero", "one")
    )
    empty = np.mean([not LABELS[a:b].any() for a, b in QUERIES])
    assert (
        0 < empty < 1
        and zero == pytest.approx(skip * (1 - empty))
        and one == pytest.approx(zero + empty)
    )


def test_ndcg_and_mrr_are_those_of_ir_measures():
    # no ties: tools break them otherwise
    scores = np.random.default_rng(0).permutation(DATA.documents).astype(np.float32)
    qrels = [
        ir_measures.Qrel(str(q), str(d), int(LABELS[d]))
        for q, (a, b) in enumerate(QUERIES)
        for d in range(a, b)
    ]
    run = [
        ir_measures.ScoredDoc(str(q), str(d), float(scores[d]))
        for q, (a, b) in enumerate(QUERIES)
        for d in range(a, b)
    ]
    ndcg = ir_measures.nDCG(gains={0: 0, 1: 1, 2: 3, 3: 7, 4: 15}) @ 10
    mrr = ir_measures.RR(rel=1) @ 10
    theirs = {
        (m.query_id, m.measure): m.value for m in ir_measures.iter_calc([ndcg, mrr], qrels, run)
    }
    ours = measure_queries(scores, LABELS, OFFSETS, np.zeros((10, 5)), stream(1))
    for q, (a, b) in enumerate(QUERIES):
        if LABELS[a:b].any():
            assert ours[q, 0] == pytest.approx(theirs[str(q), ndcg], abs=1e-12)
            assert ours[q, 1] == pytest.approx(theirs[str(q), mrr], abs=1e-12)
        else:
            assert np.isnan(ours[q, :2]).all()


GAINS = {0: 0, 1: 1, 2: 3, 3: 7, 4: 15}
PAIRS = {  # ours -> theirs
    **{foltr.nDCG(k=k): ir_measures.nDCG(gains=GAINS) @ k for k in (1, 3, 5, 20)},
    **{foltr.P(k=k, rel=rel): ir_measures.P(rel=rel) @ k for k in (1, 5, 30) for rel in (1, 3)},
    **{foltr.R(k=k, rel=rel): ir_measures.R(rel=rel) @ k for k in (1, 5, 30) for rel in (1, 3)},
    **{foltr.RR(k=k, rel=rel): ir_measures.RR(rel=rel) @ k for k in (1, 5, 30) for rel in (1, 3)},
    foltr.RR(k=None): ir_measures.RR(rel=1),
    foltr.MAP(): ir_measures.AP(rel=1),
    foltr.MAP(k=5, rel=2): ir_measures.AP(rel=2) @ 5,
    **{foltr.ERR(k=k): ir_measures.ERR @ k for k in (1, 5, 20)},  # gdeval: the highest label is 4
}


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "compiled"])
def test_other_measures_are_those_of_ir_measures(plain):
    scores = np.random.default_rng(2).permutation(DATA.documents).astype(np.float32)
    documents = [(q, d) for q, (a, b) in enumerate(QUERIES) for d in range(a, b)]
    qrels = [ir_measures.Qrel(str(q), str(d), int(LABELS[d])) for q, d in documents]
    run = [ir_measures.ScoredDoc(str(q), str(d), float(scores[d])) for q, d in documents]
    theirs = {
        (m.measure, m.query_id): m.value
        for m in ir_measures.iter_calc(list(PAIRS.values()), qrels, run)
    }
    evaluate = Evaluator(Linear(), DATA, (), "skip", 7, Threads(1), plain, tuple(PAIRS))
    ours = dict(zip(evaluate.measures, evaluate.of_scores(scores).T, strict=True))
    for mine, their in PAIRS.items():
        for q, (a, b) in enumerate(QUERIES):
            value = ours[mine.name][q]
            if (LABELS[a:b] >= mine.relevant_from).any():
                # gdeval prints five decimals
                digits = 6e-6 if "ERR" in str(their) else 1e-6
                assert value == pytest.approx(theirs[their, str(q)], abs=digits), (mine, q)
            else:
                assert np.isnan(value)


@pytest.mark.parametrize("levels", [0, 3, 1000])
def test_measures_by_their_definition_are_those_of_the_kernel(levels):
    """nDCG(), RR() and ExpectedMaxRR(), which every run has from one kernel; ties drawn alike."""
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels + 1, DATA.documents).astype(np.float32)
    clicks = ((0.7, Cascade().tables(5, 10)[0]), (0.3, Cascade().tables(5, 10)[0] ** 2))
    defined = foltr.nDCG(), foltr.RR(), foltr.ExpectedMaxRR()
    for plain in (True, False):
        evaluate = Evaluator(Linear(), DATA, clicks, "zero", 7, Threads(2), plain, defined)
        found = evaluate.of_scores(scores)
        np.testing.assert_allclose(found[:, :3], found[:, 3:], rtol=1e-12)


def test_ndcg_is_that_of_scikit_learn():
    scores = np.random.default_rng(1).permutation(DATA.documents).astype(np.float32)
    ours = measure_queries(scores, LABELS, OFFSETS, np.zeros((10, 5)), stream(1))[:, 0]
    theirs = [
        ndcg_score([2.0 ** LABELS[a:b] - 1.0], [scores[a:b]], k=10)
        if b - a > 1
        else float(LABELS[a:b].any())
        for a, b in QUERIES  # scikit-learn refuses single documents
    ]
    # it counts empty queries as 0
    np.testing.assert_allclose(np.nan_to_num(ours), theirs, atol=1e-12)
    assert mean_over_queries(ours, "zero") == pytest.approx(np.mean(theirs))


def test_expected_maxrr_of_mixed_users_is_the_mean_of_theirs():
    """Not that of their mean table: (1 - p) (1 - p) averaged is not the square of the average."""
    one, other = Cascade().tables(5, 10)[0], Cascade(kind="informational").tables(5, 10)[0]

    def expected(*clicks):
        return Evaluator(Linear(), DATA, clicks, "skip", 7, Threads(1))(weights())[
            "expected_maxrr"
        ]

    mixed = expected((0.25, one), (0.75, other))
    assert mixed == pytest.approx(0.25 * expected((1.0, one)) + 0.75 * expected((1.0, other)))
    assert abs(mixed - expected((1.0, 0.25 * one + 0.75 * other))) > 1e-3
    assert np.isnan(expected())
