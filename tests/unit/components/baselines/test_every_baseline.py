"""What every ranker trained on labels must be true of."""

import numpy as np
import pytest
from labelled import ONE_GRADE, collection, noisy

from foltr.components.rankers.linear import Linear
from foltr.core.errors import Mistake
from foltr.core.metrics import measure_queries
from foltr.core.seeds import stream
from foltr.core.spec import baselines
from foltr.core.world.protocols import Ranked

every = pytest.mark.parametrize(
    "baseline", [pytest.param(cls(), id=name) for name, cls in baselines.members().items()]
)


def scored(ranked, data):
    return ranked.scores(data.features)


def ndcg(scores, data):
    click = np.zeros((10, data.grades))
    return float(
        np.nanmean(
            measure_queries(scores, data.labels[0], data.offsets, click, stream(0, "ties"))[:, 0]
        )
    )


@every
def test_it_learns(baseline):
    train, vali, test = noisy(150, seed=1), noisy(100, seed=2), noisy(150, seed=3)
    ranked = baseline.fit(train, vali, seed=1)
    assert isinstance(ranked, Ranked)
    by_chance = ndcg(stream(1, "chance").uniforms(test.documents), test)
    assert ndcg(scored(ranked, test), test) > by_chance + 0.1
    scores = scored(ranked, test)
    assert (
        scores.shape == (test.documents,)
        and scores.dtype == np.float64
        and np.isfinite(scores).all()
    )


@every
def test_the_same_data_and_seed_give_the_same_bits(baseline):
    train, vali, test = noisy(60, seed=1), noisy(30, seed=2), noisy(30, seed=3)
    one, same = (baseline.fit(train, vali, seed=7) for _ in range(2))
    assert scored(one, test).tobytes() == scored(same, test).tobytes()
    assert one.model == same.model


@every
def test_it_is_a_linear_ranker_or_a_model_to_keep(baseline):
    data = noisy(60, seed=1)
    ranked = baseline.fit(data, None, seed=1)
    if ranked.params is None:
        assert ranked.model
    else:
        assert (
            ranked.params.shape == (data.width,)
            and ranked.params.dtype == np.float64
            and ranked.model == b""
        )
        np.testing.assert_array_equal(
            Linear().scores(ranked.params, data.features), scored(ranked, data)
        )


@every
def test_scores_do_not_depend_on_which_documents_are_scored_with_it(baseline):
    data = noisy(60, seed=1)
    ranked = baseline.fit(data, None, seed=1)
    alone = [ranked.scores(data.features[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(alone, scored(ranked, data)[:20], rtol=1e-12)


@every
def test_one_grade_teaches_nothing(baseline):
    with pytest.raises(Mistake, match="there is nothing to learn from"):
        baseline.fit(ONE_GRADE, None, seed=1)


@every
def test_constant_features_get_no_say(baseline):
    data = noisy(60, features=3, seed=1)
    wide = collection(*[
        (np.insert(data.features[a:b], 1, 0.1, axis=1), data.labels[0, a:b])
        for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ])  # fmt: skip
    narrow, ranked = baseline.fit(data, None, seed=1), baseline.fit(wide, None, seed=1)
    np.testing.assert_allclose(scored(ranked, wide), scored(narrow, data), atol=1e-6)
    if ranked.params is not None:
        assert abs(ranked.params[1]) < 1e-9


@every
def test_nothing_but_constant_features_ranks_nothing_above_anything(baseline):
    data = collection(([[0.5], [0.5], [0.5]], [0, 1, 2]), ([[0.5], [0.5]], [2, 0]))
    assert len(set(scored(baseline.fit(data, None, seed=1), data).tolist())) == 1
