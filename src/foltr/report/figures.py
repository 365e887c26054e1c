"""Learning curves as a figure for a paper: a panel per condition, the mean over runs as a line,
its spread as a band. Needs matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.system.files import write_whole
from foltr.report.curves import CellCurve, curves
from foltr.report.measures import column, is_smoothed
from foltr.report.statistics import half_width
from foltr.report.study import Group, Place, Study

Band = Literal["auto", "sd", "ci", "none"]
Across = Literal["rounds", "interactions"]
POINTS = 120  # of a curve: more cannot be seen on paper
FORMATS = (".pdf", ".svg", ".png")
ROW = 4  # panels side by side; more panels stand in rows of three
FEW = 4  # more methods than that get markers
BANDS = 6  # with more methods than that, bands cover each other
BARS = 0.25  # of the length of the curves, for the bars at their end
# the vertical axis may cut off this part of the rounds, where rankers are untrained
START = 0.03
# Okabe & Ito (2008), which colour-blind readers can distinguish, without their yellow, which is
# too pale on paper; and wine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.2, 1, 1.2)))
MARKERS = "os^DvPX<"  # one per colour, so that curves differ in a grey copy as well
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#e2e2e2",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "lines.dash_capstyle": "butt",
    "legend.frameon": False,
    "text.usetex": False,
    "text.parse_math": False,  # a label with dollars is no formula
    "pdf.fonttype": 42,  # letters stay letters, and their font comes along
    "svg.fonttype": "none",
    "svg.hashsalt": "foltr",  # equal runs give equal files
}


class Line(NamedTuple):
    """A curve as it is drawn."""

    x: Array
    mean: Array
    half: Array  # half the width of the band; NaN where there is none


def figure(
    study: Study, measure: str, path: Path, log: bool = False, band: Band = "auto",
    smooth: int = 1, across: Across = "rounds",
) -> None:  # fmt: skip
    """Write the learning curves of a measure to a .pdf, .svg or .png file. Equal runs give equal
    files.

    `band`: one standard deviation over runs ("sd"), the 95 % t interval of the mean ("ci"), or
    "none". "auto" is "sd"; with more than 6 methods, whose bands would cover each other, a bar at
    the end of each curve, in the order of the legend, shows the standard deviation there.
    `smooth`: the window of points that smooths each run. `across`: the horizontal axis.
    Online measures have a value in every round. They are averaged over up to 120 bins of rounds
    and drawn at the middle of each bin. On a logarithmic axis the bins grow with the rounds."""
    path = Path(path)
    kind = path.suffix.lower()
    require(kind in FORMATS, f"a figure is one of {', '.join(FORMATS)}, not {path.name!r}")
    require(
        band in ("auto", "sd", "ci", "none"),
        f"a band is 'auto', 'sd', 'ci' or 'none', got {band!r}",
    )
    require(
        across in ("rounds", "interactions"),
        f"curves go across 'rounds' or 'interactions', got {across!r}",
    )
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Mistake("matplotlib is not installed: pip install matplotlib") from None
    bins = POINTS if is_smoothed(study.runs, measure) else 0
    cells = curves(study, measure, bins, smooth, log)
    lines = {place: _line(curve, log, band, across) for place, curve in cells.items()}
    lines = {place: line for place, line in lines.items() if len(line.x)}
    require(
        len(lines) > 0,
        f"nothing to draw: no run has a value of {measure!r}{' after round 0' if log else ''}",
    )
    with matplotlib.rc_context(STYLE):
        bars = band == "auto" and len(study.methods) > BANDS
        drawing = _drawn(Figure, study, lines, log, bars)
        _labelled(drawing.axes, across, column(study.runs, measure).curve_label)
        content = io.BytesIO()
        undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": None}[kind]
        drawing.savefig(content, format=kind[1:], metadata=undated, dpi=200)
    write_whole(path, content.getvalue())


def _line(curve: CellCurve, log: bool, band: Band, across: Across) -> Line:
    x = curve.rounds if across == "rounds" else curve.interactions
    half = curve.sd if band in ("sd", "auto") else np.full(len(x), np.nan)
    if band == "ci":
        pairs = zip(curve.sd.tolist(), curve.n.tolist(), strict=True)
        half = np.array([half_width(sd, n) if n > 1 else math.nan for sd, n in pairs])
    shown = np.flatnonzero((x > 0) | (not log))
    keep = shown[_places(len(shown), log)] if len(shown) else shown
    return Line(x[keep], curve.mean[keep], half[keep])


def _places(points: int, log: bool) -> Array:
    """The positions of at most POINTS points of a curve, among them the first and the last."""
    even = np.geomspace(1, points, POINTS) - 1 if log else np.linspace(0, points - 1, POINTS)
    return np.unique(even.round().astype(np.int64)) if points > POINTS else np.arange(points)


def _drawn(new: Any, study: Study, lines: dict[Place, Line], log: bool, bars: bool) -> Any:
    n = len(study.conditions)
    columns = _columns(n)
    rows = math.ceil(n / columns)
    labels = [method.label for method in study.methods]
    width = 3.4 if n == 1 else 2.3 * columns
    # labels that fit into one line of the legend
    beside = max(1, int(width * 16 / (max(map(len, labels)) + 6)))
    height = 1.75 * rows + 0.17 * math.ceil(len(labels) / beside) + 0.35
    drawing = new(figsize=(width, height), layout="constrained")
    panels = drawing.subplots(rows, columns, sharey="row", squeeze=False)
    handles: dict[str, Any] = {}
    for j, panel in enumerate(panels.ravel()):
        if j < n:
            here = {i: line for (i, at), line in lines.items() if at == j}
            handles |= _panel(panel, study, here, j, log, bars)
        else:
            panel.remove()
    for row in range(rows):
        within = [line for (_, j), line in lines.items() if j // columns == row]
        if within:
            panels[row, 0].set_ylim(*_limits(within, bars))
    ordered = [label for label in labels if label in handles]
    # matplotlib leaves out labels that begin with an underscore
    shown = [f" {label}" if label.startswith("_") else label for label in ordered]
    drawing.legend(
        [handles[label] for label in ordered], shown, loc="outside lower center", ncols=beside
    )
    return drawing


def _columns(panels: int) -> int:
    return panels if panels <= ROW else 3


def _labelled(panels: list[Any], x: str, y: str) -> None:
    """Name the axes: below the lowest panels, and left of the leftmost panels."""
    columns = _columns(len(panels))
    for j, panel in enumerate(panels):
        lowest = j + columns >= len(panels)
        panel.set_xlabel(x if lowest else "")
        panel.tick_params(labelbottom=lowest)
        panel.set_ylabel("" if j % columns else y)


def _panel(
    panel: Any, study: Study, lines: dict[int, Line], j: int, log: bool, bars: bool
) -> dict[str, Any]:
    """Draw the curves of a condition, with bands or with `bars` at their ends. Returns what the
    legend shows for each label."""
    handles = {}
    many, looks = len(study.methods) > FEW, line_styles(study.methods)
    if len(study.conditions) > 1:
        panel.set_title(study.conditions[j].label, wrap=True)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    if log:
        panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda x, _: _short(x))
    for i, (x, mean, half) in lines.items():
        colour, dash = looks[i]
        # where markers stand, in parts of the panel's diagonal; shifted from method to method
        every = (i / len(study.methods) * 0.16, 0.16) if many else None
        look = {"color": COLOURS[colour], "linestyle": DASHES[dash], "zorder": 3 + 1 / (i + 1)}
        label = study.methods[i].label
        marker = MARKERS[colour] if many else None
        [handles[label]] = panel.plot(x, mean, label=label, marker=marker, markevery=every, **look)
        if bars:
            # right of the curves, each at its own place
            part = BARS * (i + 1) / len(study.methods)
            at = x[-1] * (x[-1] / x[0]) ** part if log else x[-1] + (x[-1] - x[0]) * part
            paint = COLOURS[colour]
            fill = "white" if dash else paint  # methods of one colour differ in their dashes
            panel.errorbar(
                at, mean[-1], half[-1], color=paint, capsize=1.2, lw=0.8, marker=MARKERS[colour],
                markersize=2.6, markerfacecolor=fill, markeredgewidth=0.6,
            )  # fmt: skip
        elif np.isfinite(half).any():
            alpha = 0.08 if many else 0.16
            panel.fill_between(
                x, mean - half, mean + half, color=COLOURS[colour], alpha=alpha, linewidth=0
            )
    panel.margins(x=0.02)
    return handles


def _limits(lines: list[Line], bars: bool) -> tuple[float, float]:
    """The range of all values after the start. With the start everything else would be pressed
    together. With `bars` the spread is shown at the end only."""
    low, high = math.inf, -math.inf
    for x, mean, half in lines:
        spread = np.nan_to_num(half)
        if bars:
            spread[:-1] = 0.0
        late = x >= min(START * x[-1], x[-1])
        low, high = min(low, (mean - spread)[late].min()), max(high, (mean + spread)[late].max())
    margin = 0.04 * (high - low) or 0.05
    return low - margin, high + margin


def _short(x: float) -> str:
    """200, 20k, 2M"""
    return f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e4 else f"{x:g}"


def line_styles(methods: Sequence[Group]) -> list[tuple[int, int]]:
    """The number of the colour and of the dashes of each method.

    Where one field (the ranker, say) splits the methods into families that are otherwise equal,
    that field chooses the dashes, and equal methods of each family share a colour. Otherwise all
    colours are used before the next dashes. Beyond all combinations they repeat."""
    fields = {
        name: [method.differs.get(name) for method in methods]
        for method in methods
        for name in method.differs
    }
    splits = []
    for name in fields:
        family, rest = _split(fields, name)
        splits.append((_numbered(rest), _numbered(family)))
    good = [split for split in splits if _is_good(*split)]
    if not good:
        return [(i % len(COLOURS), i // len(COLOURS) % len(DASHES)) for i in range(len(methods))]
    # few dashes first: colours are easier to see
    colours, dashes = min(good, key=lambda split: (max(split[1]), max(split[0])))
    return list(zip(colours, dashes, strict=True))


def _is_good(colours: list[int], dashes: list[int]) -> bool:
    """Whether both distinguish methods, there are enough of both, and some methods share a
    colour."""
    return 0 < max(dashes) < len(DASHES) and 0 < max(colours) < min(len(COLOURS), len(colours) - 1)


def _split(fields: dict[str, list[Any]], name: str) -> tuple[list[str], list[str]]:
    """The value of a field for each method, and the values of all fields that do not follow from
    it."""
    own = [repr(value) for value in fields[name]]
    free = [
        [repr(value) for value in values]
        for values in fields.values()
        if not _follows(own, values)
    ]
    return own, [repr(rest) for rest in zip(*free, strict=True)] or [""] * len(own)


def _follows(own: list[str], values: list[Any]) -> bool:
    """Whether `values` are a function of `own`. (A ranker's size follows from the ranker if there
    is only one MLP.)"""
    return len({(a, repr(b)) for a, b in zip(own, values, strict=True)}) == len(set(own))


def _numbered(values: list[str]) -> list[int]:
    order = list(dict.fromkeys(values))
    return [order.index(value) for value in values]
