"""What a user sees: charts, progress, the demo."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest

from foltr.cli import demo
from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart, ticks
from foltr.experiment import Experiment
from foltr.simulation.runs.progress import RunProgress

RISING = Series("a<b", np.array([10.0, 1000.0]), np.array([0.2, 0.8]))
CURVES = [Panel("one & two", (RISING, Series("c", np.array([10.0]), np.array([0.5]))))]


def test_a_text_chart_puts_values_where_they_belong():
    lines = text_chart(CURVES[0], bounds(CURVES), width=21, height=11).splitlines()[1:-1]
    rows = [line.partition("┤")[2] for line in lines]
    places = {
        (r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != " "
    }
    assert [places[key] for key in sorted(places)] == ["●", "○", "●"]
    (top, right), (middle, left), (bottom, first) = sorted(places)
    assert right == 20 and left == first == 0 and top + bottom == 2 * middle


def test_an_svg_is_well_formed_and_holds_every_curve():
    root = ET.fromstring(svg_chart("A & B", "x", "y", CURVES))
    assert len([e for e in root.iter() if e.tag.endswith("polyline")]) == 2
    assert "a<b" in [e.text for e in root.iter() if e.tag.endswith("text")]


@pytest.mark.parametrize(
    ("low", "high"), [(0.23, 0.65), (0.0, 1.0), (-3.0, 40_000.0), (0.61, 0.612)]
)
def test_ticks_are_few_round_and_inside(low, high):
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 8 and low - 1e-9 <= marks[0] and marks[-1] <= high + 1e-9
    assert len({round(b - a, 9) for a, b in pairwise(marks)}) == 1


def test_progress_elsewhere_than_in_a_terminal_is_plain_lines(capsys):
    e = Experiment(data="Synthetic(queries=20)", clients=2, rounds=4)
    with RunProgress("a run") as watch:
        watch.pause = 0.0
        e.run(watch=watch)
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[-1].startswith("round 4/4  ")
        and "ndcg@10 0." in lines[-1]
        and lines[-1].endswith("0:00 left")
    )


def test_the_demo_in_small(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "ROUNDS", 5)
    demo.demo(tmp_path, 1, 1)
    told = capsys.readouterr().out
    assert (
        told.count("FPDGD (100 clients)") >= 3 and "nDCG@10 after 2,000 interactions each" in told
    )
    root = ET.fromstring((tmp_path / "curves.svg").read_text())
    assert len([e for e in root.iter() if e.tag.endswith("polyline")]) == 6
    demo.demo(tmp_path, 1, 1)
    assert "finished before and not repeated" in " ".join(capsys.readouterr().out.split())


def test_curves_are_thinned_to_means():
    x, y = demo.thinned(np.arange(1, 1001) * 400, np.tile([0.0, 1.0], 500))
    assert len(x) <= demo.POINTS and (np.diff(x) > 0).all() and abs(y[-1] - 0.5) < 0.05
