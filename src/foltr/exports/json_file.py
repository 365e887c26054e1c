"""JSON: the file of `TrainedRanker.save`, with the layers written out for other programs.

foltr-ranker  the version of this format, 1
ranker        the ranker and its fields, as in an experiment
features      the number of features f
names         their names, in order
names_sha256  SHA-256 of the names as a JSON list with ASCII escapes and ", " between them
normalisation {"kind": "min-max per query"}: (x - min) / (max - min) over the documents of the
              query, and 0 where a feature is constant;
              {"kind": "shift and scale", "shift": [f], "scale": [f]}: (x - shift) / scale, and
              0 where the scale is 0; absent: features are used as they are
layers        in order: {"weights": [out][in], "bias": [out], "activation": a}. A layer gives
              a(weights x + bias), a one of identity, sigmoid (1 / (1 + e^-z)), relu
              (max(0, z)) and tanh. The last one gives the score
params        all parameters, as foltr holds them; `foltr.load_ranker` reads them"""

from __future__ import annotations

import json

from foltr.exports.model import Model
from foltr.runs.trained import about_features
from foltr.scoring.layers import plain_layers


def json_file(model: Model) -> bytes:
    saved = model.trained.plain()
    params = saved.pop("params")  # last: other programs do not need them
    content = {
        **saved,
        **about_features(model.names, model.normalisation),
        "names_sha256": model.names_sha256,
        "layers": plain_layers(model.layers),
        "params": params,
    }
    return (json.dumps(content, allow_nan=False) + "\n").encode()
