"""`foltr audit`: a file is run and then attacked, a finished run only attacked; bad input is one
message and exit code 2."""

import json

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.experiment import Experiment
from foltr.simulation.runs.config import written

SMALL = {"data": "Synthetic(queries=60)", "clients": 20, "rounds": 5, "evaluate_every": 5}


@pytest.fixture
def call():
    def called(*words):
        return CliRunner().invoke(app, ["audit", *map(str, words)])

    return called


def test_a_file_is_run_and_audited_and_then_its_run_is(call, tmp_path):
    file, few = (
        tmp_path / "e.toml",
        ("--queries", 8, "--games", 300, "--json", "--quiet", "--out", tmp_path / "runs"),
    )
    file.write_text(written(Experiment(**SMALL)))
    first = call(file, *few)
    assert first.exit_code == 0, first.output
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    again = call(run, *few)
    assert again.exit_code == 0 and json.loads(again.stdout.splitlines()[-1]) == json.loads(
        first.stdout.splitlines()[-1]
    )
    assert len(again.stdout.splitlines()) == 1
    other = call(run, *few, "--users", "Cascade(kind='informational')")
    assert json.loads(other.stdout)["users"].startswith("Cascade(kind='informational'")
    shown = call(run, "--queries", 8, "--games", 300)
    assert "random 3" in shown.output and shown.exit_code == 0


def test_bad_input_is_two(call, tmp_path):
    file = tmp_path / "e.toml"
    file.write_text(written(Experiment(**SMALL)))
    assert call(tmp_path / "nowhere").exit_code == 2
    assert call(tmp_path).exit_code == 2  # a folder, but of no run
    assert call(file, "--users", "Cascde()", "--out", tmp_path / "runs").exit_code == 2
    for wrong in (("--games", 3), ("--delta", 1), ("--queries", 0), ("--threads", 0)):
        assert call(file, *wrong, "--out", tmp_path / "runs").exit_code == 2
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    (unfinished / "config.toml").write_text(file.read_text())
    assert call(unfinished).exit_code == 2 and "not finished" in call(unfinished).output
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_data_has_changed_is_refused(call, tmp_path):
    result = Experiment(**SMALL).run(tmp_path)
    environment = result.folder / "environment.json"
    about = json.loads(environment.read_text())
    about["data"]["train"] = "other"
    environment.write_text(json.dumps(about))
    told = call(result.folder)
    assert told.exit_code == 2  # its sum does not fit any more, or its data
