"""A log is whole, whoever made the run, and a tool that fails does not end it."""

import math
from dataclasses import replace

import pytest

from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.simulation.runs.sinks import log as feeding
from foltr.simulation.runs.sinks.sink import tag

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=7, evaluate_every=3)


class Kept:
    """A tool that keeps logs in memory, by the name of the run."""

    def __init__(self):
        self.logs, self.opened, self.closed = {}, [], 0

    def __call__(self, name, about):
        self.opened.append(about)
        return KeptSink(self, self.logs.setdefault(about.name, {"rows": [], "final": {}}))


class KeptSink:
    def __init__(self, tool, kept):
        self.tool, self.kept = tool, kept
        self.first = 1 + max((t for t, _ in kept["rows"]), default=-1)
        self.complete = bool(kept["final"])

    def write(self, rows):
        self.kept["rows"] += rows

    def finish(self, rounds, final):
        self.kept["final"] = {"rounds": rounds, **final}

    def close(self):
        self.tool.closed += 1


@pytest.fixture
def tool(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(feeding, "opened", kept)
    monkeypatch.setattr(feeding, "find_spec", lambda package: object())
    monkeypatch.setattr(feeding, "SECONDS", 0.0)
    return kept


def expected(metrics):
    """What a log holds of a run, from its metrics."""
    found = {}
    for name, values in metrics.offline.items():
        for t, value in zip(metrics.evaluated, values, strict=True):
            found.setdefault(t, {})[tag("offline", name)] = value
    for name, values in metrics.online.items():
        for t, value in enumerate(values, 1):
            found.setdefault(t, {})[tag("online", name)] = value
    return sorted(found.items())


def test_every_round_is_logged_once_with_the_config_and_the_final_measures(tool, tmp_path):
    result = SMALL.run(tmp_path, log="mlflow", measures="nDCG(k=5)")
    (kept,), (about,) = tool.logs.values(), tool.opened
    assert kept["rows"] == expected(result.metrics) and tool.closed == 1
    assert [t for t, _ in kept["rows"]] == list(range(8))
    assert kept["rows"][3][1]["offline/ndcg_at_5"] == result.curve("ndcg@5").values[1]
    assert kept["final"]["final/ndcg_at_10"] == result.final["ndcg@10"]
    assert kept["final"]["rounds"] == 7 and "final/interactions" in kept["final"]
    assert about.fields["clients"] == 4 and about.fields["data.queries"] == 40
    assert about.toml == (result.folder / "config.toml").read_text()


def test_a_run_that_was_stopped_continues_its_log(tool, tmp_path, monkeypatch):
    monkeypatch.setattr("foltr.simulation.runs.train.CHECKPOINT_SECONDS", 0.0)

    def stop(progress):
        if progress.t >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SMALL.run(tmp_path, watch=stop, log="wandb")
    (kept,) = tool.logs.values()
    before = list(kept["rows"])
    assert before and not kept["final"] and tool.closed == 1  # closed, also when it is stopped
    result = SMALL.run(tmp_path, log="wandb")
    assert kept["rows"] == expected(result.metrics) and kept["rows"][: len(before)] == before
    assert kept["final"]["final/ndcg_at_10"] == result.final["ndcg@10"]


def test_a_finished_run_is_logged_as_a_whole_and_once(tool, tmp_path):
    made = SMALL.run(tmp_path)
    assert not tool.logs
    for _ in range(2):
        assert SMALL.run(tmp_path, log=["tensorboard"]).found
    (kept,) = tool.logs.values()
    assert kept["rows"] == expected(made.metrics) and kept["final"]["rounds"] == 7


@pytest.mark.parametrize("step", ["write", "finish", "close"])
@pytest.mark.parametrize("error", [OSError(28, "No space left"), SystemExit(3)])
def test_a_tool_that_fails_does_not_end_the_run(tool, tmp_path, monkeypatch, capsys, step, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(KeptSink, step, fails)
    result = SMALL.run(tmp_path, log="mlflow")
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "the log ended, the run goes on: mlflow: " in told
    assert "the same command logs it when it is finished" in told
    assert result.final["ndcg@10"] == SMALL.run().final["ndcg@10"]
    monkeypatch.undo()
    monkeypatch.setattr(feeding, "opened", tool)
    monkeypatch.setattr(feeding, "find_spec", lambda package: object())
    assert SMALL.run(tmp_path, log="mlflow").found
    (kept,) = tool.logs.values()
    assert kept["rows"] == expected(result.metrics) and kept["final"]


def test_a_tool_that_cannot_be_opened_is_told_before_the_first_round(
    tool, tmp_path, monkeypatch, capsys
):
    def fails(name, about):
        raise RuntimeError("no API key\nmore lines")

    monkeypatch.setattr(feeding, "opened", fails)
    rounds = []
    with pytest.raises(
        Mistake, match=r"the log cannot be opened: wandb: RuntimeError: no API key$"
    ):
        SMALL.run(tmp_path, log="wandb", watch=rounds.append)
    assert not rounds
    SMALL.run(tmp_path)
    capsys.readouterr()
    assert SMALL.run(tmp_path, log="wandb").found  # nothing is left to lose
    assert "no API key; the run itself is finished" in capsys.readouterr().err


def test_only_the_run_itself_is_logged_not_the_one_that_it_begins_from(tool, tmp_path):
    e = replace(SMALL, history=2, leaving=((1,),), unlearning="FineTune(rounds=2)")
    result = e.run(tmp_path, log="mlflow")
    (kept,) = tool.logs.values()
    assert list(tool.logs) == [result.folder.name] and kept["rows"] == expected(result.metrics)


def test_a_baseline_is_logged(tool, tmp_path):
    result = replace(SMALL, baseline="LeastSquares()").run(tmp_path, log="mlflow")
    (kept,) = tool.logs.values()
    assert kept["rows"] == [(0, expected(result.metrics)[0][1])]
    assert kept["final"]["rounds"] == 0


def test_unknown_tools_missing_packages_and_runs_that_are_not_kept_are_refused(monkeypatch):
    with pytest.raises(Mistake, match="no log is called 'tensorbord': did you mean 'tensorboard'"):
        SMALL.run(log="tensorbord")
    monkeypatch.setattr(feeding, "find_spec", lambda package: None)
    for name, package in feeding.PACKAGES.items():
        with pytest.raises(Mistake, match=rf"{package} is not .*: pip install 'foltr\[{name}\]'"):
            SMALL.run(log=name)
    monkeypatch.setattr(feeding, "find_spec", lambda package: object())
    with pytest.raises(Mistake, match="give out="):
        SMALL.run(log="wandb")


def test_what_is_unknown_is_left_out():
    from foltr.simulation.runs.columns import Metrics

    nan = math.nan
    online = {"interactions": [2.0, 2.0], "maxrr": [nan, 0.5]}
    metrics = Metrics(online, [0, 2], {"ndcg@10": [0.1, nan]})
    assert feeding.rows_of(metrics, 0) == [
        (0, {"offline/ndcg_at_10": 0.1}),
        (1, {"online/interactions": 2.0}),
        (2, {"online/interactions": 2.0, "online/maxrr": 0.5}),
    ]
    assert tag("final", "rounds_to_a+b=1@2") == "final/rounds_to_a_plus_b_eq_1_at_2"


def test_a_sweep_is_logged_also_where_its_runs_are_finished(tool, tmp_path):
    from foltr.simulation.runs.execution import RunOptions
    from foltr.simulation.sweeps.file import Point
    from foltr.simulation.sweeps.run import sweep

    points = [Point(replace(SMALL, seed=seed), None) for seed in (1, 2)]
    sweep(points, tmp_path, "s")
    assert not tool.logs
    swept = sweep(points, tmp_path, "s", options=RunOptions(log="mlflow"))
    assert len(swept.found) == 2 and not swept.made
    assert all(len(kept["rows"]) == 8 and kept["final"] for kept in tool.logs.values())
    assert len(tool.logs) == 2


def test_the_command_line_names_tools_and_tells_what_is_wrong(tool, tmp_path):
    from typer.testing import CliRunner

    from foltr.cli.app import app

    words = [
        "run",
        "--data",
        "Synthetic(queries=40)",
        "--clients",
        "4",
        "--rounds",
        "5",
        "--quiet",
    ]
    words += ["--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--log", "mlflow", "--log", "wandb"])
    assert done.exit_code == 0 and len(tool.opened) == 2 and tool.closed == 2
    done = CliRunner().invoke(app, [*words, "--log", "mlfow"])
    assert done.exit_code == 2 and "did you mean 'mlflow'?" in done.output
