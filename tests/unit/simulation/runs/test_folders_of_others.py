"""A folder of runs may be somebody else's: what looks like a file in it may be a pipe, a link or a
folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

from foltr.cli.status import states_of
from foltr.core.errors import Mistake
from foltr.core.system.lock import claimed
from foltr.core.world.history import History
from foltr.experiment import Experiment
from foltr.report.chapters.unlearning import _unlearning_report
from foltr.report.results import load_runs
from foltr.simulation.runs.folder import Folder
from quick_foltr import quick_foltr


@pytest.fixture
def bounded():
    """What would go on for ever fails: after ten seconds, or a gigabyte."""
    memory = Path("/proc/self/statm")
    if not memory.exists():
        pytest.skip("not on this system: /proc/self/statm")
    import resource

    def over(*_):
        raise AssertionError("it did not end")

    before, limits = signal.signal(signal.SIGALRM, over), resource.getrlimit(resource.RLIMIT_AS)
    used = int(memory.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, limits[1]))
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    resource.setrlimit(resource.RLIMIT_AS, limits)


NO_FILES = {
    "a pipe": os.mkfifo if sys.platform != "win32" else None,
    "a link": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
}
no_files = pytest.mark.parametrize("kind", NO_FILES)


def instead(path, kind):
    path.unlink(missing_ok=True)
    NO_FILES[kind](path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    small = Experiment(data="Synthetic(queries=20)", clients=3, rounds=3, history=1)  # type: ignore[arg-type]
    return small.run(tmp_path_factory.mktemp("made"), per_query=True).folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "runs" / finished.name)


@no_files
@pytest.mark.parametrize(
    "name", ["result.json", "config.toml", "environment.json", "metrics.csv", "params.npy"]
)
def test_a_run_whose_files_are_none_is_skipped_with_the_reason(name, kind, run, bounded):
    instead(run / name, kind)
    runs = load_runs(run.parent)
    assert len(runs) == 0 and runs.skipped[0].path == run
    assert f"cannot be read (OSError: {name} is {kind}, not a regular file)" in runs.skipped[0].why
    states_of(run.parent)
    with pytest.raises(Mistake, match=f"{name} is {kind}"):
        Folder(run).finished()


@no_files
def test_other_files_of_a_run_that_are_none(kind, run, bounded):
    instead(run / "queries.csv", kind)
    with pytest.raises(Mistake, match=f"queries.csv is {kind}"):
        load_runs(run.parent).queries()
    instead(run / "unlearning.json", kind)
    assert _unlearning_report(run) == {}
    instead(run / "history-updates.npy", kind)
    with pytest.raises(Mistake, match=f"history-updates.npy is {kind}"):
        History.read(run, 1, 3, 46, "")
    (run / "result.json").unlink()
    for name in ("failed.json", "checkpoint.npz", "running.lock"):
        instead(run / name, kind)
    assert f"failed.json is {kind}" in load_runs(run.parent).skipped[0].why
    assert f"failed.json is {kind}" in states_of(run.parent).failed[0][1]
    with pytest.raises(Mistake, match=f"checkpoint.npz is {kind}"):
        Folder(run).resume()
    assert claimed(run) is None


@no_files
def test_a_record_of_a_sweep_that_is_no_file(kind, run, bounded):
    NO_FILES[kind](run.parent / "s.sweep.json")
    runs = load_runs(run.parent)
    assert len(runs) == 1 and f"s.sweep.json is {kind}" in runs.skipped[0].why
    assert states_of(run.parent).sweeps == ()


@pytest.mark.parametrize(
    "name", ["../x", "/dev/zero", "a/../../x", "..", ".", "", "pipe", "link", "a\0b"]
)
def test_sums_are_of_files_in_the_folder(name, run, bounded):
    (run.parent / "x").write_text("theirs")
    (run / "a").mkdir()
    os.mkfifo(run / "pipe")
    (run / "link").symlink_to("../x")
    result = json.loads((run / "result.json").read_text())
    result["sums"][name] = blake2b(b"theirs", digest_size=8).hexdigest()
    (run / "result.json").write_text(json.dumps(result))
    runs = load_runs(run.parent)
    assert len(runs) == 0 and "cannot be read" in runs.skipped[0].why
    told = "embedded null" if "\0" in name else "is no name of a file in the folder"
    assert {"pipe": "is a pipe", "link": "is a link"}.get(name, told) in runs.skipped[0].why


def test_other_sums_do_not_stand_for_those_that_are_missing(run):
    result = json.loads((run / "result.json").read_text())
    del result["sums"]["params.npy"]
    result["sums"]["queries.csv"] = blake2b(
        (run / "queries.csv").read_bytes(), digest_size=8
    ).hexdigest()
    (run / "result.json").write_text(json.dumps(result))
    assert "sums are missing" in load_runs(run.parent).skipped[0].why


def test_a_report_of_a_folder_that_holds_a_pipe_ends(run):
    def foltr(*words):
        return subprocess.run(
            [*quick_foltr(), *words],
            cwd=run.parent.parent,
            capture_output=True,
            text=True,
            timeout=120,
        )

    shutil.copytree(run, run.with_name("good"))
    instead(run / "metrics.csv", "a pipe")
    done = foltr("report", "runs", "-o", "page.html")
    assert done.returncode == 0 and "metrics.csv is a pipe, not a regular file" in done.stderr
    assert "1 runs read, 1 skipped" in done.stderr
    assert foltr("status", "runs").returncode == 0
    audited = foltr("audit", str(run))
    assert audited.returncode == 2 and "metrics.csv is a pipe" in audited.stderr
