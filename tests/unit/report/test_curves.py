"""Mean and spread over runs, round by round."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import KINDS, made_run, made_runs

from foltr.core.errors import Mistake
from foltr.core.metrics import GAMMA, online_performance
from foltr.report.curves import cell_curve, curves, run_curve
from foltr.report.measures import CURVES
from foltr.report.study import study
from foltr.simulation.runs.columns import Metrics


def slopes(*of, **more):
    """Runs whose curves are lines of these slopes."""
    return [made_run(seed=i, curve=lambda t, a=a: a * t, **more) for i, a in enumerate(of)]


def with_online(run, values):
    metrics = Metrics(
        {**run.metrics.online, "online_ndcg@10": values},
        run.metrics.evaluated,
        run.metrics.offline,
    )
    return replace(run, given=metrics)


def test_mean_sd_and_interactions():
    found = cell_curve(slopes(1.0, 2.0, 6.0), "ndcg@10")
    assert found.rounds.tolist() == [0, 10, 20] and found.n.tolist() == [3, 3, 3]
    assert found.interactions.tolist() == [0, 4000, 8000]  # 100 clients x 4 sessions
    assert found.mean.tolist() == [0, 30, 60]
    assert found.sd == pytest.approx(np.array([0, 10, 20]) * math.sqrt(7))


def test_online_curves_have_a_point_per_round():
    found = cell_curve(slopes(1.0, 3.0), "online_ndcg@10")
    assert found.rounds.tolist() == list(range(1, 21)) and found.mean == pytest.approx(
        2.0 * np.arange(1, 21)
    )
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
    found = cell_curve(runs, "online_ndcg@10", bins=4)
    # each at its middle
    assert found.rounds.tolist() == [1.5, 3.5, 5.5, 7.5] and found.mean.tolist() == [0.5] * 4
    assert found.sd == pytest.approx([math.sqrt(0.5)] * 4)
    assert found.interactions.tolist() == [600, 1400, 2200, 3000]


@given(st.integers(1, 40), st.integers(1, 50))
def test_stretches_cover_every_round_once(rounds, bins):
    """On the line y = t each mean is the middle of its stretch, from which its length follows."""
    found = cell_curve([made_run(rounds=rounds, curve=lambda t: t)], "online_ndcg@10", bins=bins)
    assert len(found.rounds) == min(bins, rounds) and found.mean == pytest.approx(found.rounds)
    lengths = lengths_of(found.rounds)
    assert sum(lengths) == rounds and max(lengths) - min(lengths) <= 1


def lengths_of(middles):
    """Of bins that follow each other from round 1: the first has its middle at (1 + length) /
    2, and so on."""
    lengths = []
    for middle in middles.tolist():
        lengths.append(round(2 * (middle - sum(lengths)) - 1))
    return lengths


@given(st.integers(2, 400), st.integers(1, 60))
def test_geometric_stretches_begin_with_single_rounds(rounds, bins):
    run = made_run(rounds=rounds, curve=lambda t: t)
    lengths = lengths_of(cell_curve([run], "online_ndcg@10", bins=bins, geometric=True).rounds)
    assert sum(lengths) == rounds and min(lengths) >= 1 and len(lengths) <= max(bins, 1)
    if 20 < bins < rounds:
        assert lengths[:2] == [1, 1] and lengths[-1] >= lengths[0]


def test_smoothing_is_a_line_through_a_window_that_is_cut_off():
    """By hand: inside (1 + 2 + 6) / 3, (2 + 6 + 4) / 3, (6 + 4 + 5) / 3; at the ends a line
    through two points. Through all five it is 3.6 + 1.0 (t - 3): the sum of (t - 3) y is -2 - 2 +
    0 + 4 + 10 = 10, of (t - 3)^2 10."""
    run = with_online(made_run(rounds=5), [1.0, 2.0, 6.0, 4.0, 5.0])
    assert cell_curve([run], "online_ndcg@10", smooth=3).mean == pytest.approx(
        [1.0, 3.0, 4.0, 5.0, 5.0]
    )
    assert cell_curve([run], "online_ndcg@10", smooth=101).mean == pytest.approx(
        [1.6, 2.6, 3.6, 4.6, 5.6]
    )
    # ends by half
    assert cell_curve([run], "online_ndcg@10", smooth=2).mean[1:4] == pytest.approx(
        [2.75, 4.5, 4.75]
    )


@given(st.integers(1, 60), st.integers(2, 80), st.floats(-1, 1), st.floats(-1, 1))
def test_straight_lines_are_not_bent(rounds, window, start, slope):
    run = with_online(made_run(rounds=rounds), [start + slope * t for t in range(rounds)])
    found = cell_curve([run], "online_ndcg@10", smooth=window).mean
    assert found == pytest.approx([start + slope * t for t in range(rounds)], abs=1e-9)


@given(
    st.lists(st.one_of(st.just(math.nan), st.floats(0, 1)), min_size=1, max_size=30),
    st.integers(0, 20),
)
def test_smoothing_as_a_fitted_line(values, reach):
    """Against numpy's least squares, window by window, some rounds unknown."""
    run = with_online(made_run(rounds=len(values)), values)
    found = cell_curve([run], "online_ndcg@10", smooth=2 * reach + 1)
    for t, mean in zip(found.rounds.tolist(), found.mean.tolist(), strict=True):
        near = [
            s
            for s in range(1, len(values) + 1)
            if abs(s - t) <= reach and not math.isnan(values[s - 1])
        ]
        y = [values[s - 1] for s in near]
        expected = np.polyval(np.polyfit(np.array(near) - t, y, 1), 0.0) if len(near) > 1 else y[0]
        assert mean == pytest.approx(expected, abs=1e-9)
    assert len(found.rounds) == sum(not math.isnan(each) for each in values)


def test_the_ends_of_smoothed_noise_are_smooth_too():
    """A window that narrows ends in one raw round; half a window's line has 2.8 times the noise of
    a whole mean."""
    rng = np.random.default_rng(2)
    runs = [
        with_online(made_run(rounds=400, seed=i), rng.normal(size=400).tolist())
        for i in range(200)
    ]
    sd = cell_curve(runs, "online_ndcg@10", smooth=101).sd
    # an sd of 200 runs is off by more than 30 % with probability 1e-8
    assert sd[[0, -1]] == pytest.approx([math.sqrt(8 / 101)] * 2, rel=0.3)
    assert sd[200] == pytest.approx(0.1, rel=0.3)


def test_rounds_that_nobody_may_know():
    """NaN, as of real clients: neither counted nor spread."""
    runs = [with_online(made_run(rounds=4, seed=0), [math.nan, 1.0, math.nan, 3.0]),
            with_online(made_run(rounds=4, seed=1), [math.nan, 3.0, 4.0, math.nan])]  # fmt: skip
    found = cell_curve(runs, "online_ndcg@10")
    assert (
        found.rounds.tolist() == [2, 3, 4]
        and found.n.tolist() == [2, 1, 1]
        and found.mean.tolist() == [2, 4, 3]
    )
    assert found.sd[0] == pytest.approx(math.sqrt(2)) and np.isnan(found.sd[1:]).all()
    assert found.interactions.tolist() == [800, 1200, 1600]
    assert cell_curve(runs, "online_ndcg@10", bins=2).mean.tolist() == [2.0, 3.5]
    dark = [with_online(made_run(rounds=4), [math.nan, math.nan, 4.0, math.nan])]
    # nothing is known of the first half
    assert cell_curve(dark, "online_ndcg@10", bins=2).mean.tolist() == [4.0]
    # a point, a line
    assert cell_curve(runs, "online_ndcg@10", smooth=3).mean[0] == pytest.approx((1.0 + 3.0) / 2)


def test_online_performance_so_far():
    run = slopes(1.0)[0]
    rounds, values = run_curve(run, "online")
    assert rounds.tolist() == list(range(1, 21)) and values[1] == pytest.approx(1 + GAMMA * 2)
    assert values[-1] == pytest.approx(online_performance(run.curve("online_ndcg@10").values))


def test_all_cells_of_a_study():
    runs = [
        run
        for k in KINDS
        for c in (1, 2)
        for run in slopes(1.0, 2.0, clients=c, users=f"Cascade(kind='{k}')")
    ]
    found = curves(study(made_runs(runs)), "ndcg@10")
    assert set(found) == {(i, j) for i in range(2) for j in range(3)}
    assert found[1, 2].interactions.tolist() == [0, 80, 160]
    assert set(CURVES) >= {"ndcg@10", "online", "online_ndcg@10", "maxrr"}


def test_what_has_no_curve():
    for bad, message in (
        ("ndgc@10", "did you mean 'ndcg@10'"),
        ("seconds", "no curve is called 'seconds'"),
    ):
        with pytest.raises(Mistake, match=message):
            cell_curve(slopes(1.0), bad)
    with pytest.raises(Mistake, match="a curve needs a run"):
        cell_curve([], "ndcg@10")
    with pytest.raises(Mistake, match="smooth >= 1, got 0 and 0"):
        cell_curve(slopes(1.0), "ndcg@10", smooth=0)
