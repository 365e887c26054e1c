"""Mean and spread over runs, round by round."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import KINDS, made_run, made_runs

from foltr.errors import Mistake
from foltr.metrics import GAMMA, online_performance
from foltr.record import Metrics
from foltr.report.curves import CURVES, cell_curve, curves, run_curve
from foltr.report.study import study


def slopes(*of, **more):
    """Runs whose curves are lines of these slopes."""
    return [made_run(seed=i, curve=lambda t, a=a: a * t, **more) for i, a in enumerate(of)]


def with_online(run, values):
    metrics = Metrics({**run.metrics.online, "online_ndcg@10": values}, run.metrics.evaluated, run.metrics.offline)
    return replace(run, metrics=metrics)


def test_mean_sd_and_interactions():
    found = cell_curve(slopes(1.0, 2.0, 6.0), "ndcg@10")
    assert found.rounds.tolist() == [0, 10, 20] and found.n.tolist() == [3, 3, 3]
    assert found.interactions.tolist() == [0, 4000, 8000]  # 100 clients x 4 sessions
    assert found.mean.tolist() == [0, 30, 60]
    assert found.sd == pytest.approx(np.array([0, 10, 20]) * math.sqrt(7))


def test_online_curves_have_a_point_per_round():
    found = cell_curve(slopes(1.0, 3.0), "online_ndcg@10")
    assert found.rounds.tolist() == list(range(1, 21)) and found.mean == pytest.approx(2.0 * np.arange(1, 21))
    assert found.interactions[[0, -1]].tolist() == [400, 8000]


def test_one_run_has_no_spread():
    found = cell_curve(slopes(1.0), "ndcg@10")
    assert np.isnan(found.sd).all() and found.n.tolist() == [1, 1, 1]


def test_rounds_that_all_share():
    found = cell_curve([*slopes(1.0, every=10), *slopes(3.0, every=4)], "ndcg@10")
    assert found.rounds.tolist() == [0, 20] and found.mean.tolist() == [0, 40]
    apart = slopes(1.0)[0]
    apart.metrics.evaluated[:] = [1, 11, 19]
    with pytest.raises(Mistake, match="were evaluated in different rounds: they share no ndcg@10"):
        cell_curve([*slopes(1.0), apart], "ndcg@10")


def test_stretches_average_each_run_first():
    """Runs that swing around 0 and 1, against each other: only their means differ."""
    runs = [made_run(seed=i, rounds=8, curve=lambda t, i=i: i + (-1) ** (t + i)) for i in (0, 1)]
    found = cell_curve(runs, "online_ndcg@10", stretches=4)
    assert found.rounds.tolist() == [2, 4, 6, 8] and found.mean.tolist() == [0.5] * 4
    assert found.sd == pytest.approx([math.sqrt(0.5)] * 4)
    assert found.interactions.tolist() == [800, 1600, 2400, 3200]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 50))
def test_stretches_cover_every_round_once(rounds, stretches):
    found = cell_curve([made_run(rounds=rounds, curve=lambda t: t)], "online_ndcg@10", stretches=stretches)
    ends = found.rounds
    assert ends[-1] == rounds and len(ends) == min(stretches, rounds)
    lengths = np.diff(np.append(0, ends))
    assert lengths.min() >= 1 and lengths.max() - lengths.min() <= 1
    assert (found.mean * lengths).sum() == pytest.approx(rounds * (rounds + 1) / 2)


def test_smoothing_is_a_window_that_narrows_towards_the_ends():
    run = with_online(made_run(rounds=5), [1.0, 2.0, 6.0, 4.0, 5.0])
    assert cell_curve([run], "online_ndcg@10", smooth=3).mean == pytest.approx([1.0, 3.0, 4.0, 5.0, 5.0])
    assert cell_curve([run], "online_ndcg@10", smooth=100).mean == pytest.approx([1.0, 3.0, 3.6, 5.0, 5.0])
    line = with_online(made_run(rounds=9), list(range(9)))
    assert cell_curve([line], "online_ndcg@10", smooth=5).mean == pytest.approx(range(9))  # no bias anywhere


def test_rounds_that_nobody_may_know():
    """NaN, as of real clients: neither counted nor spread."""
    runs = [with_online(made_run(rounds=4, seed=0), [math.nan, 1.0, math.nan, 3.0]),
            with_online(made_run(rounds=4, seed=1), [math.nan, 3.0, 4.0, math.nan])]  # fmt: skip
    found = cell_curve(runs, "online_ndcg@10")
    assert found.rounds.tolist() == [2, 3, 4] and found.n.tolist() == [2, 1, 1] and found.mean.tolist() == [2, 4, 3]
    assert found.sd[0] == pytest.approx(math.sqrt(2)) and np.isnan(found.sd[1:]).all()
    assert found.interactions.tolist() == [800, 1200, 1600]
    assert cell_curve(runs, "online_ndcg@10", stretches=2).mean.tolist() == [2.0, 3.5]
    dark = [with_online(made_run(rounds=4), [math.nan, math.nan, 4.0, math.nan])]
    assert cell_curve(dark, "online_ndcg@10", stretches=2).mean.tolist() == [4.0]  # nothing is known of the first half
    assert cell_curve(runs, "online_ndcg@10", smooth=3).mean[0] == pytest.approx((1.0 + 3.5) / 2)


def test_online_performance_so_far():
    run = slopes(1.0)[0]
    rounds, values = run_curve(run, "online")
    assert rounds.tolist() == list(range(1, 21)) and values[1] == pytest.approx(1 + GAMMA * 2)
    assert values[-1] == pytest.approx(online_performance(run.curve("online_ndcg@10").values))


def test_all_cells_of_a_study():
    runs = [run for k in KINDS for c in (1, 2) for run in slopes(1.0, 2.0, clients=c, users=f"Cascade(kind='{k}')")]
    found = curves(study(made_runs(runs)), "ndcg@10")
    assert set(found) == {(i, j) for i in range(2) for j in range(3)}
    assert found[1, 2].interactions.tolist() == [0, 80, 160]
    assert set(CURVES) >= {"ndcg@10", "online", "online_ndcg@10", "maxrr"}


def test_what_has_no_curve():
    for bad, message in (("ndgc@10", "did you mean 'ndcg@10'"), ("seconds", "no curve is called 'seconds'")):
        with pytest.raises(Mistake, match=message):
            cell_curve(slopes(1.0), bad)
    with pytest.raises(Mistake, match="a curve needs a run"):
        cell_curve([], "ndcg@10")
    with pytest.raises(Mistake, match="smooth >= 1, got 0 and 0"):
        cell_curve(slopes(1.0), "ndcg@10", smooth=0)
