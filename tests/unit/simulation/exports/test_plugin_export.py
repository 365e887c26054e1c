"""The file for the plugins of OpenSearch and Elasticsearch: a request that their parsers take, and
refusals of what they cannot represent."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from exported_models import made

from foltr.core.errors import Mistake
from foltr.core.scoring import Layer, PerFeature, PerQuery
from foltr.simulation.exports.model import Model
from foltr.simulation.exports.plugins import plugin_file
from foltr.simulation.runs.trained import TrainedRanker

NAMES = ("title_query", "body query", 'a "quoted" name')


def body(trained, name="my_model"):
    return json.loads(plugin_file(Model(trained, name)))


def test_the_documented_request():
    """The keys of the two plugins' documentation, and a definition that is JSON in a text."""
    trained = TrainedRanker(made().ranker, np.array([0.5, -2.0, 0.25], np.float32), 3, NAMES)
    content = body(trained)
    assert content.keys() == {"model"} and content["model"].keys() == {"name", "model"}
    assert content["model"]["name"] == "my_model"
    model = content["model"]["model"]
    assert model.keys() == {"type", "definition"} and model["type"] == "model/linear"
    assert isinstance(model["definition"], str)
    assert json.loads(model["definition"]) == dict(zip(NAMES, [0.5, -2.0, 0.25], strict=True))


def test_weights_are_those_of_float32():
    weights = json.loads(body(made(f=4))["model"]["model"]["definition"])
    np.testing.assert_array_equal(np.array(list(weights.values()), np.float32), made(f=4).params)
    assert list(weights) == ["1", "2", "3", "4"]


def test_fixed_normalisation_is_a_standard_normalizer():
    fixed = PerFeature((1970.0, -3.0, 5.0), (30.0, 0.5, 0.0))
    model = body(made(f=3, normalisation=fixed, names=NAMES))["model"]["model"]
    assert model["feature_normalizers"] == {
        NAMES[0]: {"standard": {"mean": 1970.0, "standard_deviation": 30.0}},
        NAMES[1]: {"standard": {"mean": -3.0, "standard_deviation": 0.5}},
    }
    # a normalizer needs a positive deviation: a feature without a scale has no weight
    assert json.loads(model["definition"])[NAMES[2]] == 0.0


@pytest.mark.parametrize("activation", ["sigmoid", "relu", "tanh"])
def test_a_network_is_refused(activation):
    with pytest.raises(Mistake) as refused:
        body(made(f"MLP(hidden=2, activation={activation!r})", 3))
    for said in ("MLP(hidden=2", "linear, or trees of RankLib and XGBoost", "--to onnx"):
        assert said in str(refused.value)


def test_normalisation_per_query_is_refused():
    with pytest.raises(Mistake) as refused:
        body(made(f=3, normalisation=PerQuery()))
    for said in ("each document by itself", "normalize=False", "--to onnx or --to python"):
        assert said in str(refused.value)


@dataclass(frozen=True)
class Biased:
    def layers(self, params):
        return (Layer(params[None, :-1], params[-1:]),)


def test_a_bias_is_refused():
    with pytest.raises(Mistake, match="bias"):
        body(TrainedRanker(Biased(), np.array([1.0, 2.0, 3.0], np.float32), 2))
    without = np.array([1.0, 2.0, 0.0], np.float32)
    assert body(TrainedRanker(Biased(), without, 2))["model"]["name"] == "my_model"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 501])
def test_names_that_no_url_takes_are_refused(name):
    with pytest.raises(Mistake, match="--name"):
        body(made(), name)


def test_too_many_features_and_empty_names_are_refused():
    with pytest.raises(Mistake, match="10,000"):
        body(made(f=10_001))
    with pytest.raises(Mistake, match="empty"):
        body(replace(made(f=2), names=("", "b")))
