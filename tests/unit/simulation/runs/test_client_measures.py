"""The end of a run with rankers of clients' own: progress, Ctrl-C, and what is saved before."""

import signal
from dataclasses import replace

import pytest

import foltr.simulation.runs.client_rankers
import foltr.simulation.runs.train
from foltr.experiment import Experiment
from foltr.simulation.runs.interruptions import Stopped

PERSONAL = Experiment(
    data="Synthetic(queries=30)",
    clients=90,
    rounds=4,
    evaluate_every=2,
    ranker="MLP(hidden=3)",
    learner="FedPer(learner=PDGD(sessions=1))",
)


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    """As if measuring took long: saved at once, and told after every few clients."""
    monkeypatch.setattr(foltr.simulation.runs.train, "SAVE_AFTER_SECONDS", -1.0)
    monkeypatch.setattr(foltr.simulation.runs.client_rankers, "STEP_SECONDS", 0.0)


def test_clients_are_counted_while_they_are_measured():
    seen = []
    made = PERSONAL.run(watch=lambda progress: seen.append((progress.t, progress.measured)))
    first, *told = [measured for t, measured in seen if measured is not None]
    assert [t for t, measured in seen if measured is not None] == [4] * (1 + len(told))
    assert first == (0, 1)  # the shared ranker, once for clients that hold the same
    assert told[0] == (0, 90) and len(told) > 10 and {of for _, of in told} == {90}
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert made.final["personal_ndcg@10"] > 0.0


@pytest.mark.parametrize("how", ["killed", "ctrl-c"])
def test_rounds_are_saved_before_clients_are_measured(how, tmp_path, capsys):
    def stop(progress):
        if progress.measured is not None and progress.measured[0] > 20:
            if how == "killed":
                raise Killed
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Killed if how == "killed" else Stopped) as stopped:
        PERSONAL.run(tmp_path, watch=stop)
    if how == "ctrl-c":
        assert "stopped after round 4 of 4, saved in" in str(stopped.value)
        assert "stopping, and saving what is done" in capsys.readouterr().err
    rounds = []
    again = PERSONAL.run(tmp_path, watch=lambda p: rounds.append((p.began, p.measured)))
    assert all(began == 4 and measured is not None for began, measured in rounds)
    whole = PERSONAL.run()
    times = {"seconds": 0, "kernel_seconds": 0}
    assert again.final | times == whole.final | times
    assert again.params.tobytes() == whole.params.tobytes()
    assert again.metrics.csv() == whole.metrics.csv()


def test_compiled_and_plain_agree():
    plain, fast = PERSONAL.run(engine="debug"), PERSONAL.run()
    for name in ("own_ndcg@10", "personal_ndcg@10", "personal_own_ndcg@10"):
        assert fast.final[name] == pytest.approx(plain.final[name], abs=0.01)


def test_threads_change_no_bit():
    uneven = replace(PERSONAL, partition="ByVolume()", clients=20)
    for e in (PERSONAL, uneven):
        one, two = e.run(), e.run(threads=2)
        assert one.final["personal_ndcg@10"] == two.final["personal_ndcg@10"]
        assert one.final["personal_own_ndcg@10"] == two.final["personal_own_ndcg@10"]
