"""Parts of a sweep: together they are the whole, in any order, to the same bits."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.simulation.sweeps.estimate import Part, work_of
from foltr.simulation.sweeps.file import Point, read_sweep
from foltr.simulation.sweeps.run import sweep

SMALL = {"data": "Synthetic(queries=40)", "clients": 4, "rounds": 4}


@given(st.lists(st.integers(1, 50), max_size=30, unique=True), st.integers(1, 8))
def test_every_experiment_is_in_one_part_and_parts_have_like_work(clients, count):
    experiments = [Experiment(clients=n) for n in clients]
    parts = [Part(number, count).chosen(experiments) for number in range(1, count + 1)]
    assert sorted(e.clients for part in parts for e in part) == sorted(clients)
    for part in parts:  # in the order of the sweep
        assert part == [e for e in experiments if e in part]
    work = [sum(map(work_of, part)) for part in parts]
    largest = max(map(work_of, experiments), default=0.0)
    assert max(work) - min(work) <= largest


@pytest.mark.parametrize(
    "text", ["", "3", "3/", "/3", "a/b", "1/2/3", "-1/3", "0/3", "4/3", "1/0"]
)
def test_no_part(text):
    with pytest.raises(Mistake, match=r"--part needs NUMBER/COUNT|parts are numbered 1"):
        Part.of_text(text)


def test_parts_in_any_order_make_the_whole_sweep(tmp_path):
    points = [
        Point(Experiment(**{**SMALL, "clients": clients}, seed=seed), None, label=f"{seed}")
        for seed in (1, 2)
        for clients in (2, 4)
    ]
    whole = sweep(points, tmp_path / "whole", "s")
    made = []
    for number in (3, 1, 2):
        swept = sweep(points, tmp_path / "parts", "s", part=Part.of_text(f"{number}/3"))
        assert not swept.found and not swept.failed and not swept.waiting
        record = json.loads((tmp_path / "parts" / "s.sweep.json").read_text())
        assert [run["run"] for run in record["runs"]] == [run.run for run in whole.record.runs]
        made += swept.made
    assert sorted(made) == sorted(whole.made)
    for run in made:
        for name in ("params.npy", "metrics.csv", "config.toml"):
            here, there = (tmp_path / folder / run / name for folder in ("parts", "whole"))
            assert here.read_bytes() == there.read_bytes()
    assert len(sweep(points, tmp_path / "parts", "s").found) == 4
    assert sweep(points, tmp_path / "parts", "s", part=Part(7, 9)).made == []


def test_tasks_of_a_job_array_make_the_whole_sweep_together(tmp_path):
    """The command of the recipe for Slurm, as two processes at a time."""
    (tmp_path / "study.toml").write_text(
        "data = 'Synthetic(queries=40)'\nrounds = 4\n[sweep]\nclients = [2, 4]\nseed = [1, 2]\n"
    )
    words = "foltr sweep study.toml --out runs --part $SLURM_ARRAY_TASK_ID/2"
    command = f"{shlex.quote(sys.executable)} -m {words} --jobs $SLURM_CPUS_PER_TASK --quiet"
    recipe = (Path(__file__).parents[4] / "docs" / "sweeps.md").read_text()
    assert words.replace("/2", "/4") in recipe
    tasks = [
        subprocess.Popen(
            ["sh", "-c", command],
            env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "SLURM_CPUS_PER_TASK": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (2, 1)
    ]
    said = [task.communicate(timeout=240)[0] for task in tasks]
    assert all("2 runs made" in each and "0 found, 0 failed" in each for each in said), said
    read = read_sweep(tmp_path / "study.toml")
    whole = sweep(read.points, tmp_path / "whole", "study", read.title)
    record = (tmp_path / "runs" / "study.sweep.json").read_text()
    assert record == whole.record.path.read_text() and len(whole.made) == 4
    for run in whole.made:
        here, there = (tmp_path / folder / run / "params.npy" for folder in ("runs", "whole"))
        assert here.read_bytes() == there.read_bytes()


def test_data_that_cannot_be_read_fails_its_own_part_only(tmp_path):
    points = [Point(Experiment(**{**SMALL, "data": "Letor(path='no')"}), None)]
    points.append(Point(Experiment(**SMALL), None))
    failed = [sweep(points, tmp_path, "s", part=Part(n, 2)).failed for n in (1, 2)]
    assert sorted(map(len, failed)) == [0, 1]
