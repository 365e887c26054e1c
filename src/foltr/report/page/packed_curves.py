"""Learning curves as the page holds them: as many points as a budget of bytes allows, 16 bits
each.

Online curves come smoothed by several windows, because the spread of smoothed runs is not the
smoothed spread: each run is smoothed first, then mean and sd are taken over runs (`cell_curve`).
Thinning keeps single points, it never averages: every point of the page is exact to 1 / 65,534 of
the range of its measure."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.report.curves import CURVES, CellCurve, cell_curve, has, last_of, levelled
from foltr.report.statistics import half_width
from foltr.report.study import Pair, Study
from foltr.results import Recorded

SHOWN = (
    "ndcg@10",
    "merged_ndcg@10",
    "online_ndcg@10",
    "mrr@10",
    "merged_mrr@10",
    "expected_maxrr",
    "maxrr",
)
SMOOTHED = ("online_ndcg@10", "maxrr")
WINDOWS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
BUDGET = 200_000  # bytes of all curves of a page
CHOICES = (
    (500, 6),
    (300, 6),
    (200, 6),
    (150, 6),
    (120, 4),
    (80, 4),
    (60, 3),
    (40, 3),
    (30, 2),
    (24, 2),
)  # points, windows
UNKNOWN = 65_535
Place = tuple[int, int]


def thinned(study: Study, budget: int = BUDGET) -> list[dict[str, Any]]:
    """One table per measure that any run has a curve of."""
    measures = [name for name in SHOWN if any(has(run, name) for run in study.runs)]
    windows = _windows(max(len(run.metrics.online["interactions"]) for run in study.runs))
    points, count = _affordable(study, measures, windows, budget)
    kept = windows if len(windows) <= count else _spread(windows, count)
    found = [_measure(study, name, kept if name in SMOOTHED else [1], points) for name in measures]
    return [table for table in found if table["cells"]]


def _windows(rounds: int) -> list[int]:
    """1 is no smoothing; the widest is a quarter of all rounds."""
    return [1, *(window for window in WINDOWS if rounds / 100 <= window <= rounds / 4)]


def _spread(windows: list[int], count: int) -> list[int]:
    """No smoothing, and others evenly spread."""
    return [
        1,
        *(
            windows[1 + int((i + 0.5) / (count - 1) * (len(windows) - 1))]
            for i in range(count - 1)
        ),
    ]


def _affordable(
    study: Study, measures: list[str], windows: list[int], budget: int
) -> tuple[int, int]:
    """The most points and windows whose curves stay within the budget."""
    lengths = Counter(_size(cell, name) for cell in study.cells.values() for name in measures)
    for points, count in CHOICES:
        levels = {True: min(count, len(windows)), False: 1}
        parts = [
            n * min(points, length) * levels[online] * each
            for (length, online, each), n in lengths.items()
        ]
        if sum(parts) * 8 / 3 <= budget:  # base64 of two bytes
            return points, count
    return CHOICES[-1]


def _size(cell: dict[Pair, Recorded], measure: str) -> tuple[int, bool, int]:
    """Points of a cell's curve, whether it is smoothed, and numbers for each point."""
    metrics = next(iter(cell.values())).metrics
    length = len(metrics.online.get(measure) or metrics.offline.get(measure) or ())
    return length, measure in SMOOTHED, 2 if len(cell) > 1 else 1


def _measure(study: Study, measure: str, windows: list[int], points: int) -> dict[str, Any]:
    levels: dict[Place, list[CellCurve]] = {}
    lengths: dict[Place, int] = {}
    for place, cell in study.cells.items():
        runs = [run for run in cell.values() if has(run, measure)]
        if runs:
            curves = [cell_curve(runs, measure, smooth=window) for window in windows]
            if len(curves[0].rounds):
                levels[place] = [_picked(curve, points) for curve in curves]
                lengths[place] = len(curves[0].rounds)
    end = last_of(curves[0] for curves in levels.values())
    levels = {
        place: [levelled(curve, end) for curve in curves] for place, curves in levels.items()
    }
    everything = [curve for curves in levels.values() for curve in curves]
    low = min((float(curve.mean.min()) for curve in everything), default=0.0)
    high = max((float(curve.mean.max()) for curve in everything), default=1.0)
    spread = max((float(np.nan_to_num(curve.sd).max()) for curve in everything), default=0.0)
    grids: dict[tuple[int, ...], int] = {}
    cells = [
        {**_cell(place, curves, grids, (low, high, spread)), "of": lengths[place]}
        for place, curves in levels.items()
    ]
    return {
        "id": measure,
        "name": CURVES[measure],
        "windows": windows,
        "low": low,
        "high": high,
        "spread": spread,
        "grids": [list(grid) for grid in grids],
        "cells": cells,
    }


def _picked(curve: CellCurve, points: int) -> CellCurve:
    """At most so many of a curve's points: most evenly spread, some denser at the start, the first
    and the last."""
    length = len(curve.rounds)
    if length <= points:
        return curve
    early = points // 4
    even = np.linspace(0, length - 1, points - early)
    kept = np.unique(np.append(even, np.geomspace(1, length, early) - 1).round().astype(int))
    parts = (curve.rounds, curve.interactions, curve.mean, curve.sd, curve.n)
    return CellCurve(*(part[kept] for part in parts))


def _cell(
    place: Place,
    curves: list[CellCurve],
    grids: dict[tuple[int, ...], int],
    scale: tuple[float, float, float],
) -> Any:
    first, (low, high, spread) = curves[0], scale
    grid = grids.setdefault(tuple(first.rounds.tolist()), len(grids))
    known = bool(np.isfinite(first.sd).any())
    parts = []
    for curve in curves:
        parts.append(_coded(curve.mean, low, high))
        if known:
            parts.append(_coded(curve.sd, 0.0, spread))
    return {
        "at": list(place),
        "grid": grid,
        "n": int(first.n.max()),
        "half": _halves(first) if known else None,
        "spent": _spent(first),
        "data": b64encode(
            np.concatenate(parts).tobytes()
        ).decode(),  # mean, sd of each window, each a point per round
    }


def _halves(curve: CellCurve) -> Any:
    """x sd: half the 95 % t interval at each point, None where one run is known; one number where
    all have as many."""
    factor = {n: half_width(1.0, n) if n > 1 else None for n in set(curve.n.tolist())}
    return (
        [factor[n] for n in curve.n.tolist()] if len(factor) > 1 else next(iter(factor.values()))
    )


def _coded(values: Array, low: float, high: float) -> Array:
    known = np.isfinite(values)
    part = (
        (np.where(known, values, low) - low) / (high - low)
        if high > low
        else np.zeros(len(values))
    )
    return np.where(known, np.rint(part * (UNKNOWN - 1)), UNKNOWN).astype("<u2")


def _spent(curve: CellCurve) -> Any:
    """Interactions up to each round: one number where each round has as many, which is the
    rule."""
    per_round = curve.interactions[-1] / curve.rounds[-1] if curve.rounds[-1] else 0.0
    if np.allclose(curve.interactions, per_round * curve.rounds, rtol=1e-9, atol=0.5):
        return per_round
    return np.rint(curve.interactions).astype(int).tolist()
