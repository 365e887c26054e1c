"""Paper figures: drawn as asked, letters stay letters, same runs same file."""

import math
import re
import sys
import xml.etree.ElementTree as xml
import zlib
from itertools import product

import numpy as np
import pytest
from made_runs import KINDS, luck, made_run, made_runs

from foltr.core.errors import Mistake
from foltr.report.figures import COLOURS, DASHES, MARKERS, figure, line_styles
from foltr.report.statistics import half_width
from foltr.report.study import Group, study


def grid(clients=(1, 10), kinds=KINDS, rounds=40, seeds=(1, 2, 3), **more):
    def curve(c, k, s):
        return lambda t: 0.4 + 0.01 * luck(c, s) - 0.2 * math.exp(-t / 10)

    return study(
        made_runs(
            made_run(
                clients=c,
                users=f"Cascade(kind='{k}')",
                seed=s,
                rounds=rounds,
                curve=curve(c, k, s),
                **more,
            )
            for c, k, s in product(clients, kinds, seeds)
        )
    )


def texts(path):
    return [node.text for node in xml.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def drawn(tmp_path, monkeypatch, *args, **more):
    """The matplotlib figure that would be saved."""
    from matplotlib.figure import Figure

    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: kept.append(self))
    figure(*args[:2], tmp_path / "x.png", *args[2:], **more)
    return kept[0]


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_same_runs_same_file(tmp_path, kind):
    for name in ("one", "two"):
        figure(grid(), "ndcg@10", tmp_path / f"{name}.{kind}")
    one, two = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two"))
    assert one == two and len(one) > 5000
    assert b"CreationDate" not in one and b"<dc:date>" not in one


def test_a_pdf_is_vectors_with_its_fonts(tmp_path):
    figure(grid(clients=range(1, 13), rounds=1000), "online_ndcg@10", tmp_path / "f.pdf")
    content = (tmp_path / "f.pdf").read_bytes()
    assert content.startswith(b"%PDF") and len(content) < 150_000
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    opened = b"".join(zlib.decompress(s) for s in streams if s[:1] == b"\x78")
    everything = content + opened
    assert b"/FontFile2" in everything and b"/Type3" not in everything
    assert b"/Subtype /Image" not in everything


def test_an_svg_says_what_it_shows(tmp_path):
    figure(grid(), "ndcg@10", tmp_path / "f.svg")
    said = texts(tmp_path / "f.svg")
    assert [text for text in said if text in KINDS] == list(KINDS)
    assert said.count("clients=1") == said.count("clients=10") == 1  # one legend for all
    assert said.count("offline nDCG@10") == 1 and said.count("rounds") == 3


def test_curves_and_bands(tmp_path, monkeypatch):
    made = grid(kinds=KINDS[:1])
    values = np.array([run.curve("ndcg@10").values for run in made.cell(1, 0).values()])
    [panel] = drawn(tmp_path, monkeypatch, made, "ndcg@10").axes
    line = panel.lines[1]
    assert line.get_xdata().tolist() == [0, 10, 20, 30, 40] and line.get_ydata() == pytest.approx(
        values.mean(axis=0)
    )
    for band, half in (
        ("sd", values[:, -1].std(ddof=1)),
        ("ci", half_width(values[:, -1].std(ddof=1), 3)),
    ):
        [panel] = drawn(tmp_path, monkeypatch, made, "ndcg@10", band=band).axes
        corners = panel.collections[1].get_paths()[0].vertices
        last = corners[corners[:, 0] == 40][:, 1]
        assert (last.min(), last.max()) == pytest.approx(
            (values[:, -1].mean() - half, values[:, -1].mean() + half)
        )
    [panel] = drawn(tmp_path, monkeypatch, made, "ndcg@10", band="none").axes
    assert not panel.collections


def test_many_methods_have_bars_at_the_end_instead_of_bands(tmp_path, monkeypatch):
    made = grid(clients=range(1, 9), kinds=KINDS[:1])
    for log in (False, True):
        [panel] = drawn(tmp_path, monkeypatch, made, "ndcg@10", log=log).axes
        bars = [each.get_segments()[0] for each in panel.collections]
        assert len(bars) == 8 == len({bar[0][0] for bar in bars})  # each at its own place
        assert all(bar[0][0] > 40 for bar in bars)  # right of the curves
        for method, bar in enumerate(bars):
            ends = [run.curve("ndcg@10").values[-1] for run in made.cell(method, 0).values()]
            half = np.std(ends, ddof=1)
            wanted = np.mean(ends) - half, np.mean(ends) + half
            assert (bar[0][1], bar[1][1]) == pytest.approx(wanted)
    [panel] = drawn(tmp_path, monkeypatch, made, "ndcg@10", band="sd").axes
    assert all(
        hasattr(each, "get_paths") and len(each.get_paths()[0]) > 4 for each in panel.collections
    )
    few = grid(clients=range(1, 7), kinds=KINDS[:1])
    [panel] = drawn(tmp_path, monkeypatch, few, "ndcg@10").axes
    assert all(len(each.get_paths()[0]) > 4 for each in panel.collections)  # bands


def test_one_run_has_no_band(tmp_path, monkeypatch):
    [panel] = drawn(
        tmp_path, monkeypatch, grid(kinds=KINDS[:1], seeds=(1,)), "ndcg@10", band="ci"
    ).axes
    assert not panel.collections and len(panel.lines) == 2


def test_axes(tmp_path, monkeypatch):
    panels = drawn(tmp_path, monkeypatch, grid(), "ndcg@10", log=True, across="interactions").axes
    assert [panel.get_xscale() for panel in panels] == ["log"] * 3
    assert panels[0].lines[1].get_xdata().tolist() == [400, 800, 1200, 1600]  # without round 0
    assert len({panel.get_ylim() for panel in panels}) == 1


def test_long_curves_are_thinned_but_keep_their_ends(tmp_path, monkeypatch):
    """Means over stretches (rounds 1 .. 7, 893 .. 900) stand at their middles."""
    made = grid(kinds=KINDS[:1], clients=(1,), rounds=900, every=1)
    for measure, ends in (
        ("ndcg@10", [0, 900]),
        ("online_ndcg@10", [4, 896.5]),
        ("online", [1, 900]),
    ):
        [panel] = drawn(tmp_path, monkeypatch, made, measure).axes
        x = panel.lines[0].get_xdata()
        assert len(x) == 120 and [x[0], x[-1]] == ends


@pytest.mark.parametrize("measure", ["ndcg@10", "online_ndcg@10", "online"])
def test_a_logarithmic_axis_has_the_first_rounds(tmp_path, monkeypatch, measure):
    made = grid(kinds=KINDS[:1], clients=(1,), rounds=900, every=1)
    [panel] = drawn(tmp_path, monkeypatch, made, measure, log=True).axes
    x = panel.lines[0].get_xdata()
    assert x[:5].tolist() == [1, 2, 3, 4, 5] and 60 < len(x) <= 120 and x[-1] > 870
    assert np.diff(np.log(x))[20:].max() < 0.1  # no gap


def test_a_stretch_does_not_move_a_straight_line(tmp_path, monkeypatch):
    made = study(made_runs([made_run(rounds=900, curve=lambda t: t / 1000)]))
    for log in (False, True):
        line = drawn(tmp_path, monkeypatch, made, "online_ndcg@10", log=log).axes[0].lines[0]
        assert line.get_ydata() == pytest.approx(line.get_xdata() / 1000)


def test_a_point_of_one_run_takes_no_band_away_from_others(tmp_path, monkeypatch):
    runs = [
        made_run(seed=s, rounds=4, every=1, curve=lambda t, s=s: 0.1 * s + 0.01 * t)
        for s in (1, 2)
    ]
    runs[1].metrics.offline["ndcg@10"][2] = math.nan
    for band in ("sd", "ci"):
        [panel] = drawn(tmp_path, monkeypatch, study(made_runs(runs)), "ndcg@10", band=band).axes
        parts = panel.collections[0].get_paths()
        assert [sorted({round(x) for x in part.vertices[:, 0]}) for part in parts] == [
            [0, 1],
            [3, 4],
        ]


def test_the_start_does_not_press_the_rest_together(tmp_path, monkeypatch):
    """All that lies after 3 % of the rounds is inside, the untrained ranker's 0 is not."""
    runs = [
        made_run(seed=s, rounds=100, curve=lambda t: 0.0 if t == 0 else 0.5 + 0.001 * t)
        for s in (1, 2)
    ]
    low, high = drawn(tmp_path, monkeypatch, study(made_runs(runs)), "ndcg@10").axes[0].get_ylim()
    assert 0.45 < low < 0.51 and 0.6 < high < 0.65


def test_smoothing(tmp_path, monkeypatch):
    runs = [made_run(seed=s, rounds=30, curve=lambda t: 0.5 + 0.1 * (-1) ** t) for s in (1, 2)]
    [panel] = drawn(tmp_path, monkeypatch, study(made_runs(runs)), "online_ndcg@10", smooth=2).axes
    assert np.ptp(panel.lines[0].get_ydata()[1:-1]) < 1e-12


def test_many_panels_and_a_cell_without_runs(tmp_path, monkeypatch):
    kinds = [f"kind{i}" for i in range(7)]
    gone = ("Cascade(kind='kind3')", 10)
    runs = [
        run
        for run in grid(kinds=kinds).runs
        if (run.config["users"], run.config["clients"]) != gone
    ]
    panels = drawn(tmp_path, monkeypatch, study(made_runs(runs)), "ndcg@10").axes
    assert [panel.get_title() for panel in panels] == kinds
    assert [len(panel.lines) for panel in panels] == [2, 2, 2, 1, 2, 2, 2]
    assert len({panel.lines[0].get_color() for panel in panels}) == 1
    # where nothing is below
    assert [bool(panel.get_xlabel()) for panel in panels] == [False] * 4 + [True] * 3
    assert [bool(panel.get_ylabel()) for panel in panels] == [True, False, False] * 2 + [True]


def test_labels_that_matplotlib_would_obey(tmp_path):
    names = ["$x_1$ and $", "_hidden", r"\frac{", "<b>&amp;"]
    runs = [made_run(clients=i, method=m, seed=s) for i, m in enumerate(names) for s in (1, 2)]
    figure(study(made_runs(runs)), "ndcg@10", tmp_path / "f.svg", log=True)
    said = [text.strip() for text in texts(tmp_path / "f.svg")]
    assert [text for text in said if text in names] == names


@pytest.mark.parametrize(
    ("path", "more", "message"),
    [
        ("f.jpg", {}, "a figure is one of .pdf, .svg, .png, not 'f.jpg'"),
        ("f", {}, "a figure is one of"),
        ("f.pdf", {"band": "se"}, "a band is 'auto', 'sd', 'ci' or 'none', got 'se'"),
        ("f.pdf", {"across": "time"}, "got 'time'"),
        ("f.pdf", {"smooth": 0}, "smooth >= 1"),
        ("f.pdf", {"measure": "ndgc@10"}, "did you mean 'ndcg@10'"),
        ("nowhere/f.pdf", {}, "cannot write"),
    ],
)
def test_what_cannot_be_drawn(tmp_path, path, more, message):
    options = {"measure": "ndcg@10", **more}
    with pytest.raises(Mistake, match=re.escape(message)):
        figure(grid(), path=tmp_path / path, **options)
    assert not list(tmp_path.iterdir())


def test_nothing_to_draw(tmp_path):
    runs = [made_run(seed=s, curve=lambda t: math.nan) for s in (1, 2)]
    with pytest.raises(Mistake, match="nothing to draw: no run has a value of 'ndcg@10'"):
        figure(study(made_runs(runs)), "ndcg@10", tmp_path / "f.pdf")


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Mistake, match=re.escape("pip install matplotlib")):
        figure(grid(), "ndcg@10", tmp_path / "f.pdf")


def groups(*tables):
    return [Group(str(i), (), table) for i, table in enumerate(tables)]


def test_dashes_by_the_field_that_splits_the_methods():
    sizes = [
        {"clients": c, "learner.sessions": b}
        for c, b in ((10, 4), (100, 4), (1000, 4), (100, 2), (100, 8))
    ]
    linear = [{"ranker": "Linear", **size} for size in sizes]
    neural = [{"ranker": "MLP", "ranker.hidden": 64, **size} for size in sizes]
    assert line_styles(groups(*linear, *neural)) == [
        (i, dash) for dash in (0, 1) for i in range(5)
    ]


def test_colours_where_nothing_splits():
    assert line_styles(groups(*({"clients": c} for c in range(3)))) == [(0, 0), (1, 0), (2, 0)]
    assert line_styles(groups({})) == [(0, 0)]
    twelve = line_styles(groups(*({"clients": c, "seed": 100 - c} for c in range(12))))
    assert twelve == [(i % 8, i // 8) for i in range(12)]


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (2, 8), (4, 8), (3, 3, 3), (2, 2, 2, 2), (32,)])
def test_no_two_methods_look_alike(shape):
    tables = [
        dict(zip("abcd", values, strict=False)) for values in product(*(range(n) for n in shape))
    ]
    looks = line_styles(groups(*tables))
    assert len(set(looks)) == len(looks)
    assert len(COLOURS) == len(MARKERS) == len(set(MARKERS)) and len(DASHES) == 4
