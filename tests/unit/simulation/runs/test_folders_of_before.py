"""Run folders, a sweep's record, TOML files and command lines of an earlier foltr still work.

`before.tar.gz` holds what commit cf2290c made with the commands that each run's environment.json
tells: sixteen runs of all kinds, one of them interrupted after round 5 of 40, and two TOML files.
"""

import json
import subprocess
import tarfile
from pathlib import Path

import numba
import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.federation import Server, State, federate
from foltr.core.system.process import Threads
from foltr.report.results import load_runs
from foltr.simulation.runs import config
from foltr.simulation.runs.execution import RunOptions
from foltr.simulation.runs.run import Run
from foltr.simulation.runs.setup import engine_of, population_of
from quick_foltr import quick_foltr

MADE, INTERRUPTED = 15, "Synthetic-PDGD-Linear-d8c396d2e9dfb241"


@pytest.fixture
def before(tmp_path, monkeypatch):
    with tarfile.open(Path(__file__).with_name("before.tar.gz")) as stored:
        stored.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        stored.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def foltr(*words):
    done = subprocess.run([*quick_foltr(), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def folders(before):
    return sorted(path.name for path in (before / "runs").iterdir() if path.is_dir())


def experiment_of(folder):
    return config.experiment(config.flat(config.read(folder / "config.toml")))


def test_all_of_them_are_read(before):
    runs = load_runs("runs")
    assert len(runs) == MADE and not runs.skipped
    assert [path.name for path in runs.unfinished] == [INTERRUPTED]
    for run in runs:
        stored = json.loads((run.path / "result.json").read_text())
        assert run.final["ndcg@10"] == stored["ndcg@10"] and run.curve("ndcg@10").values.size
    sweep = load_runs("runs/grid.sweep.json")
    assert len(sweep) == 8 and set(sweep["method"]) == {"mean", "median, attacked"}


def test_every_finished_run_is_found_by_its_config(before):
    for run in load_runs("runs"):
        again = Run(experiment_of(run.path), "runs")
        assert again.folder.path.name == run.name
        found = again.result()
        assert found.found and found.final["ndcg@10"] == run.final["ndcg@10"]
    assert len(folders(before)) == MADE + 1


def test_the_command_lines_find_their_runs(before):
    there = folders(before)
    for name in there:
        _, command, *words = json.loads((before / "runs" / name / "environment.json").read_text())[
            "command"
        ]
        if command == "run" and name != INTERRUPTED:
            told = foltr(command, *words, "--json")
            assert json.loads(told)["run"] == str(Path("runs", name))
    assert folders(before) == there


def test_a_toml_file_finds_its_run_and_clients_can_leave_it(before):
    first = json.loads(foltr("run", "small.toml", "--json", "--quiet"))["run"]
    there = folders(before)
    words = ("unlearn", first, "--retrainings", "0", "--json", "--quiet", "--clients")
    left = json.loads(foltr(*words, "1,4"))
    assert folders(before) == there and left["leaving"] == [[1, 4]]
    assert Path(json.loads(foltr(*words, "2"))["run"]).name not in there


def test_an_interrupted_run_goes_on_from_the_bits_that_it_stored(before):
    """The stored rounds are of another kind of CPU than this one, perhaps: the other rounds are
    made here by hand, from what was stored."""
    e = experiment_of(before / "runs" / INTERRUPTED)
    about = json.loads((before / "runs" / INTERRUPTED / "environment.json").read_text())
    if about["packages"]["numba"] != numba.__version__:
        with pytest.raises(Mistake, match=f"begun by other code .*here {numba.__version__}"):
            Run(e, "runs", RunOptions(threads=2)).result()
        return
    with np.load(before / "runs" / INTERRUPTED / "checkpoint.npz") as file:
        stored = dict(file)
    population = population_of(e, e.data.load("train"))
    server = Server(e.learner, e.aggregator, e.optimizer)
    optimizer = tuple(stored[f"optimizer.{i}"] for i in range(3))
    engine = engine_of(e, population, stored["params"], Threads(1), "local")
    start = State(stored["params"], (), optimizer, t=5)
    everybody = np.arange(e.clients)
    done = federate(server, engine, start, e.rounds, lambda t: everybody, e.seed, lambda *_: None)

    began = []
    resumed = Run(
        e, "runs", RunOptions(threads=2), watch=lambda progress: began.append(progress.began)
    ).result()
    assert set(began) == {5} and resumed.folder.name == INTERRUPTED
    assert resumed.params.tobytes() == done.params.tobytes()
    online = resumed.curve("maxrr").values
    assert online.shape == (40,) and np.array_equal(online[:5], stored["online.maxrr"])
    assert len(folders(before)) == MADE + 1


def test_a_sweep_finds_its_runs_and_a_page_is_made_of_them(before):
    told = foltr("sweep", "grid.toml", "--jobs", "1", "--quiet")
    assert "0 runs made" in told and "8 found" in told
    foltr("report", "runs/grid.sweep.json", "-o", "sweep.html")
    foltr("report", "runs", "-o", "all.html")
    assert "median, attacked" in (before / "sweep.html").read_text()
    told = foltr("status", "runs")
    assert f"{MADE} finished runs" in told and "1 interrupted" in told
