"""How long a sweep will take: from which finished runs, and with how many runs at a time."""

import json

import pytest

from foltr.core.system.process import environment
from foltr.experiment import Experiment
from foltr.simulation.sweeps.estimate import Made, estimate, finished_in

HERE = str(environment()["processor"])


def e(**fields):
    return Experiment(**{"clients": 10, "rounds": 10, **fields})


def made(seconds, processor=HERE, engine="local", current=True, **fields):
    return Made(e(**fields), seconds, processor, engine, current)


def test_repetitions_take_as_long_as_each_other():
    runs = [made(4.0), made(6.0, seed=2), made(500.0, clients=20)]
    found = estimate([e(seed=seed) for seed in (1, 2, 3, 4, 5)], runs, jobs=1)
    assert (found.finished, found.left, found.unknown) == (2, 3, 0)
    assert found.seconds == pytest.approx(3 * 5.0) and found.based_on == 2


def test_others_of_their_kind_count_by_interaction():
    found = estimate([e(clients=30), e(seed=9, rounds=20)], [made(4.0)], jobs=1)
    assert found.seconds == pytest.approx(3 * 4.0 + 2 * 4.0) and found.based_on == 1


def test_one_run_that_compiled_kernels_does_not_count_for_all():
    runs = [made(30.0), made(1.0, seed=2), made(1.0, seed=3)]
    assert estimate([e(seed=4)], runs, jobs=1).seconds == pytest.approx(1.0)


@pytest.mark.parametrize("jobs, seconds", [(1, 24.0), (2, 12.0), (4, 8.0), (99, 4.0)])
def test_runs_are_made_together(jobs, seconds):
    left = [e(seed=seed) for seed in range(2, 8)]
    assert estimate(left, [made(4.0)], jobs).seconds == pytest.approx(seconds)


def test_what_is_like_no_finished_run_is_counted_not_guessed():
    found = estimate([e(ranker="MLP()"), e(seed=2)], [made(4.0)], jobs=1)
    assert found.unknown == 1 and found.seconds == pytest.approx(4.0)
    nothing = estimate([e()], [], jobs=2)
    assert (nothing.seconds, nothing.unknown, nothing.based_on) == (None, 1, 0)
    assert estimate([e()], [made(4.0)], jobs=2).left == 0
    other = estimate([e(seed=2)], [made(4.0, engine="debug")], jobs=1)
    assert other.seconds is None


def test_this_kind_of_processor_comes_first():
    runs = [made(4.0, seed=2), made(90.0, "another", seed=3)]
    found = estimate([e(seed=4)], runs, jobs=1)
    assert found.seconds == pytest.approx(4.0) and not found.elsewhere and found.based_on == 1
    found = estimate([e(seed=4)], runs[1:], jobs=1)
    assert found.seconds == pytest.approx(90.0) and found.elsewhere


def test_the_run_that_clients_leave_is_made_first():
    leaving = {"history": 1, "unlearning": "FedRemove()", "leaving": [[2]]}
    runs = [made(4.0, history=1, seed=2), made(1.0, seed=2, **leaving)]
    assert estimate([e(**leaving)], runs, jobs=1).seconds == pytest.approx(1.0 + 4.0)
    both = estimate([e(**leaving), e(history=1)], runs, jobs=1)
    assert both.seconds == pytest.approx(1.0 + 4.0) and both.left == 2


def test_finished_runs_are_read_and_damaged_ones_passed_over(tmp_path):
    small = {"data": "Synthetic(queries=40)", "clients": 4, "rounds": 4}
    folders = [Experiment(**small, seed=seed).run(tmp_path).folder for seed in (1, 2, 3)]
    (folders[1] / "metrics.csv").write_text("")
    about = json.loads((folders[0] / "result.json").read_text())
    (found, other) = sorted(finished_in(tmp_path), key=lambda run: run.experiment.seed)
    assert found == Made(Experiment(**small, seed=1), about["seconds"], HERE, "local", True)
    assert other.experiment.seed == 3 and finished_in(tmp_path / "nowhere") == []
