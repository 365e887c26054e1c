"""Sweeps: killed, stopped, shared, failing, on a cluster: every run is made once, to the same
bits."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import foltr.simulation.sweeps.run
import foltr.simulation.sweeps.workers
from foltr.cli.sweep import summary
from foltr.core.errors import Mistake
from foltr.core.system.lock import Busy, Claim, claimed
from foltr.experiment import Experiment
from foltr.experiment.user_files import use_only
from foltr.kernels import compiler
from foltr.report.results import load_runs
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.folder import Folder
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.pools import Pool, in_pool
from foltr.simulation.sweeps.run import DIED, sweep
from foltr.simulation.sweeps.state import Overview, Record, state_line
from foltr.simulation.sweeps.workers import Outcome, Task, work
from waiting import wait_until

SLOWNESS = "FOLTR_TEST_SLOWNESS"  # variable: a factor by which rounds take longer
SMALL = {"data": "Synthetic(queries=40)", "clients": 4, "rounds": 8, "evaluate_every": 4}
LOGGED = '''
import os, time
from dataclasses import dataclass

from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator


@aggregator
@dataclass(frozen=True)
class Logged(Memoryless):
    """A mean that keeps count of its rounds in a file, by run."""

    run: int = 0
    seconds: float = 0.0
    fails: str = ""

    def combine(self, cohort):
        with open(os.environ["FOLTR_TEST_LOG"], "a") as log:
            log.write(f"{self.run}\\n")
        time.sleep(self.seconds * float(os.environ.get("FOLTR_TEST_SLOWNESS", 1)))
        if self.fails == "raise":
            raise ValueError("no such luck")
        if self.fails == "die":
            os._exit(9)
        return cohort.updates.mean(axis=0, dtype=float)
'''


@pytest.fixture
def logged(tmp_path, monkeypatch):
    (tmp_path / "logged.py").write_text(LOGGED)
    monkeypatch.setenv("FOLTR_TEST_LOG", str(tmp_path / "log"))
    yield tmp_path / "logged.py"
    use_only([])


def small(**fields):
    return Point(Experiment(**{**SMALL, **fields}), None)


def bits(out):
    names = ("params.npy", "metrics.csv", "config.toml")
    return {
        (run.name, name): (run / name).read_bytes()
        for run in out.iterdir()
        if run.is_dir()
        for name in names
    }


def command(*words, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "foltr", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def ended(process):
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def wait_while_it_runs(process, condition):
    """Wait for something that a command does before it ends."""
    wait_until(lambda: condition() or process.poll() is not None, 120.0)
    assert process.poll() is None, process.communicate()[1]


def lines_of(log):
    return log.read_text().split() if log.exists() else []


@pytest.mark.slow
def test_killed_three_times_with_two_jobs_and_resumed(logged, tmp_path):
    """18 runs, `kill -9` while the first, a middle and the last of them are made: the same bits as
    without, and no finished run is made again."""
    grid = tmp_path / "grid.toml"
    grid.write_text(
        "data = 'Synthetic(queries=40)'\nclients = 4\nrounds = 10\nuse ="
        " ['logged.py']\naggregator = 'Logged(seconds=0.005)'\n[sweep]\nseed ="
        f" {list(range(1, 7))}\n[sweep.zip]\nusers.kind = ['perfect', 'navigational',"
        " 'informational']\naggregator.run = [1, 2, 3]"
    )
    whole, cut, log = tmp_path / "whole", tmp_path / "cut", tmp_path / "log"
    code, _, err = ended(command("sweep", grid, "--jobs", 2, "--out", whole, "--quiet"))
    assert code == 0, err
    log.unlink()
    finished: dict[str, int] = {}
    for runs, rounds in ((0, 3), (8, 97), (15, 168)):  # so many are finished and made
        process = command(
            *("sweep", grid, "--jobs", 2, "--out", cut, "--quiet"),
            env={**os.environ, SLOWNESS: "10"},  # it must not end before it is killed
            start_new_session=True,
        )

        def far_enough(runs=runs, rounds=rounds):
            return len(list(cut.glob("*/result.json"))) >= runs and len(lines_of(log)) >= rounds

        wait_while_it_runs(process, far_enough)
        # its workers find out by themselves, while the next sweep begins
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        now = {str(file): file.stat().st_mtime_ns for file in cut.glob("*/result.json")}
        assert finished.items() <= now.items()
        finished = now
    code, _, err = ended(command("sweep", grid, "--jobs", 2, "--out", cut, "--quiet"))
    assert code == 0, err
    now = {str(file): file.stat().st_mtime_ns for file in cut.glob("*/result.json")}
    assert finished.items() <= now.items() and len(now) == 18
    assert bits(cut) == bits(whole)
    # each kill costs at most what two runs had not saved
    assert 18 * 10 <= log.read_text().count("\n") <= 18 * 10 + 3 * 2 * 10
    assert not list(cut.glob("*/running.lock")) and not list(cut.glob("*/checkpoint.npz"))


def test_a_longer_list_adds_only_what_is_new_and_sweeps_share(tmp_path):
    first = sweep([small(seed=seed) for seed in (1, 2)], tmp_path, "a")
    assert len(first.made) == 2 and not first.found
    second = sweep([small(seed=seed) for seed in (1, 2, 3)], tmp_path, "b")
    assert (len(second.made), len(second.found)) == (1, 2)
    alone = Experiment(**SMALL, seed=3).run(tmp_path)
    assert alone.found
    assert (
        len(load_runs(tmp_path / "a.sweep.json")) == 2
        and len(load_runs(tmp_path / "b.sweep.json")) == 3
    )


def test_runs_of_another_compiler_are_found_and_told(tmp_path, monkeypatch):
    first = sweep([small(seed=seed) for seed in (1, 2)], tmp_path, "a")
    assert first.other_code == {}
    other = {"numba": "0.1.2", "llvmlite": "0.0.9", "settings": "opt 3"}
    monkeypatch.setattr(compiler, "versions", lambda: other)
    second = sweep([small(seed=seed) for seed in (1, 2, 3)], tmp_path, "b")
    assert (len(second.made), len(second.found)) == (1, 2)
    ((told, runs),) = second.other_code.items()
    assert told.endswith("here 0.1.2") and runs == 2
    assert f"note: 2 of the runs that were found were made by other code ({told})" in summary(
        second, 1.0, Pool()
    )


def test_jobs_do_not_change_a_bit(tmp_path):
    points = [
        small(seed=seed, ranker=ranker)
        for seed in (1, 2)
        for ranker in ("Linear()", "MLP(hidden=4)")
    ]
    sweep(points, tmp_path / "one", "s")
    sweep(points, tmp_path / "two", "s", pool=Pool(2))
    assert bits(tmp_path / "one") == bits(tmp_path / "two") and len(bits(tmp_path / "one")) == 12


@pytest.mark.slow
def test_the_same_bits_on_a_dask_cluster(logged, tmp_path):
    import distributed

    foltr.use(logged)
    points = [small(seed=seed, aggregator="Logged()") for seed in range(1, 5)]
    sweep(points, tmp_path / "here", "s")
    with distributed.LocalCluster(
        2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        there = sweep(points, tmp_path / "there", "s", pool=Pool(dask=cluster.scheduler_address))
    assert len(there.made) == 4 and not there.failed
    assert bits(tmp_path / "here") == bits(tmp_path / "there")


def test_a_cluster_that_is_not_there(tmp_path, monkeypatch, closed_port):
    monkeypatch.setattr(foltr.simulation.sweeps.pools, "CONNECT_SECONDS", 1.0)
    address = f"tcp://127.0.0.1:{closed_port}"
    with pytest.raises(Mistake, match=f"no dask scheduler answers at '{address}'"):
        sweep([small()], tmp_path, "s", pool=Pool(dask=address))


def test_one_that_fails_stops_no_other_and_is_tried_again(logged, tmp_path):
    foltr.use(logged)
    points = [small(), small(aggregator="Logged(fails='raise')"), small(seed=2)]
    swept = sweep(points, tmp_path / "runs", "s")
    why = ["Logged.combine failed (round 0, logged.py, line 23): ValueError: no such luck"]
    assert len(swept.made) == 2 and list(swept.failed.values()) == why
    state = Overview(Record.read(swept.record.path)).look()
    assert (state.planned, state.done, [error for _, error in state.failed]) == (3, 2, why)
    (run,) = swept.failed
    assert (
        "combine" in json.loads((tmp_path / "runs" / run / "failed.json").read_text())["details"]
    )
    again = sweep(points, tmp_path / "runs", "s")
    assert len(again.found) == 2 and list(again.failed) == [run]


def test_a_damaged_run_is_counted_once_and_made_again_by_the_same_sweep(tmp_path):
    points = [small(seed=seed) for seed in (1, 2)]
    made = sweep(points, tmp_path, "s")
    whole, run = bits(tmp_path), tmp_path / made.made[0]
    (run / "metrics.csv").write_text("round\n")
    Folder(run).fail("an earlier foltr wrote this beside the damaged result", "")
    state = Overview(Record.read(made.record.path)).look()
    what = "ValueError: metrics.csv is not as it was written"
    assert (state.planned, state.done, state.failed) == (2, 1, ())
    assert [why for _, why in state.damaged] == [what]
    assert state_line(state).startswith("1 of 2 done, 0 running, 0 failed, 1 damaged")
    assert state.plain()["failed"][0]["error"] == f"damaged: {what}"
    with Claim(run).held(wait=False):
        state = Overview(Record.read(made.record.path)).look()
        assert len(state.running) == 1 and not state.damaged
    again = sweep(points, tmp_path, "s")
    assert (again.made, again.found, again.failed) == ([run.name], made.made[1:], {})
    assert again.healed == {run.name: what} and bits(tmp_path) == whole
    assert not (run / "failed.json").exists()
    assert Overview(Record.read(made.record.path)).look().done == 2


def test_a_run_that_cannot_be_opened_is_damaged_not_failed(tmp_path):
    made = sweep([small(seed=1)], tmp_path, "s")
    run = tmp_path / made.made[0]
    (run / "result.json").unlink()
    (run / "result.json").mkdir()
    again = sweep([small(seed=1)], tmp_path, "s")
    what = "OSError: result.json is a folder, not a regular file"
    assert (again.damaged, again.failed, again.made) == ({run.name: what}, {}, [])
    assert not (run / "failed.json").exists()
    state = Overview(Record.read(made.record.path)).look()
    assert (state.done, state.failed, [why for _, why in state.damaged]) == (0, (), [what])


def test_a_run_that_kills_its_worker_is_found_and_the_rest_made(logged, tmp_path):
    foltr.use(logged)
    points = [small(seed=seed, aggregator="Logged(seconds=0.05)") for seed in range(4)]
    swept = sweep(
        [*points, small(aggregator="Logged(fails='die')")], tmp_path / "runs", "s", pool=Pool(2)
    )
    # One that its worker finished while the other worker died may be found by the next pass.
    assert len(swept.made + swept.found) == 4 and list(swept.failed.values()) == [DIED]


def test_data_that_cannot_be_read_fails_its_runs_only(tmp_path):
    swept = sweep(
        [small(), small(data=f"Letor(path={str(tmp_path / 'no')!r})")], tmp_path / "runs", "s"
    )
    assert len(swept.made) == 1
    ((what, error),) = swept.failed.items()
    assert "Letor" in what and "no" in error


def test_a_run_that_another_process_makes_is_waited_for_not_repeated(tmp_path):
    task = Task(
        "?", {**SMALL, "seed": 1}, (), str(tmp_path / "runs"), str(tmp_path / "lease"), os.getpid()
    )
    (tmp_path / "lease").touch()
    name = (
        foltr.simulation.sweeps.run.plan([small(seed=1)], tmp_path / "runs", "s", "s")
        .record.runs[0]
        .run
    )
    task = Task(**{**task.__dict__, "run": name})
    folder = tmp_path / "runs" / name
    folder.mkdir(parents=True)
    with Claim(folder).held(wait=False):
        assert work(task).kind == "busy" and claimed(folder)["pid"] == os.getpid()
    assert claimed(folder) is None
    assert work(task).kind == "made" and work(task).kind == "found"


def test_who_waits_for_another_process_can_be_stopped(tmp_path):
    with Claim(tmp_path).held(wait=False):
        with pytest.raises(Busy), Claim(tmp_path).held(wait=True, stop=lambda: True):
            pass


def test_a_worker_of_a_cluster_makes_several_at_a_time(logged, tmp_path, monkeypatch):
    """Two threads of one process: their runs, which go on until the test has seen them, are under
    way together."""
    foltr.use(logged)
    (tmp_path / "lease").touch()
    points = [small(seed=seed, rounds=900, aggregator="Logged(seconds=0.1)") for seed in (1, 2)]
    planned = foltr.simulation.sweeps.run.plan(points, tmp_path / "runs", "s", "s").record.runs
    tasks = [
        Task(
            plan.run,
            p.experiment.config(),
            (str(logged),),
            str(tmp_path / "runs"),
            str(tmp_path / "lease"),
            None,
        )
        for plan, p in zip(planned, points, strict=True)
    ]
    folders = [tmp_path / "runs" / plan.run for plan in planned]
    with ThreadPoolExecutor(2) as pool:
        outcomes = [pool.submit(work, task) for task in tasks]
        try:
            wait_until(lambda: all(claimed(folder) is not None for folder in folders), 60.0)
            assert not any(outcome.done() for outcome in outcomes)
        finally:
            monkeypatch.setenv(SLOWNESS, "0")
    assert [outcome.result().kind for outcome in outcomes] == ["made", "made"]


def test_two_sweeps_at_once_make_each_run_once(logged, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        "data = 'Synthetic(queries=40)'\nclients = 4\nrounds = 20\nuse = ['logged.py']\n"
        "aggregator = 'Logged(seconds=0.01)'\n[sweep]\nseed = [1, 2, 3, 4, 5, 6]"
    )
    both = [
        command("sweep", grid, "--jobs", 1, "--out", tmp_path / "runs", "--quiet")
        for _ in range(2)
    ]
    assert [ended(process)[0] for process in both] == [0, 0]
    assert len((tmp_path / "log").read_text().split()) == 6 * 20


# a worker looks every second whether it is to stop: a run must take longer
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_saves_what_is_under_way_and_the_same_command_goes_on(logged, tmp_path, jobs):
    grid, out = tmp_path / "grid.toml", tmp_path / "runs"
    grid.write_text(
        "data = 'Synthetic(queries=40)'\nclients = 4\nrounds = 900\nuse = ['logged.py']\n"
        "aggregator = 'Logged(seconds=0.1)'\n[sweep.zip]\nseed = [1, 2]\naggregator.run = [1, 2]"
    )
    process = command("sweep", grid, "--jobs", jobs, "--out", out, start_new_session=True)
    log = tmp_path / "log"
    wait_while_it_runs(process, lambda: len(lines_of(log)) > 8 and len(set(lines_of(log))) == jobs)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the sweep and its workers
    code, _, err = ended(process)
    assert code == 130 and "the same command continues" in err and "Traceback" not in err, err
    assert len(list(out.glob("*/checkpoint.npz"))) == jobs
    hurry = {**os.environ, SLOWNESS: "0"}
    code, _, err = ended(command("sweep", grid, "--jobs", 2, "--out", out, "--quiet", env=hurry))
    assert code == 0, err
    assert len(lines_of(log)) == 2 * 900  # no round twice


def test_a_scheduler_may_send_several_signals(logged, tmp_path):
    """As Slurm does at the time limit of a job: what is under way is saved nevertheless."""
    grid, out, log = tmp_path / "grid.toml", tmp_path / "runs", tmp_path / "log"
    grid.write_text(
        "data = 'Synthetic(queries=40)'\nclients = 4\nrounds = 5000\nuse = ['logged.py']\n"
        "aggregator = 'Logged(seconds=0.02)'\n[sweep]\nseed = [1, 2]"
    )
    process = command("sweep", grid, "--jobs", 1, "--out", out)
    wait_while_it_runs(process, lambda: len(lines_of(log)) > 5)
    process.send_signal(signal.SIGTERM)
    line = process.stderr.readline()
    while "stopping after saving" not in line:
        assert line, "it ended"
        line = process.stderr.readline()
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    # not communicate(), which would lose what readline() has read ahead
    err, said, code = process.stderr.read(), process.stdout.read(), process.wait(240)
    # a signal that comes when all is saved ends it: a shell says 143 for both
    assert code in (143, -signal.SIGTERM) and "Traceback" not in err, err
    if code == 143:
        assert "2 left" in said and "the same command continues" in err
    assert "stopping after saving" not in err
    assert len(list(out.glob("*/checkpoint.npz"))) == 1


def test_a_full_disk_stops_the_sweep_with_everything_kept(tmp_path, monkeypatch):
    made = sweep([small(seed=1)], tmp_path, "s").made
    usage = foltr.simulation.sweeps.run.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        foltr.simulation.sweeps.run.shutil, "disk_usage", lambda path: usage._replace(free=1000)
    )
    with pytest.raises(Mistake, match=r"needs about .* MB below .*, where 0\.0 MB are free"):
        sweep([small(seed=seed) for seed in (1, 2)], tmp_path, "s")
    monkeypatch.undo()

    def full(*_):
        raise Mistake("cannot write x: No space left on device") from OSError(
            28, "No space left on device"
        )

    monkeypatch.setattr(foltr.simulation.runs.folder.Folder, "finish", full)
    swept = sweep([small(seed=seed) for seed in (1, 2, 3)], tmp_path, "s")
    assert (
        swept.full.endswith("No space left on device")
        and swept.waiting == 2
        and swept.found == made
    )
    monkeypatch.undo()
    assert len(sweep([small(seed=seed) for seed in (1, 2, 3)], tmp_path, "s").made) == 2


def test_workers_stop_when_their_sweep_is_gone(tmp_path, monkeypatch):
    lease = tmp_path / "lease"
    task = Task("?", SMALL, (), str(tmp_path / "runs"), str(lease), None)
    assert work(task).kind == "stopped"  # there is no lease
    lease.touch()
    monkeypatch.setattr(foltr.simulation.sweeps.workers, "LEASE_SECONDS", -1.0)
    foltr.simulation.sweeps.workers._stop(task)()
    assert work(task).kind == "stopped"  # the lease has not been touched since it was first seen
    monkeypatch.undo()
    os.utime(lease, ns=(1, 1))
    # it goes on; that the task names no real run is another matter
    assert work(task).kind == "failed"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    assert foltr.simulation.sweeps.workers._stop(Task(**{**task.__dict__, "pid": dead.pid}))()


def test_a_lease_that_somebody_removes_is_made_again(logged, tmp_path):
    foltr.use(logged)
    out = tmp_path / "runs"

    removed = []

    def remove(state):
        for lease in list(out.glob(".*.lease"))[len(removed) :]:
            removed.append(lease.unlink())

    points = [small(seed=seed, rounds=150, aggregator="Logged(seconds=0.01)") for seed in (1, 2)]
    swept = sweep(points, out, "s", show=remove)
    assert len(swept.made) == 2 and not swept.waiting and removed


def test_a_display_that_fails_does_not_end_the_sweep(logged, tmp_path, monkeypatch):
    """It is not shown again before the end."""
    foltr.use(logged)
    calls = []

    def show(state):
        calls.append(state)
        if len(calls) == 1:
            monkeypatch.setenv(SLOWNESS, "0")
            raise BrokenPipeError

    points = [small(seed=1, rounds=600, aggregator="Logged(seconds=0.1)")]
    assert len(sweep(points, tmp_path / "runs", "s", show=show).made) == 1
    assert [state.done for state in calls] == [0, 1]


def test_workers_that_do_not_see_the_folder_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(
        foltr.simulation.sweeps.run,
        "in_pool",
        lambda tasks, pool: [Outcome(task.run, "stopped") for task in tasks],
    )
    with pytest.raises(Mistake, match=r"no worker can see .* all machines share"):
        sweep([small(seed=seed) for seed in (1, 2)], tmp_path, "s")


def test_a_worker_that_would_make_another_run_refuses(tmp_path):
    (tmp_path / "lease").touch()
    outcome = work(
        Task(
            "Synthetic-PDGD-Linear-0",
            SMALL,
            (),
            str(tmp_path / "runs"),
            str(tmp_path / "lease"),
            None,
        )
    )
    assert outcome.kind == "failed" and "would make Synthetic-PDGD-Linear-" in outcome.error


def test_jobs_need_joblib(monkeypatch, tmp_path):
    monkeypatch.setattr(foltr.simulation.sweeps.pools, "find_spec", lambda name: None)
    with pytest.raises(Mistake, match=r"joblib is not installed: pip install joblib, .*--jobs 1"):
        sweep([small()], tmp_path, "s", pool=Pool(2))
    with pytest.raises(Mistake, match="jobs must be >= 1, got 0"):
        Pool(0)
    assert len(sweep([small()], tmp_path, "s").made) == 1


def test_time_left_goes_by_work_of_the_same_kind(tmp_path):
    runs = [("a", 100.0, "x"), ("b", 300.0, "x"), ("c", 100.0, "y")]
    record = Record(
        tmp_path / "s.sweep.json",
        "s",
        tuple(foltr.simulation.sweeps.state.Planned(n, None, w, k) for n, w, k in runs),
    )
    _finish(tmp_path / "a", 2.0)
    state = Overview(record).look()
    assert (state.done, state.left) == (1, 300 * 0.02 + 100 * 0.02)
    _finish(tmp_path / "c", 20.0)
    assert Overview(record, jobs=2).look().left == 300 * 0.02
    assert Record.read(Path(_write(record))) == record
    (tmp_path / "s.sweep.json").write_text("{")
    with pytest.raises(Mistake, match="writes it again"):
        Record.read(record.path)


def _finish(path, seconds):
    folder = Folder(path)
    folder.create()
    folder.open({"config.toml": "", "environment.json": "{}"})
    folder.finish(np.zeros(3), Metrics(), {"seconds": seconds, "rounds": 0})


def _write(record):
    record.path.write_text(record.written())
    return record.path


def test_nothing_is_left_behind(tmp_path):
    sweep([small()], tmp_path, "s", pool=Pool(2))
    left = {path.name for path in tmp_path.iterdir()}
    assert {name for name in left if name.startswith(".")} == set()
    assert list(in_pool([], Pool(2))) == []
