"""The learning-to-rank plugins of OpenSearch and of Elasticsearch (OpenSource Connections): a
model of type model/linear, as the body of a request that creates it.

    POST _ltr/_featureset/FEATURESET/_createmodel
    {"model": {"name": ..., "model": {"type": "model/linear", "definition": "{name: weight, ...}",
     "feature_normalizers": {name: {"standard": {"mean": ..., "standard_deviation": ...}}, ...}}}}

Both plugins take the same body. They score each document by itself, in float32: the sum over the
features of weight x value, where a normalizer makes (value - mean) / standard_deviation of the
value. A feature whose query does not match a document has the value 0. `definition` is a text
that contains JSON, which every version accepts. min_max normalizers are not used: they allow no
negative minimum.

Reference: https://docs.opensearch.org/latest/search-plugins/ltr/training-models/ and
https://elasticsearch-learning-to-rank.readthedocs.io/en/latest/training-models.html; where the
second page puts feature_normalizers elsewhere, this is what the plugin's source reads
(StoredLtrModel.LtrModelDefinition)."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from foltr.core.errors import Mistake, require, shown
from foltr.core.scoring import PerFeature
from foltr.simulation.exports.model import Model

MOST_FEATURES = 10_000  # of a feature set
MODEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,500}")  # ids have at most 512 bytes, with "model-"
PLUGIN = "the learning-to-rank plugins of OpenSearch and Elasticsearch"


def plugin_file(model: Model) -> bytes:
    """The body of the request. Raises a Mistake if a plugin cannot represent the model."""
    weights = _weights(model)
    called = f"{shown(model.name)} cannot be the name of a model: use 1 to 500 letters, digits"
    require(bool(MODEL_NAME.fullmatch(model.name)), f"{called}, '.', '_' and '-' (--name)")
    many = f"{PLUGIN} have at most {MOST_FEATURES:,} features in a set"
    require(model.features <= MOST_FEATURES, f"{many}, the ranker has {model.features:,}")
    require("" not in model.names, "a feature's name is empty: give names by --features")
    definition: dict[str, Any] = {"type": "model/linear", "definition": json.dumps(weights)}
    if isinstance(model.normalisation, PerFeature):
        fixed = model.normalisation
        definition["feature_normalizers"] = {
            name: {"standard": {"mean": shift, "standard_deviation": scale}}
            for name, shift, scale in zip(model.names, fixed.shift, fixed.scale, strict=True)
            if scale > 0.0
        }
    body = {"model": {"name": model.name, "model": definition}}
    return (json.dumps(body, indent=1) + "\n").encode()


def _weights(model: Model) -> dict[str, float]:
    if model.per_query:
        raise Mistake(
            f"{PLUGIN} score each document by itself, and this ranker normalises its features over"
            " all documents of a query. Train on features that need no normalisation"
            " (normalize=False), or use --to onnx or --to python"
        )
    (layer, *more) = model.layers
    if more or layer.activation != "identity":
        raise Mistake(
            f"{PLUGIN} cannot represent {model.trained.ranker!r}: their models are linear, or"
            " trees of RankLib and XGBoost. Train a Linear() ranker, or use --to onnx or --to"
            " python"
        )
    bias = f"{model.trained.ranker!r} has a bias, and the linear models of {PLUGIN} have none"
    require(not layer.bias.any(), f"{bias}: train one without, it does not change a ranking")
    weights = layer.weights[0].astype(float)
    if isinstance(model.normalisation, PerFeature):  # a feature without a scale is always 0
        weights = np.where(np.array(model.normalisation.scale) > 0.0, weights, 0.0)
    return dict(zip(model.names, weights.tolist(), strict=True))
