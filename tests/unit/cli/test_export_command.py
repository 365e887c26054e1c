"""`foltr export`: a file and what to do with it; wrong input is one message and exit code 2."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.experiment import Experiment
from foltr.simulation.exports.export import FORMATS

SMALL = {"data": "Synthetic(queries=20)", "clients": 3, "rounds": 3}


def foltr(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Experiment(**SMALL).run("runs").folder


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("json", "foltr.load_ranker('ranker.json')"),
        ("onnx", "onnxruntime.InferenceSession('ranker.onnx')"),
        ("opensearch", "/_ltr/_featureset/FEATURESET/_createmodel"),
        ("elasticsearch", "--data-binary @ranker.elasticsearch.json"),
        ("python", "from ranker import scores"),
        ("sklearn", "foltr.load_estimator('ranker.sklearn.json')"),
    ],
)
def test_each_format_says_what_to_do_next(to, said, run):
    done = foltr("export", run, "--to", to)
    assert done.exit_code == 0, done.output
    assert said in done.output and f"{FORMATS[to].file}: Linear() over 46 features" in done.output
    assert "features as the training data has them" in done.output
    assert "--features FILE gives them names" in done.output


def test_the_help_names_every_format():
    said = " ".join(foltr("export", "--help").output.split())
    assert all(to in said for to in FORMATS)


def test_names_of_features_and_of_the_model(run, tmp_path):
    names = [f"feature {i}" for i in range(46)]
    (tmp_path / "names.txt").write_text("\ufeff" + "\n".join(names) + "\n\n", encoding="utf-8")
    words = ["--features", "names.txt", "--name", "shop-1", "-o", "model.json"]
    done = foltr("export", run, "--to", "opensearch", *words)
    assert done.exit_code == 0, done.output
    model = json.loads((tmp_path / "model.json").read_text())["model"]
    assert model["name"] == "shop-1" and '"sltr": {"model": "shop-1"' in done.output
    assert list(json.loads(model["model"]["definition"])) == names
    assert "--features FILE" not in done.output


def test_a_model_is_called_as_its_run(run, tmp_path):
    foltr("export", run, "--to", "opensearch")
    model = json.loads((tmp_path / "ranker.opensearch.json").read_text())["model"]
    assert model["name"] == run.name


def test_normalisation_that_a_ranker_does_not_say(run, tmp_path):
    done = foltr("export", run, "--to", "python", "--normalize")
    assert "raw features of all documents of one query" in done.output
    assert "_normalised(rows)" in (tmp_path / "ranker.py").read_text()


def test_overwriting(run, tmp_path):
    assert foltr("export", run, "--to", "json").exit_code == 0
    assert "unchanged" in foltr("export", run, "--to", "json").output
    refused = foltr("export", run, "--to", "json", "--normalize")
    assert refused.exit_code == 2 and "--overwrite" in refused.output
    assert foltr("export", run, "--to", "json", "--normalize", "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "onx"], "did you mean 'onnx'?"),
        (["--to", "json", "--out", "absent/r.json"], "cannot write absent/r.json"),
        (["--to", "json", "--features", "absent.txt"], "cannot read absent.txt"),
        (["--to", "json", "--features", "two.txt"], "2 names of features"),
        (["--to", "json", "--features", "gap.txt"], "gap.txt, line 2 is empty"),
        (["--to", "json", "--features", "bytes.txt"], "bytes.txt is not text in UTF-8"),
        (["--to", "opensearch", "--name", "a b"], "'a b' cannot be the name of a model"),
        (["--to", "elasticsearch", "--normalize"], "each document by itself"),
        ([], "Missing option '--to'"),
    ],
)
def test_wrong_input_is_one_message(words, said, run, tmp_path):
    (tmp_path / "two.txt").write_text("a\nb\n")
    (tmp_path / "gap.txt").write_text("a\n\nb\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xff")
    before = sorted(tmp_path.iterdir())
    done = foltr("export", run, *words)
    assert done.exit_code == 2 and said in done.output
    assert "Traceback" not in done.output and sorted(tmp_path.iterdir()) == before


def test_a_network_for_a_search_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Experiment(**SMALL, ranker="MLP(hidden=2)").run("runs").folder
    done = foltr("export", run, "--to", "opensearch")
    assert done.exit_code == 2 and "linear, or trees of RankLib and XGBoost" in done.output


def test_a_missing_run():
    done = foltr("export", "absent", "--to", "json")
    assert done.exit_code == 2 and "absent does not exist: give the folder of a run" in done.output


def test_the_help_loads_no_export():
    code = (
        "import sys; from foltr.cli.app import app; heavy = ('numpy', 'onnx', 'sklearn',"
        " 'foltr.simulation.exports'); print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
