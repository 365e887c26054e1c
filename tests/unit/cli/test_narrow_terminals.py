"""Numbers are shown whole in terminals of 80 and of 40 columns: drawings and names give way."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from foltr.cli.demo import KINDS, METHODS, Show, _table
from foltr.experiment import Experiment
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.progress import RunProgress, fitted
from foltr.simulation.runs.result import Progress
from foltr.simulation.sweeps.state import Running, SweepPanel, SweepState, state_line


def printed(shown, width):
    file = io.StringIO()
    Console(file=file, width=width).print(shown)
    return file.getvalue()


def progress(t, rounds, **more):
    metrics = Metrics()
    metrics.evaluated = list(range(t + 1))
    metrics.offline = {"ndcg@10": [0.71230] * (t + 1)}
    metrics.online["online_ndcg@10"] = [0.65430] * t
    metrics.online["interactions"] = [100_000.0] * t
    return Progress(Experiment(rounds=rounds), t, 0, rounds, metrics, (), **more)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("measured", [None, (3, 1000)])
def test_the_measures_of_a_run_are_never_cut(width, measured):
    shown = RunProgress("a name that may be cut " * 9)
    shown.console = Console(file=io.StringIO(), width=width)
    panel = shown._panel(progress(90, 50_000, measured=measured), 1.0)
    label, *lines = printed(panel, width).splitlines()
    assert all(len(line) <= width for line in lines) and "…" not in "".join(lines)
    assert "offline nDCG@10 0.7123" in "".join(lines)
    assert "online  nDCG@10 0.6543" in "".join(lines)
    assert "50,000" in "".join(lines) and len(lines) == 3 + bool(measured)
    assert len(label) <= width


words = st.text("x", max_size=30)


@given(st.integers(10, 200), st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_whatever_is_drawn_the_first_texts_are_whole(width, texts):
    rows = [(lambda room: "-" * room, first, last) for first, last in texts]
    lines = printed(fitted(rows, width), width).splitlines()
    for line, (first, _) in zip(lines, texts, strict=False):
        assert len(line) <= width
        assert first in line or len(first) > width or max(len(a) for a, _ in texts) > width


@pytest.mark.parametrize("width", [40, 50, 58, 60, 79, 80, 120])
def test_the_demo_s_table_is_whole(width):
    result = Experiment(data="Synthetic(queries=30)", clients=2, rounds=2).run()
    found = printed(_table({(m, k): result for k in KINDS for m in METHODS}, width), width)
    assert "…" not in found and all(len(line) <= width for line in found.splitlines())
    assert found.count(f"{result.final['ndcg@10']:.3f}") == len(KINDS) * len(METHODS)
    assert "informational" in found and "offline" in found and "online" in found


@pytest.mark.parametrize("width", [30, 40, 80])
def test_the_demo_s_charts_fit(width):
    show = Show(Console(file=io.StringIO(), width=width))
    curve = progress(90, 90).metrics.curve("ndcg@10")
    show.add(METHODS[0], KINDS[0], *curve)
    lines = printed(show.picture(), width).splitlines()
    assert all(len(line) <= width for line in lines)
    axis = next(line for line in lines if "└" in line)
    assert axis.strip().startswith("└─") and axis.count("─") == min(34, width - 6)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_line_of_a_sweep_is_whole(width):
    running = (Running("a", "seed 1", 100, 20_000),)
    state = SweepState(240, 12, running, (), 3723.0)
    shown = SweepPanel("a study", quiet=True)
    shown.console = Console(file=io.StringIO(), width=width)
    found = printed(shown._panel(state, state_line(state)), width)
    assert state_line(state) in " ".join(found.split()) and "…" not in found
    assert "round 100 of 20,000" in found
