"""Runs: the same bits however they are cut, killed or threaded; nothing half-written is ever taken
for whole."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import foltr.runs.train
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.runs.folder import Folder, Metrics
from foltr.runs.identity import identity, revisions
from foltr.runs.interruptions import Stopped

SMALL = Experiment(
    data="Synthetic(queries=40)",
    clients=6,
    rounds=30,
    evaluate_every=7,
    learner="PDGD(sessions=3)",
)  # type: ignore[arg-type]
KINDS = {
    "linear": SMALL,
    "mlp": replace(SMALL, ranker="MLP(hidden=8)"),
    "adam and sampled clients": replace(SMALL, optimizer="Adam(lr=0.1)", participation=0.5),
    "position-based": replace(SMALL, users="PositionBased(eta=0.5)"),
}


def bits(result):
    return result.params.tobytes(), result.metrics.csv()


@pytest.fixture(params=KINDS)
def experiment(request):
    return KINDS[request.param]


class Killed(BaseException):
    pass


def killed_at(t):
    def watch(progress):
        if progress.t == t:
            raise Killed

    return watch


def test_threads_do_not_change_a_bit(experiment):
    big = replace(experiment, clients=50, rounds=5)
    assert bits(big.run()) == bits(big.run(threads=2)) == bits(big.run(threads=3))


def test_a_killed_run_resumes_to_the_same_bits(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(foltr.runs.train, "CHECKPOINT_SECONDS", 0.0)
    whole = bits(experiment.run())
    for t in (1, 7, 8, 20, 29):
        with pytest.raises(Killed):
            experiment.run(tmp_path, watch=killed_at(t))
    seen = []
    result = experiment.run(tmp_path, threads=2, watch=lambda p: seen.append(p.t))
    assert seen[0] == 29  # the kill came before round 29 was saved
    assert bits(result) == whole
    assert not (result.folder / "checkpoint.npz").exists()


def test_a_finished_run_is_read_not_repeated(tmp_path):
    first = SMALL.run(tmp_path)
    again = SMALL.run(tmp_path, watch=killed_at(1))
    assert again.found and not first.found
    assert bits(again) == bits(first) and again.final == first.final
    rounds, values = again.curve("ndcg@10")
    assert rounds.tolist() == [0, 7, 14, 21, 28, 30] and values[-1] == first.final["ndcg@10"]
    with pytest.raises(Mistake, match="did you mean 'ndcg@10'"):
        again.curve("ndcg@1")


@pytest.mark.parametrize(
    ("fields", "identity_before"),
    [
        ({}, "6ada63fb42a199ec"),
        ({"privacy": "Laplace(epsilon=1.0, clip=0.1)"}, "9b1c57fcecfc988a"),
        ({"learner": "ES()", "privacy": "RandomizedReward(p=0.5)"}, "0f4d90d97f469bde"),
        ({"channel": "SecureSum()"}, "6a1cccc82422cad8"),
        ({"learner": "Personal()", "attack": "Mimic()", "malicious": 1}, "d16bf8ddfcb9dfe0"),
        ({"privacy": "Gaussian(noise=1.0, clip=0.1)"}, None),
        ({"privacy": "GammaShares(epsilon=1.2, sensitivity=3.0)"}, None),
    ],
)
def test_finished_runs_are_found_unless_their_mechanism_changed(fields, identity_before):
    """Identities as they were at commit 9756b49; a component with a revision has another one."""
    e = Experiment(data="Synthetic(queries=20)", clients=6, rounds=3, **fields)
    now = identity(e, e.data.load("train"), e.data.load("test"))
    assert (now == identity_before) == (revisions(e) == {}) and (identity_before is None) == bool(
        revisions(e)
    )


def test_identity_is_of_config_and_data_not_of_threads_or_engine(tmp_path):
    folder = SMALL.run(tmp_path).folder
    assert SMALL.run(tmp_path, threads=2).folder == folder
    assert SMALL.run(tmp_path, engine="debug").found
    changes = {"seed": 2}, {"learner": "PDGD(sessions=3, lr=0.2)"}, {"evaluate_every": 8}
    others = [replace(SMALL, **change) for change in changes]
    assert len({folder, *(e.run(tmp_path).folder for e in others)}) == 4


def test_the_folder_says_all(tmp_path):
    result = SMALL.run(tmp_path)
    names = {file.name for file in result.folder.iterdir()}
    assert names == {"config.toml", "environment.json", "metrics.csv", "params.npy", "result.json"}
    about = json.loads((result.folder / "environment.json").read_text())
    assert about["identity"] in result.folder.name and about["packages"]["numba"]
    np.testing.assert_array_equal(np.load(result.folder / "params.npy"), result.params)


def test_debug_engine_agrees(experiment):
    few = replace(experiment, rounds=8)
    plain, compiled = few.run(engine="debug"), few.run()
    np.testing.assert_allclose(plain.params, compiled.params, atol=2e-5)
    assert plain.final["ndcg@10"] == pytest.approx(compiled.final["ndcg@10"], abs=1e-3)


def test_batched_centralised_learning_is_a_configuration():
    """n clients with one session each and SGD(lr=n): the sum of n gradients."""
    batched = replace(
        SMALL, clients=5, learner="PDGD(sessions=1)", optimizer="SGD(lr=5.0)", rounds=1
    ).run()
    mean = replace(SMALL, clients=5, learner="PDGD(sessions=1)", rounds=1).run()
    np.testing.assert_allclose(batched.params, 5 * mean.params, rtol=1e-6)


def test_the_learner_learns():
    result = replace(SMALL, data="Synthetic()", clients=50, rounds=100).run()
    values = result.curve("ndcg@10").values
    assert values[-1] > values[0] + 0.25


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    def watch(progress):
        if progress.t == 5:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped, match=r"stopped after round 5 of 30.*the same command continues"):
        SMALL.run(tmp_path, watch=watch)
    assert signal.getsignal(signal.SIGINT) is before
    assert bits(SMALL.run(tmp_path)) == bits(SMALL.run())


def test_kill_9_at_any_moment(tmp_path):
    """A real process, really killed, several times; what it leaves is resumed to the bits of an
    undisturbed run."""
    e = replace(SMALL, rounds=3000, evaluate_every=10)
    code = f"""import sys, foltr, foltr.runs.train
foltr.runs.train.CHECKPOINT_SECONDS = 0.0
foltr.Experiment(**{e.config()!r}).run(sys.argv[1])"""
    for wait in (0.05, 0.2, 0.35):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        until = time.monotonic() + 60
        while (
            not list(tmp_path.glob("*/checkpoint.npz"))
            and time.monotonic() < until
            and process.poll() is None
        ):
            time.sleep(0.01)
        time.sleep(wait)
        process.kill()
        process.wait()
    assert list(tmp_path.glob("*/checkpoint.npz")), "it was to be killed on its way"
    assert bits(e.run(tmp_path)) == bits(e.run())


def test_a_damaged_run_is_told(tmp_path):
    folder = SMALL.run(tmp_path).folder
    (folder / "params.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(Mistake, match="damaged"):
        SMALL.run(tmp_path)
    (folder / "result.json").unlink()
    (folder / "checkpoint.npz").write_bytes(b"PK nonsense")
    with pytest.raises(Mistake, match="delete it to start this run again"):
        SMALL.run(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(Mistake, match="cannot write"):
        SMALL.run(tmp_path)


def test_a_full_disk_is_told_and_leaves_nothing_half(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Mistake, match=r"cannot write .*: No space left on device"):
        SMALL.run(tmp_path)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_an_output_path_that_is_a_file_is_told(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    with pytest.raises(Mistake, match="cannot write"):
        SMALL.run(tmp_path / "runs")


def test_metrics_survive_their_text():
    metrics = Metrics()
    metrics.evaluate(0, {"ndcg@10": 1 / 3})
    for value in (0.1, 2 / 7, float("nan")):
        for name in metrics.online:
            metrics.online[name].append(value)
    metrics.evaluate(3, {"ndcg@10": float("nan")})
    assert Metrics.from_csv(metrics.csv()).csv() == metrics.csv()


def test_no_checkpoint_no_resume(tmp_path):
    assert Folder(tmp_path).resume() is None and Folder(tmp_path).finished() is None


@pytest.mark.filterwarnings("ignore:overflow")
def test_scores_that_explode_name_client_and_round():
    e = replace(SMALL, learner="PDGD(lr=3e38, sessions=10)", rounds=5)
    with pytest.raises(FloatingPointError, match=r"client \d+, round \d+"):
        e.run()
    with pytest.raises(FloatingPointError, match=r"client \d+, round \d+"):
        e.run(engine="debug")


SCRIPT = """
from dataclasses import dataclass
import foltr
from foltr.kinds import Memoryless
from foltr.spec import aggregator

@aggregator
@dataclass(frozen=True)
class Scaled(Memoryless):
    def combine(self, cohort):
        return FACTOR * cohort.updates.mean(axis=0, dtype=float)

e = foltr.Experiment(data="Synthetic(queries=40)", clients=4, rounds=5, aggregator=Scaled())
result = e.run("runs")
print(result.found, result.final["ndcg@10"])
"""


def test_a_component_of_a_script_is_part_of_the_identity(tmp_path):
    """Edited, the same repr is another experiment; told at a prompt, it has no identity that a
    folder could keep."""

    def told(factor):
        (tmp_path / "script.py").write_text(SCRIPT.replace("FACTOR", factor))
        words = [sys.executable, "script.py"]
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.split()

    first, again, other = told("1.0"), told("1.0"), told("-1.0")
    assert (first[0], again[0], other[0]) == ("False", "True", "False")
    assert first[1] == again[1] != other[1]
    words = [sys.executable, "-c", SCRIPT.replace("FACTOR", "1.0")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert "Scaled is in no file" in done.stderr and len(list((tmp_path / "runs").iterdir())) == 2
