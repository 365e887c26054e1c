"""Runs: the same bits however they are cut, killed or threaded; nothing half-written is ever taken
for whole."""

import io
import signal
import subprocess
import sys
from dataclasses import replace

import numba
import numpy as np
import pytest
from numba.core import event

import foltr.simulation.runs.train
from foltr import kernels
from foltr.core.compiled import using
from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.simulation.engines.twins import KERNELS
from foltr.simulation.runs.folder import Folder
from foltr.simulation.runs.interruptions import Interruptions, Stopped
from waiting import wait_until

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
    monkeypatch.setattr(foltr.simulation.runs.train, "CHECKPOINT_SECONDS", 0.0)
    whole = bits(experiment.run())
    monkeypatch.setattr(
        foltr.simulation.runs.train, "STRETCH_SECONDS", 0.0
    )  # stretches of one round
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
        if progress.t >= 5:  # how many rounds are one stretch depends on the time that they take
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Stopped, match=r"stopped after round [567] of 30.*the same command"):
        SMALL.run(tmp_path, watch=watch)
    assert signal.getsignal(signal.SIGINT) is before
    assert bits(SMALL.run(tmp_path)) == bits(SMALL.run())


def test_ctrl_c_while_progress_is_written(tmp_path, monkeypatch, capfd):
    """Python's buffers are not reentrant: the handler writes past them."""

    class Interrupted(io.RawIOBase):
        def writable(self):
            return True

        def write(self, text):
            signal.raise_signal(signal.SIGINT)
            return len(text)

    stderr = io.TextIOWrapper(io.BufferedWriter(Interrupted()), line_buffering=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    with Interruptions(Folder(tmp_path)) as interruptions:
        interruptions.under_way = True
        print("round 5/30", file=sys.stderr)
        assert interruptions.asked == signal.SIGINT
    assert "stopping, and saving what is done" in capfd.readouterr().err


def test_ctrl_c_waits_for_a_kernel_that_is_being_compiled(tmp_path, monkeypatch):
    """Within the compiler's calls back to Python an exception would be lost."""
    waiting = []
    monkeypatch.setattr(
        "foltr.kernels.after_compiling", lambda act: bool(waiting.append(act)) or True
    )
    with using(KERNELS), Interruptions(Folder(tmp_path)) as interruptions:
        signal.raise_signal(signal.SIGINT)
        assert len(waiting) == 1 and not interruptions.asked
        with pytest.raises(Stopped, match="stopped before a round ended"):
            waiting[0]()


def test_what_waits_for_a_kernel_is_done_when_it_is_compiled():
    done = []
    assert not kernels.after_compiling(lambda: done.append(1))

    @numba.njit
    def slow(x):
        return x + 1

    class Asking(event.Listener):
        def on_start(self, event):
            assert kernels.after_compiling(lambda: done.append(2))

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Asking()):
        assert slow(1) == 2
    assert done == [2]


@pytest.mark.parametrize(
    ("rounds", "every"), [(20_000, 40), pytest.param(60_000, 60_000, marks=pytest.mark.slow)]
)
def test_kill_9_at_any_moment(rounds, every, tmp_path):
    """A real process, really killed, several times, also within long stretches of rounds; what it
    leaves is resumed to the bits of an undisturbed run."""
    e = replace(SMALL, rounds=rounds, evaluate_every=every)
    whole = bits(e.run())  # it also compiles what the processes need
    code = f"""import sys, foltr, foltr.simulation.runs.train
foltr.simulation.runs.train.CHECKPOINT_SECONDS = 0.0
foltr.Experiment(**{e.config()!r}).run(sys.argv[1])"""

    def saved():
        return [file.stat().st_mtime_ns for file in tmp_path.glob("*/checkpoint.npz")]

    for checkpoints in (1, 3, 9):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        for _ in range(checkpoints):
            before = saved()
            wait_until(lambda: saved() != before or process.poll() is not None, 240.0)  # noqa: B023
        process.kill()
        process.wait()
    assert list(tmp_path.glob("*/checkpoint.npz")), "it was to be killed on its way"
    assert bits(e.run(tmp_path)) == whole


@pytest.mark.filterwarnings("ignore:overflow")
def test_scores_that_explode_name_client_and_round():
    e = replace(SMALL, learner="PDGD(lr=3e38, sessions=10)", rounds=5)
    with pytest.raises(FloatingPointError, match=r"client \d+, round \d+"):
        e.run()
    with pytest.raises(FloatingPointError, match=r"client \d+, round \d+"):
        e.run(engine="debug")
