"""Every format gives the scores of the ranker, for raw features of any size: to 1e-6 of the
largest score of the query."""

import json
from math import exp, tanh

import numpy as np
import pytest
from exported_models import (
    RANKERS,
    assert_close,
    by_definition,
    cases,
    documents,
    made,
    rankers,
    raw_documents,
    units_of_float32,
)
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import foltr
from foltr.core.scoring import PerFeature, PerQuery
from foltr.simulation.exports.estimator import RankerEstimator
from foltr.simulation.exports.export import json_file
from foltr.simulation.exports.model import Model
from foltr.simulation.exports.onnx_file import onnx_file
from foltr.simulation.exports.plugins import plugin_file
from foltr.simulation.exports.python_file import python_file
from foltr.simulation.runs.trained import TrainedRanker
from property_settings import examples

often = settings(examples(60), suppress_health_check=[HealthCheck.too_slow])


def with_onnx(trained, docs):
    import onnxruntime

    content = onnx_file(Model(trained, "m"))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"documents": np.asarray(docs, np.float32)})
    assert scores.dtype == np.float32
    return scores


def with_python(trained, docs):
    names: dict = {"__name__": "ranker"}
    exec(python_file(Model(trained, "m"), "ranker"), names)
    lists = [[float(x) for x in row] for row in docs]
    found = names["scores"](lists)
    named = [dict(zip(names["FEATURES"], row, strict=True)) for row in lists]
    assert found == names["scores"](named)
    return found


def with_json(trained, docs):
    """A reader that knows only the description of the format."""
    content = json.loads(json_file(Model(trained, "m")))
    assert len(content["names"]) == content["features"]
    rows = [[float(np.float32(x)) for x in row] for row in docs]
    how = content.get("normalisation", {"kind": "none"})
    if how["kind"] == "min-max per query":
        columns = list(zip(*rows, strict=True))
        low = list(map(min, columns))
        how = {"shift": low, "scale": [max(c) - l for c, l in zip(columns, low, strict=True)]}
    if "scale" in how:
        parts = list(zip(how["shift"], how["scale"], strict=True))
        rows = [
            [(x - a) / b if b else 0.0 for x, (a, b) in zip(row, parts, strict=True)]
            for row in rows
        ]
        rows = [[float(np.float32(x)) for x in row] for row in rows]
    functions = {
        "identity": lambda z: z,
        "sigmoid": lambda z: 1 / (1 + exp(-z)) if z > -700 else 0.0,
        "relu": lambda z: max(0.0, z),
        "tanh": tanh,
    }
    for layer in content["layers"]:
        a = functions[layer["activation"]]
        units = list(zip(layer["weights"], layer["bias"], strict=True))
        rows = [[a(sum(map(float.__mul__, w, row)) + b) for w, b in units] for row in rows]
    return [score for (score,) in rows]


def with_sklearn(trained, docs):
    return RankerEstimator(trained).predict(docs)


def with_plugin(trained, docs, kind=np.float64):
    """What the plugins document: sum of weight x value, where a normalizer changes the value."""
    body = json.loads(plugin_file(Model(trained, "m")))["model"]["model"]
    weights, normalizers = json.loads(body["definition"]), body.get("feature_normalizers", {})
    names = trained.names or [str(i) for i in range(1, trained.features + 1)]
    found = []
    for row in np.asarray(docs, np.float32):
        score = kind(0)
        for name, value in zip(names, row, strict=True):
            value = kind(value)
            if name in normalizers:
                (standard,) = normalizers[name].items()
                assert standard[0] == "standard" and standard[1]["standard_deviation"] > 0
                mean, deviation = standard[1]["mean"], standard[1]["standard_deviation"]
                value = (value - kind(mean)) / kind(deviation)
            score += kind(weights[name]) * value
        found.append(score)
    return found


ANYWHERE = [with_onnx, with_python, with_json, with_sklearn]


def linear(params, shift, scale):
    params = np.array(params, np.float32)
    return TrainedRanker(foltr.Linear(), params, len(params), None, PerFeature(shift, scale))


# a score below the normal numbers of float32, and one of terms that cancel but for rounding
SUBNORMAL = linear([4.0], (2.0**-126,), (51.0,))
CANCELLING = linear([1.0, -1.0], (0.0, 0.0), (3.0, 3.0000002))


@pytest.mark.parametrize("scored", ANYWHERE)
@often
@given(data=st.data())
def test_exports_of_random_rankers_score_random_documents(scored, data):
    trained = data.draw(rankers())
    docs = data.draw(documents(trained))
    assert_close(scored(trained, docs), trained, docs)


@often
@given(cases(RANKERS[:1], ("none", "feature")))
@example((SUBNORMAL, np.zeros((1, 1), np.float32)))
@example((CANCELLING, np.ones((1, 2), np.float32)))
def test_plugins_score_single_documents(case):
    """As the formula in the definition, which rounds normalised features to float32 where plugins
    do not."""
    trained, docs = case
    slack = units_of_float32(trained, docs)
    assert_close(with_plugin(trained, docs), trained, docs, slack)


def test_plugins_compute_in_float32():
    for normalisation in (None, PerFeature((1.0,) * 40, (3.0,) * 40)):
        trained, docs = made(f=40, normalisation=normalisation), raw_documents(20, 40)
        found = np.array(with_plugin(trained, docs, np.float32))
        assert found.dtype == np.float32
        assert_close(found, trained, docs)


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
@pytest.mark.parametrize("normalisation", [None, PerQuery(), PerFeature((2.0,) * 30, (9.0,) * 30)])
def test_exports_score_as_the_trained_ranker(ranker, normalisation):
    """`TrainedRanker.scores` computes in float32."""
    trained, docs = made(ranker, 30, normalisation), raw_documents(25, 30)
    own = trained.scores(docs, raw=True)
    assert own.dtype == np.float32
    for scored in ANYWHERE:
        np.testing.assert_allclose(scored(trained, docs), own, 0, 1e-6 * np.abs(own).max())


@pytest.mark.parametrize("scored", ANYWHERE)
def test_scores_worked_out_by_hand(scored):
    """Features 2 and 10 in two documents: scaled to 0 and 1; the third feature is constant."""
    linear = made("Linear()", 3, PerQuery())
    linear.params[:] = [3.0, -2.0, 100.0]
    docs = [[2.0, 40.0, 7.0], [10.0, 30.0, 7.0], [4.0, 35.0, 7.0]]
    np.testing.assert_allclose(scored(linear, docs), [-2.0, 3.0, 0.75 - 1.0], rtol=1e-7)
    # one document: every feature is constant
    np.testing.assert_array_equal(scored(linear, docs[:1]), [0.0])
    # the span is beyond float32
    huge = [[-3e38, 0.0, 0.0], [3e38, 0.0, 0.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(scored(linear, huge), [0.0, 3.0, 1.5], rtol=1e-7)


@pytest.mark.parametrize("scored", ANYWHERE)
def test_numbers_are_rounded_to_float32_as_in_training(scored):
    """2^24 and 2^24 + 1 are one number in float32: the feature is constant."""
    linear = made("Linear()", 1, PerQuery())
    linear.params[:] = 1.0
    np.testing.assert_array_equal(scored(linear, [[2.0**24], [2.0**24 + 1]]), [0.0, 0.0])


def test_the_comparison_can_fail():
    trained, docs = made(f=3, normalisation=PerQuery()), raw_documents(4, 3)
    right, _ = by_definition(trained, docs)
    with pytest.raises(AssertionError):
        assert_close(right + 2e-6 * np.abs(right).max(), trained, docs)
    unscaled = made(f=3)
    with pytest.raises(AssertionError):
        assert_close(with_python(unscaled, docs), trained, docs)


def raw_folder(path, queries=12):
    """A LETOR folder of raw features, of sizes from 0.01 to 10,000."""
    path.mkdir()
    for split in ("train", "test"):
        lines = []
        for q in range(queries):
            docs = raw_documents(3 + q % 5, 6, seed=q + 100 * (split == "test"))
            for i, row in enumerate(docs):
                numbers = " ".join(f"{j}:{x:.7g}" for j, x in enumerate(row, 1))
                lines.append(f"{i % 3} qid:{q} {numbers}\n")
        (path / f"{split}.txt").write_text("".join(lines))


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=8)"])
def test_raw_features_in_give_the_scores_of_the_run(ranker, tmp_path):
    """The source normalises per query; exports are given what its files hold."""
    raw_folder(tmp_path / "data")
    source = foltr.Letor(path=str(tmp_path / "data"), normalize=True)
    check_a_run(source, ranker, tmp_path)


@pytest.mark.parametrize("ranker", ["Linear()", "MLP(hidden=8)"])
def test_raw_features_of_real_data(ranker, with_real_data, tmp_path):
    sample = with_real_data / "MSLR-sample"
    if not sample.is_dir():
        pytest.skip("no real data: MSLR-sample is not in the folder that FOLTR_DATA names")
    check_a_run(foltr.Letor(path=str(sample), normalize=True), ranker, tmp_path)


def check_a_run(source, ranker, tmp_path):
    e = foltr.Experiment(data=source, ranker=ranker, clients=5, rounds=5)
    trained = e.run(tmp_path / "runs").trained
    assert trained.normalisation == PerQuery()
    scaled, raw = source.load("test"), foltr.Letor(path=source.path).load("test")
    assert raw.normalisation is None and raw.features.max() > 100.0
    for q in range(min(10, raw.queries)):
        rows = slice(raw.offsets[q], raw.offsets[q + 1])
        expected = trained.scores(scaled.features[rows])
        largest = np.abs(expected).max()
        np.testing.assert_array_equal(trained.scores(raw.features[rows], raw=True), expected)
        for scored in ANYWHERE:
            found = scored(trained, raw.features[rows])
            np.testing.assert_allclose(found, expected, 0, 1e-6 * largest)
