"""`foltr status`, `foltr clean`, `foltr report` and `foltr sweep` as a user meets them."""

import json
import subprocess

import pytest

from foltr.cli.status import delete, deletions, states_of
from foltr.core.system.lock import Claim
from foltr.experiment import Experiment
from foltr.simulation.runs.folder import Folder
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.run import sweep
from foltr.simulation.sweeps.state import failure_lines
from quick_foltr import quick_foltr

SMALL = {"data": "Synthetic(queries=40)", "clients": 4, "rounds": 6, "evaluate_every": 3}


def foltr(*words, cwd=None):
    done = subprocess.run(
        [*quick_foltr(), *map(str, words)], capture_output=True, text=True, cwd=cwd
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def runs(tmp_path):
    """Two finished, one failed, one interrupted with a checkpoint, one without, one being made; a
    stranger."""
    out = tmp_path / "runs"
    points = [Point(Experiment(**SMALL, seed=seed), None) for seed in (1, 2)]
    swept = sweep(points, out, "s")
    Folder(out / "Failed-PDGD-Linear-aaaaaaaaaaaaaaaa").fail("no luck", "...")
    for name in (
        "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb",
        "Stopped-PDGD-Linear-cccccccccccccccc",
        "Running-PDGD-Linear-dddddddddddddddd",
    ):
        Folder(out / name).create()
        (out / name / "config.toml").write_text("seed = 1\n")
    (out / "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb" / "checkpoint.npz").write_bytes(b"...")
    (out / swept.made[0] / ".metrics.csv.123.456").write_text("half")
    (out / ".cargo").mkdir()
    (out / ".cargo" / "config.toml").write_text("[build]")
    (out / "mine").mkdir()
    (out / "mine" / "notes.txt").write_text("not a run")
    with Claim(out / "Running-PDGD-Linear-dddddddddddddddd").held(wait=False):
        yield out


def test_status_distinguishes_them(runs):
    now = states_of(runs)
    assert len(now.runs) == 2 and [path.name for path in now.running] == [
        "Running-PDGD-Linear-dddddddddddddddd"
    ]
    assert [path.name for path in now.interrupted] == [
        "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb",
        "Stopped-PDGD-Linear-cccccccccccccccc",
    ]
    assert [(path.name, why) for path, why in now.failed] == [
        ("Failed-PDGD-Linear-aaaaaaaaaaaaaaaa", "no luck")
    ]
    done = foltr("status", runs)
    assert (
        "2 finished runs, 1 running, 2 interrupted, 1 failed" in done.stdout
        and "no luck" in done.stdout
    )
    assert foltr("status", runs / "nowhere").returncode == 2


def names(runs, **asked):
    return {deletion.path.name for deletion in deletions(states_of(runs), **asked)}


def test_clean_removes_no_result_unless_asked(runs):
    finished = {file.parent.name for file in runs.glob("*/result.json")}
    assert names(runs) == {
        "Failed-PDGD-Linear-aaaaaaaaaaaaaaaa",
        "Stopped-PDGD-Linear-cccccccccccccccc",
        ".metrics.csv.123.456",
    }
    assert names(runs, interrupted=True) == names(runs) | {
        "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb"
    }
    assert names(runs, finished=True) == names(runs) | finished | {"s.sweep.json"}
    before = sorted(runs.rglob("*"))
    assert "add --yes" in foltr("clean", runs).stdout and sorted(runs.rglob("*")) == before
    done = foltr("clean", runs, "--yes", "--interrupted")
    assert "4 deleted" in done.stdout
    assert {path.name for path in runs.iterdir()} == finished | {
        "s.sweep.json",
        ".cargo",
        "mine",
        "Running-PDGD-Linear-dddddddddddddddd",
    }
    assert "nothing to delete" in foltr("clean", runs).stdout
    foltr("clean", runs, "--yes", "--finished")
    assert {path.name for path in runs.iterdir()} == {
        ".cargo",
        "mine",
        "Running-PDGD-Linear-dddddddddddddddd",
    }


def test_clean_leaves_what_somebody_began_meanwhile(runs):
    found = list(deletions(states_of(runs), interrupted=True, finished=False))
    with Claim(runs / "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb").held(wait=False):
        assert list(delete(runs, found))
    assert (runs / "Interrupted-PDGD-Linear-bbbbbbbbbbbbbbbb").exists() and not (
        runs / "Stopped-PDGD-Linear-cccccccccccccccc"
    ).exists()


def test_a_sweep_from_the_command_line_to_its_page(tmp_path):
    (tmp_path / "grid.toml").write_text(
        "data = 'Synthetic(queries=40)'\nclients = 4\n[sweep]\nseed = [1, 2, 3]\nlearner.sessions"
        " = [1, 2]\n"
    )
    listed = foltr("sweep", "grid.toml", "--dry-run", cwd=tmp_path)
    assert listed.stdout.startswith("grid: 6 experiments") and not (tmp_path / "runs").exists()
    made = foltr(
        "sweep", "grid.toml", "--jobs", 1, "--set", "rounds=5", "--per-query", cwd=tmp_path
    )
    assert "6 runs made" in made.stdout and "foltr report runs/grid.sweep.json" in made.stdout
    again = foltr(
        "sweep", "grid.toml", "--jobs", 1, "--set", "rounds=5", "--per-query", cwd=tmp_path
    )
    assert "0 runs made" in again.stdout and "6 found" in again.stdout
    assert len(list((tmp_path / "runs").glob("*/queries.csv"))) == 6
    outs = [
        word
        for name in ("r.html", "t.tex", "t.csv", "f.svg", "r.parquet")
        for word in ("-o", name)
    ]
    done = foltr("report", "runs/grid.sweep.json", *outs, "--baseline", "sessions=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<!doctype html>" in (tmp_path / "r.html").read_text().lower()[:100]
    assert (
        "toprule" in (tmp_path / "t.tex").read_text()
        and "p_bonferroni" in (tmp_path / "t.csv").read_text()
    )


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A folder with two runs, an empty folder and a sweep's file."""
    folder = tmp_path_factory.mktemp("there")
    sweep([Point(Experiment(**SMALL, seed=seed), None) for seed in (1, 2)], folder / "runs", "s")
    (folder / "empty").mkdir()
    (folder / "grid.toml").write_text("[sweep]\nseed = [1]")
    return folder


@pytest.mark.parametrize(
    "words, told",
    [
        (["report", "nowhere"], "no runs at nowhere"),
        (["report", "runs", "-o", "x.doc"], "'x.doc' has no known suffix"),
        (["report", "runs", "--where", "clients=5"], "none of 2 runs has clients = 5"),
        (["report", "runs", "--where", "client=5"], "did you mean 'clients'"),
        (["report", "runs", "--where", "clients"], "--where needs FIELD=VALUE"),
        (["report", "runs", "--baseline", "x"], "no method is called 'x'"),
        (["report", "runs", "--measure", "ndcg", "-o", "x.tex"], "did you mean 'ndcg@10'"),
        (["report", "runs", "--columns", "usrs"], "did you mean 'users'"),
        (["report", "empty"], "there is no finished run to report"),
        (["sweep", "nowhere.toml"], "cannot read nowhere.toml"),
        (["sweep", "grid.toml", "--jobs", "0"], "jobs must be >= 1"),
        (["sweep", "grid.toml", "--set", "rounds"], "--set needs FIELD=VALUE"),
        (["sweep", "grid.toml", "--engine", "fast"], "engine must be"),
        (["run", "grid.toml"], "`foltr sweep grid.toml` runs it"),
        (["watch", "nowhere.toml"], "no runs at nowhere.toml: give a folder of runs"),
        (["watch", "grid.toml"], "no runs at grid.toml: give a folder of runs"),
        (["sweep", "grid.toml", "--set", "seed=1"], "--only 'seed=1' narrows the sweep to it"),
        (["sweep", "grid.toml", "--only", "seed"], "--only needs FIELD=VALUE"),
        (["sweep", "grid.toml", "--only", "seed=5"], "leaves no experiment: seed is 1"),
        (["sweep", "grid.toml", "--part", "3"], "--part needs NUMBER/COUNT"),
    ],
)  # fmt: skip
def test_mistakes_are_one_message(there, words, told):
    done = foltr(*words, cwd=there)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert done.stderr.count("foltr:") == 1 and not list(there.glob("*.html"))


def test_what_a_report_leaves_out_is_said(runs, tmp_path):
    (next(runs.glob("*/result.json"))).write_text("{")
    done = foltr("report", runs, "-o", tmp_path / "r.html")
    assert done.returncode == 0
    assert (
        "foltr: skipped Synthetic-PDGD-Linear-" in done.stderr
        and "1 runs read, 1 skipped, 3 unfinished" in done.stderr
    )
    assert (
        "1 unfinished" not in done.stderr and "cannot be read" in (tmp_path / "r.html").read_text()
    )


def test_a_sweep_that_fails_says_so_at_the_end(tmp_path):
    (tmp_path / "grid.toml").write_text(
        "rounds = 4\n[sweep]\ndata = ['Synthetic(queries=40)', 'Letor(path=\"no\")']\n"
    )
    done = foltr("sweep", "grid.toml", "--jobs", 1, cwd=tmp_path)
    assert (
        done.returncode == 2
        and "1 of 2 runs failed; the same command tries them again" in done.stderr
    )
    assert "1 runs made" in done.stdout and "failed: data Letor" in done.stdout


def test_damaged_runs_are_deleted_when_asked(runs):
    folder = next(runs.glob("*/result.json")).parent
    (folder / "metrics.csv").write_text("round\n")
    assert folder.name not in names(runs) and folder.name in names(runs, damaged=True)


def test_a_damaged_run_is_told_everywhere_and_healed(runs):
    folder = next(runs.glob("*/result.json")).parent
    (folder / "params.npy").write_bytes(b"short")
    what = "params.npy is not as it was written"
    said = foltr("status", runs).stdout
    assert "1 finished runs, 1 running, 2 interrupted, 1 failed, 1 damaged, 0 unreadable" in said
    assert f"damaged: {folder.name} cannot be read (ValueError: {what})" in said
    row = next(line for line in said.splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in row.split("│")][1:7] == ["s", "2", "1", "0", "0", "1"]
    assert "1 damaged: the command that made a run makes it again" in foltr("clean", runs).stdout
    assert what in foltr("clean", runs, "--damaged").stdout
    healed = foltr("run", folder / "config.toml", "--out", runs, "--quiet")
    assert healed.returncode == 0 and f"was damaged (ValueError: {what})" in healed.stderr
    assert "2 finished runs" in (again := foltr("status", runs).stdout) and "0 damaged" in again


def test_equal_failures_are_printed_once():
    assert failure_lines([("a", "x"), ("b", "y"), *((str(i), "x") for i in range(4))]) == [
        "failed: a; 0; 1 and 2 more: x", "failed: b: y",
    ]  # fmt: skip


def test_a_run_that_is_finished_meanwhile_stays(runs):
    """Failed when `clean` looked, made again before it removes."""
    (folder,) = (path for path in runs.iterdir() if path.name.startswith("Failed"))
    found = list(deletions(states_of(runs)))
    (folder / "result.json").write_text("{}")
    gone = {deletion.path for deletion in delete(runs, found)}
    assert folder.exists() and folder not in gone and gone


def test_a_failed_run_that_could_be_gone_on_with_is_kept(runs):
    (folder,) = (path for path in runs.iterdir() if path.name.startswith("Failed"))
    (folder / "checkpoint.npz").write_bytes(b"...")
    assert folder.name not in names(runs) and folder.name in names(runs, interrupted=True)


def test_one_damaged_record_does_not_stop_its_folder(runs, tmp_path):
    (runs / "bad.sweep.json").write_text("{")
    (runs / "dir.sweep.json").mkdir()
    done = foltr("status", runs)
    assert (
        done.returncode == 0
        and "skipped: bad.sweep.json" in done.stdout
        and "2 finished runs" in done.stdout
    )
    assert foltr("clean", runs).returncode == 0
    done = foltr("report", runs, "-o", tmp_path / "r.html")
    assert done.returncode == 0 and "dir.sweep.json" in done.stderr
    assert foltr("report", runs / "bad.sweep.json").returncode == 2


def test_titles_are_no_markup(runs):
    record = runs / "s.sweep.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "title": "a [/] b [red]"}))
    assert "a [/] b [red]" in foltr("status", runs).stdout


@pytest.fixture
def baseline(tmp_path):
    """A folder with a finished, a failed, an interrupted and a running run of a baseline, whose
    names have two classes instead of three."""
    out = tmp_path / "runs"
    done = Experiment(data="Synthetic(queries=40)", baseline="LeastSquares()").run(out).folder
    names = [f"Synthetic-LeastSquares-{digit * 16}" for digit in "abc"]
    Folder(out / names[0]).fail("no memory", "...")
    for name in names[1:]:
        Folder(out / name).create()
        (out / name / "config.toml").write_text("seed = 1\n")
    with Claim(out / names[2]).held(wait=False):
        yield out, done.name, *names


def test_runs_of_a_baseline_are_runs(baseline):
    out, done, failed, interrupted, running = baseline
    states = states_of(out)
    assert [path.name for path in states.finished] == [done] == [run.name for run in states.runs]
    assert [path.name for path, _ in states.failed] == [failed] and not states.unreadable
    assert [path.name for path in states.interrupted] == [interrupted]
    assert [path.name for path in states.running] == [running]
    said = foltr("status", out).stdout
    assert "1 finished runs, 1 running, 1 interrupted, 1 failed, 0 damaged, 0 unreadable" in said
    assert names(out) == {failed, interrupted}
    assert names(out, finished=True) == {failed, interrupted, done}
    assert "3 deleted" in foltr("clean", out, "--finished", "--yes").stdout
    assert [path.name for path in out.iterdir()] == [running]
