"""`foltr.export`: what it takes, which file it writes, and what it refuses before it writes."""

import json
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
from exported_models import made, raw_documents

import foltr
from foltr.core.errors import Mistake
from foltr.core.scoring import PerFeature, PerQuery
from foltr.simulation.exports.export import FORMATS
from foltr.simulation.runs.trained import TrainedRanker

NAMES = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("to", FORMATS)
def test_each_format_writes_one_file(to, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = foltr.export(made(), to)
    assert [path] == [file.relative_to(tmp_path) for file in tmp_path.iterdir()]
    assert path.name == FORMATS[to].file and path.stat().st_size > 100


def test_a_folder_gets_the_usual_file(tmp_path):
    assert foltr.export(made(), "onnx", tmp_path) == tmp_path / "ranker.onnx"
    (tmp_path / "ranker.py").mkdir()
    with pytest.raises(Mistake, match=r"ranker\.py is no regular file"):
        foltr.export(made(), "python", tmp_path)


def test_a_result_a_ranker_a_file_and_a_folder_give_the_same_export(tmp_path):
    e = foltr.Experiment(data="Synthetic(queries=20)", clients=3, rounds=3)
    result = e.run(tmp_path / "runs")
    result.trained.save(tmp_path / "ranker.json")
    given = [result, result.trained, tmp_path / "ranker.json", str(result.folder)]
    contents = {
        foltr.export(each, "json", tmp_path / f"{i}.json").read_bytes()
        for i, each in enumerate(given)
    }
    assert len(contents) == 1


def test_what_the_ranker_does_not_say_can_be_given(tmp_path):
    out = foltr.export(made(), "json", tmp_path / "r.json", names=NAMES, normalize=True)
    again = foltr.load_ranker(out)
    assert again.names == NAMES and again.normalisation == PerQuery()
    np.testing.assert_array_equal(again.params, made().params)
    # the same once more; names can be changed
    other = foltr.export(again, "json", tmp_path / "s.json", names=NAMES[::-1], normalize=True)
    assert foltr.load_ranker(other).names == NAMES[::-1]
    fixed = made(normalisation=PerFeature((0.0,) * 5, (1.0,) * 5))
    with pytest.raises(Mistake, match="normalisation of its own"):
        foltr.export(fixed, "json", tmp_path / "t.json", normalize=True)


def test_an_exported_json_is_a_saved_ranker(tmp_path):
    """It loads to the same scores, and exports to the same bytes."""
    trained = made("MLP(hidden=3, activation='tanh')", 5, PerQuery(), NAMES)
    out = foltr.export(trained, "json", tmp_path / "r.json")
    again = foltr.load_ranker(out)
    assert again.names == NAMES and again.normalisation == PerQuery()
    np.testing.assert_array_equal(
        again.scores(raw_documents(), raw=True), trained.scores(raw_documents(), raw=True)
    )
    foltr.export(again, "json", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("key", "change", "said"),
    [
        ("layers", lambda layers: layers[0]["bias"].__setitem__(0, 1.0), "layers"),
        ("layers", lambda layers: layers.pop(), "layers"),
        ("names", lambda names: names.reverse(), "names_sha256"),
        ("params", lambda params: params.__setitem__(0, 9.0), "layers"),
    ],
)
def test_an_edited_json_is_refused(key, change, said, tmp_path):
    out = foltr.export(made(names=NAMES), "json", tmp_path / "r.json")
    content = json.loads(out.read_text())
    change(content[key])
    out.write_text(json.dumps(content))
    with pytest.raises(Mistake, match=f"{said}.*export it again"):
        foltr.load_ranker(out)


def test_a_file_is_not_overwritten_unless_it_is_the_same(tmp_path):
    out = tmp_path / "ranker.py"
    foltr.export(made(), "python", out)
    before = out.stat()
    foltr.export(made(), "python", out)
    assert out.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(Mistake, match=r"ranker\.py exists and differs"):
        foltr.export(made(seed=1), "python", out)
    assert out.stat().st_mtime_ns == before.st_mtime_ns
    foltr.export(made(seed=1), "python", out, overwrite=True)
    (tmp_path / "other").mkdir()
    other = foltr.export(made(seed=1), "python", tmp_path / "other" / "ranker.py")
    assert out.read_bytes() == other.read_bytes()


@dataclass(frozen=True)
class Squares:
    """A ranker that is no network."""

    def scores(self, params, docs):
        return np.square(docs) @ params


@pytest.mark.parametrize(
    ("trained", "options", "said"),
    [
        (made(), {"to": "onx"}, "did you mean 'onnx'"),
        (made(), {"to": "pmml"}, "known: elasticsearch, json, onnx"),
        (made(), {"to": "json", "names": ("a", "b")}, "2 names of features, and the ranker has 5"),
        (made(), {"to": "json", "names": ("a",) * 5}, "two features are called 'a'"),
        (made(), {"to": "json", "names": "abcde"}, "a list of texts, got 'abcde'"),
        (made(), {"to": None}, "no format is called None"),
        (made(), {"to": "json", "name": ""}, "printable"),
        (made(), {"to": "json", "name": "a\nb"}, "printable"),
        (made(), {"to": "onnx", "name": "\ud800"}, "printable"),
        (made(), {"to": "python", "out": "my-ranker.py"}, "could not be imported"),
        (made(), {"to": "python", "out": "class.py"}, "could not be imported"),
        (made(), {"to": "json", "out": "absent/r.json"}, "cannot write"),
        (made("MLP()"), {"to": "opensearch"}, "RankLib and XGBoost"),
        (made("MLP()"), {"to": "elasticsearch"}, "RankLib and XGBoost"),
        (made(), {"to": "elasticsearch", "normalize": True}, "each document by itself"),
        (TrainedRanker(Squares(), np.zeros(2), 2), {"to": "onnx"}, "cannot be exported"),
        (7, {"to": "onnx"}, "a trained ranker, a result or a path, got 7"),
        ("absent", {"to": "json"}, "absent does not exist"),
    ],
)
def test_refusals_write_nothing(trained, options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Mistake) as refused:
        foltr.export(trained, **options)
    assert said in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_with_a_model_of_its_own_is_refused(tmp_path):
    e = foltr.Experiment(data="Synthetic(queries=20)", baseline="LambdaMART(trees=2)")
    with pytest.raises(Mistake, match="LambdaMART is no ranker of foltr"):
        foltr.export(e.run(tmp_path / "runs").folder, "onnx", tmp_path / "r.onnx")


def test_a_linear_baseline_can_be_exported(tmp_path):
    e = foltr.Experiment(data="Synthetic(queries=20)", baseline="LeastSquares()")
    result = e.run(tmp_path / "runs")
    out = foltr.export(result.folder, "json", tmp_path / "r.json")
    np.testing.assert_array_equal(foltr.load_ranker(out).params, result.params.astype(np.float32))


@pytest.mark.parametrize("to", list(FORMATS))
def test_parameters_that_are_not_finite_are_refused(tmp_path, to):
    broken = replace(made(), params=np.full(made().params.shape, np.nan, np.float32))
    with pytest.raises(Mistake, match="infinite or NaN"):
        foltr.export(broken, to, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Mistake, match="is no regular file"):
        foltr.export(made(), "json", pipe, overwrite=True)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["ranker", "ranker.txt", "array.py", "math.py", "json.py"])
def test_a_python_file_that_could_not_be_imported(tmp_path, name):
    with pytest.raises(Mistake, match="could not be imported"):
        foltr.export(made(), "python", tmp_path / name)


@pytest.mark.parametrize(
    "change", [{"features": float("inf")}, {"params": [10**400]}, {"params": [1e39]}]
)
def test_numbers_beyond_all_bounds_in_a_saved_file(tmp_path, change):
    path = tmp_path / "ranker.json"
    path.write_text(json.dumps({**made(f=1).plain(), **change}))
    with pytest.raises(Mistake, match=r"ranker\.json"):
        foltr.load_ranker(path)
