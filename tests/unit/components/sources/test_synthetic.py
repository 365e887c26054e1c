"""Data made from a seed."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from foltr.components.sources.synthetic import SHAPES, Synthetic
from foltr.core.errors import Mistake
from foltr.core.seeds import stream


def ndcg(data, scores):
    values = []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        gains = 2.0 ** data.labels[0, start:stop] - 1
        discounts = 1 / np.log2(np.arange(2, 2 + min(10, stop - start)))
        if gains.any():
            ideal = np.sort(gains)[::-1][: len(discounts)] @ discounts
            values.append(
                gains[np.argsort(-scores[start:stop])][: len(discounts)] @ discounts / ideal
            )
    return np.mean(values)


@pytest.mark.parametrize("name", SHAPES)
def test_looks_like_the_real_collection(name):
    shape, data = SHAPES[name], Synthetic(shape=name, queries=150).load("train")
    shares = np.bincount(data.labels[0], minlength=data.grades) / data.documents
    # over seeds a share has an sd of .015 at most, the mean length one of 4 %
    np.testing.assert_allclose(shares, shape.shares, atol=0.1)
    assert (data.queries, data.width, data.grades) == (150, shape.features, len(shape.shares))
    assert abs(data.documents / data.queries / shape.documents - 1) < 0.25
    assert len(set(np.diff(data.offsets).tolist())) > 10
    assert (
        data.features.min() == 0
        and data.features.max() == 1
        and not data.storage[:, data.width :].any()
    )


def test_features_are_correlated():
    features = np.asarray(Synthetic(queries=200).load("train").features)
    correlation = np.abs(np.corrcoef(features.T)) - np.eye(46)
    assert np.median(correlation.max(axis=0)) > 0.5


def test_same_seed_same_data_and_nothing_else():
    one, same = Synthetic(queries=20).load("train"), Synthetic(queries=20).load("train")
    assert one.storage.tobytes() == same.storage.tobytes() and one.content == same.content
    others = [Synthetic(queries=20, seed=1).load("train"), Synthetic(queries=60).load("test")]
    assert all(
        other.queries == 20 and other.storage.tobytes() != one.storage.tobytes()
        for other in others
    )
    assert len({one.content, *(other.content for other in others)}) == 3


def test_a_large_one_is_kept_on_disk_with_the_same_bits(monkeypatch):
    plain = Synthetic(queries=300).load("train")
    monkeypatch.setattr("foltr.components.sources.synthetic.IN_MEMORY", 0)
    for _ in range(2):
        kept = Synthetic(queries=300).load("train")
        assert isinstance(kept.storage, np.memmap)
        assert (
            kept.storage.tobytes() == plain.storage.tobytes()
            and kept.labels.tobytes() == plain.labels.tobytes()
        )
        assert (
            kept.offsets.tolist() == plain.offsets.tolist()
            and kept.query_ids.tolist() == plain.query_ids.tolist()
        )


def test_random_linear_curved_and_ideal_are_clearly_apart():
    train, test = Synthetic().load("train"), Synthetic().load("test")
    labels = train.labels[0].astype(float)
    random = ndcg(test, stream(0, "random").uniforms(test.documents))
    linear = ndcg(test, Ridge().fit(train.features, labels).predict(test.features))
    # a part of what bends
    curved = ndcg(test, Ridge().fit(with_squares(train), labels).predict(with_squares(test)))
    assert random + 0.2 < linear and linear + 0.04 < curved < 0.95


def with_squares(data):
    return np.hstack([data.features, data.features**2])


@pytest.mark.parametrize(
    "wrong", [{"queries": 0}, {"noise": -1.0}, {"shape": "MQ2009"}, {"bend": -0.5}]
)
def test_impossible_fields_are_refused(wrong):
    with pytest.raises(Mistake):
        Synthetic(**wrong)
