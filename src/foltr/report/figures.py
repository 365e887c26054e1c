"""Learning curves for a paper: one panel per condition, the mean over runs, its spread shaded. Needs matplotlib."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np

from foltr.core import Array, require
from foltr.errors import Mistake
from foltr.files import write_whole
from foltr.report.curves import CellCurve, cell_curve, is_online
from foltr.report.matrix import MEASURES
from foltr.report.statistics import half_width
from foltr.report.study import Study

Band = Literal["sd", "ci", "none"]
POINTS = 150  # of a curve; more cannot be seen on paper
FORMATS = (".pdf", ".svg", ".png")
# Okabe & Ito (2008), which colour-blind readers can tell apart, without their yellow, which paper swallows
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # letters stay letters
    "svg.fonttype": "none",
    "svg.hashsalt": "foltr",  # same runs, same file
    "text.usetex": False,
}


def figure(study: Study, measure: str, path: Path, log: bool = False, band: Band = "sd", smooth: int = 1) -> None:
    """Write the learning curves of a measure to a .pdf, .svg or .png."""
    path = Path(path)
    require(path.suffix.lower() in FORMATS, f"a figure is one of {', '.join(FORMATS)}: {path}")
    require(band in ("sd", "ci", "none"), f"a band is 'sd', 'ci' or 'none', got {band!r}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Mistake("matplotlib is not installed: pip install 'foltr[plots]'") from None
    stretches = POINTS if is_online(measure) else 0
    cells = {place: cell_curve(list(c.values()), measure, stretches, smooth) for place, c in study.cells.items()}
    with matplotlib.rc_context(STYLE):
        drawn = _drawn(Figure, study, measure, cells, log, band)
        content = io.BytesIO()
        nothing = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(path.suffix[1:].lower())
        drawn.savefig(content, format=path.suffix[1:].lower(), metadata=nothing, bbox_inches="tight", dpi=200)
    write_whole(path, content.getvalue())


def _drawn(new: Any, study: Study, measure: str, cells: dict[tuple[int, int], CellCurve], log: bool, band: Band) -> Any:
    panels = len(study.conditions)
    drawing = new(figsize=(max(3.3, 2.3 * panels), 2.2), layout="constrained")
    axes = drawing.subplots(1, panels, sharey=True, squeeze=False)[0]
    for j, (condition, panel) in enumerate(zip(study.conditions, axes, strict=True)):
        panel.set_title(condition.label)
        panel.set_xlabel("round")
        if log:
            panel.set_xscale("log")
        for i, method in enumerate(study.methods):
            if (i, j) in cells:
                _draw(panel, cells[i, j], i, method.label, log, band)
    axes[0].set_ylabel(MEASURES.get(measure, measure))
    handles = {label: line for panel in axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    drawing.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), panels))
    return drawing


def _draw(panel: Any, curve: CellCurve, i: int, label: str, log: bool, band: Band) -> None:
    keep = (curve.rounds > 0) | (not log)
    x, mean = curve.rounds[keep], curve.mean[keep]
    colour, dash = COLOURS[i % len(COLOURS)], DASHES[(i // len(COLOURS)) % len(DASHES)]
    panel.plot(x, mean, color=colour, linestyle=dash, label=label)
    half = _half(curve, band)[keep]
    if np.isfinite(half).any():
        panel.fill_between(x, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)


def _half(curve: CellCurve, band: Band) -> Array:
    if band == "ci":
        known = zip(curve.sd.tolist(), curve.n.tolist(), strict=True)
        return np.array([half_width(sd, n) if n > 1 else math.nan for sd, n in known])
    return curve.sd if band == "sd" else np.full(len(curve.sd), np.nan)
