"""LambdaMART by LightGBM: what is asked of it, what is kept, and what is refused."""

import sys
from dataclasses import replace
from itertools import pairwise

import lightgbm
import numpy as np
import pytest
from labelled import NO_PAIR, collection, noisy

from foltr.components.baselines.lambda_mart import LambdaMART, load_trees
from foltr.core.errors import Mistake
from foltr.core.metrics import mean_over_queries, measure_queries
from foltr.core.seeds import stream


def trees(model):
    return model.count(b"\nTree=")


def test_a_step_by_hand():
    """One cut suffices: everything above it is relevant. Two leaves of one tree say so."""
    query = ([[0.1], [0.2], [0.3], [0.7], [0.8], [0.9]], [0, 0, 0, 2, 2, 2])
    data = collection(*[query] * 10)
    scores = LambdaMART(trees=1, leaves=2).fit(data, None, seed=1).scores(data.features[:6])
    assert len(set(scores[:3])) == 1 == len(set(scores[3:])) and scores[0] < scores[5]


def test_what_no_linear_ranker_can_do():
    """The middle is relevant, both ends are not."""
    x = np.linspace(0, 1, 12)
    data = collection(*[(x[:, None], (abs(x - 0.5) < 0.2).astype(int))] * 10)
    scores = LambdaMART(trees=30).fit(data, None, seed=1).scores(data.features[:12])
    assert scores[abs(x - 0.5) < 0.2].min() > scores[abs(x - 0.5) > 0.2].max()


def test_the_model_can_be_kept_and_loaded_again():
    data = noisy(60, seed=1)
    ranked = LambdaMART(trees=20).fit(data, None, seed=1)
    assert (
        ranked.params is None and ranked.model.startswith(b"tree\n") and trees(ranked.model) == 20
    )
    np.testing.assert_array_equal(
        load_trees(ranked.model)(data.features), ranked.scores(data.features)
    )


@pytest.mark.parametrize("junk", [b"", b"no model", b"\xff\xfe"])
def test_what_is_no_model_is_not_loaded(junk):
    with pytest.raises(Mistake, match="no model that LightGBM wrote"):
        load_trees(junk)


def watched(baseline, train, vali):
    """LightGBM asked as the baseline asks it, for all trees: its nDCG@10 on `vali` after each, and
    what it grew."""
    found, lists = (
        {},
        [
            lightgbm.Dataset(
                np.ascontiguousarray(d.features), d.labels[0], group=np.diff(d.offsets)
            )
            for d in (train, vali)
        ],
    )
    settings, record = baseline._settings(train.grades, seed=1), lightgbm.record_evaluation(found)
    grown = lightgbm.train(settings, lists[0], baseline.trees, [lists[1]], callbacks=[record])
    return np.array(found["valid_0"]["ndcg@10"]), grown


def test_the_number_of_trees_is_the_best_on_validation_queries():
    train, vali = noisy(60, seed=1), noisy(60, seed=2)
    many = LambdaMART(trees=300, leaves=15, learning_rate=0.2, documents=5, patience=300)
    chosen, curve = many.fit(train, vali, seed=1), watched(many, train, vali)[0]
    assert (
        trees(chosen.model)
        == 1 + curve.argmax()
        < 300
        == trees(many.fit(train, None, seed=1).model)
    )
    fewer = replace(many, trees=trees(chosen.model)).fit(train, None, seed=1)
    np.testing.assert_array_equal(fewer.scores(vali.features), chosen.scores(vali.features))


def test_patience_ends_it_early():
    train, vali = noisy(60, seed=1), noisy(60, seed=2)
    hasty = LambdaMART(trees=300, leaves=15, learning_rate=0.2, documents=5, patience=2)
    curve = watched(hasty, train, vali)[0]
    end = next(i for i in range(2, 300) if curve[: i - 1].max() >= curve[i - 1 : i + 1].max())
    assert (
        trees(hasty.fit(train, vali, seed=1).model)
        == 1 + curve[:end].argmax()
        < 1 + curve.argmax()
    )


def test_its_ndcg_is_ours():
    """Gain 2^r - 1, cut at 10; LightGBM counts a query without a relevant document as 1."""
    train, vali = noisy(60, features=8, seed=1, most=20), noisy(40, features=8, seed=2, most=20)
    curve, grown = watched(LambdaMART(trees=200, documents=2), train, vali)
    scores, click = grown.predict(vali.features), np.zeros((10, 3))
    for start, stop in pairwise(vali.offsets):
        # ties are broken in different ways
        assert len(np.unique(scores[start:stop])) == stop - start
    ours = measure_queries(scores, vali.labels[0], vali.offsets, click, stream(0))[:, 0]
    assert mean_over_queries(ours, "one") == pytest.approx(curve[-1], abs=1e-12)


def test_labels_beyond_what_lightgbm_knows_by_itself():
    data = collection(([[0.0], [0.5], [1.0]], [0, 20, 40]), grades=41)
    low, _, high = LambdaMART(trees=2, documents=1).fit(data, None, seed=1).scores(data.features)
    assert low < high


def test_a_seed_may_be_larger_than_lightgbm_takes():
    """LightGBM takes 31 bits: the lowest ones count."""
    small, large = (LambdaMART(trees=2).fit(noisy(20), None, seed) for seed in (3, 2**40 + 3))
    assert b"[seed: 3]" in large.model and large.model == small.model


def test_what_cannot_be_learnt_from_is_said():
    with pytest.raises(Mistake, match="no training query has two documents with different labels"):
        LambdaMART().fit(NO_PAIR, None, seed=1)
    with pytest.raises(
        Mistake, match="no validation query has two documents with different labels"
    ):
        LambdaMART().fit(collection(([[0.0], [1.0]], [0, 1])), NO_PAIR, seed=1)
    long = collection((np.zeros((10_001, 1)), np.arange(10_001) % 2))
    with pytest.raises(
        Mistake, match="a training query has 10001 documents, LightGBM takes at most 10000"
    ):
        LambdaMART().fit(long, None, seed=1)


@pytest.mark.parametrize(
    "fields",
    [{"trees": 0}, {"leaves": 1}, {"learning_rate": 0.0}, {"documents": 0}, {"patience": 0}],
    ids=str,
)
def test_impossible_fields_are_refused(fields):
    with pytest.raises(Mistake, match=f"LambdaMART: {next(iter(fields))} must be"):
        LambdaMART(**fields)


def test_without_the_library_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(Mistake, match=r"pip install 'foltr\[baselines\]'"):
        LambdaMART().fit(noisy(), None, seed=1)
