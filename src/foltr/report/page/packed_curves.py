"""Learning curves as the page holds them: 16 bits per number, and as many points as a budget of
bytes allows.

Curves of every round are smoothed by several windows. Each run is smoothed before mean and sd are
taken over runs (`cell_curve`), because the sd of smoothed runs is not the smoothed sd. Thinning
keeps single points and never averages: every point on the page is exact to 1 / 65,534 of the range
of its measure."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.report.curves import CellCurve, cell_curves, extended, last_round
from foltr.report.measures import column, curve_names, has_curve, is_smoothed
from foltr.report.results import Recorded
from foltr.report.statistics import half_width
from foltr.report.study import Pair, Place, Study

WINDOWS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)  # rounds, for smoothing
BUDGET = 200_000  # bytes of all curves of a page
# points and windows of a curve; the first choice that the budget allows is taken
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
)
SUM_SO_FAR = "online"  # the page shows what it is the sum of
UNKNOWN = 65_535  # the code of a missing number


def packed_curves(study: Study, budget: int = BUDGET) -> list[dict[str, Any]]:
    """One table per measure of which any run has a curve."""
    measures = [
        name
        for name in curve_names(study.runs)
        if name != SUM_SO_FAR and any(has_curve(run, name) for run in study.runs)
    ]
    windows = _windows(max(len(run.metrics.online["interactions"]) for run in study.runs))
    points, n_windows = _affordable(study, measures, windows, budget)
    kept = windows if len(windows) <= n_windows else _spread(windows, n_windows)
    found = [
        _measure(study, name, kept if is_smoothed(study.runs, name) else [1], points)
        for name in measures
    ]
    return [table for table in found if table["cells"]]


def _windows(rounds: int) -> list[int]:
    """1 (no smoothing), then windows up to a quarter of all rounds."""
    return [1, *(window for window in WINDOWS if rounds / 100 <= window <= rounds / 4)]


def _spread(windows: list[int], n: int) -> list[int]:
    """No smoothing, and n - 1 other windows, evenly spread."""
    others = windows[1:]
    return [1, *(others[int((i + 0.5) / (n - 1) * len(others))] for i in range(n - 1))]


def _affordable(
    study: Study, measures: list[str], windows: list[int], budget: int
) -> tuple[int, int]:
    """The most points and windows with which all curves stay within the budget."""
    smoothed = {name: is_smoothed(study.runs, name) for name in measures}
    lengths = Counter(
        (*_size(cell, name), smoothed[name]) for cell in study.cells.values() for name in measures
    )
    for points, n_windows in CHOICES:
        levels = {True: min(n_windows, len(windows)), False: 1}
        parts = [
            n * min(points, length) * levels[noisy] * each
            for (length, each, noisy), n in lengths.items()
        ]
        if sum(parts) * 8 / 3 <= budget:  # two bytes in base64
            return points, n_windows
    return CHOICES[-1]


def _size(cell: dict[Pair, Recorded], measure: str) -> tuple[int, int]:
    """How many points a cell's curve has, and how many numbers each point has."""
    metrics = next(iter(cell.values())).metrics
    length = len(metrics.online.get(measure, ())) or len(metrics.offline.get(measure, ()))
    return length, 2 if len(cell) > 1 else 1


def _measure(study: Study, measure: str, windows: list[int], points: int) -> dict[str, Any]:
    levels: dict[Place, list[CellCurve]] = {}
    lengths: dict[Place, int] = {}
    for place, cell in study.cells.items():
        runs = [run for run in cell.values() if has_curve(run, measure)]
        if runs:
            curves = cell_curves(runs, measure, windows)
            if len(curves[0].rounds):
                levels[place] = [_picked(curve, points) for curve in curves]
                lengths[place] = len(curves[0].rounds)
    end = last_round(curves[0] for curves in levels.values())
    levels = {
        place: [extended(curve, end) for curve in curves] for place, curves in levels.items()
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
        "name": column(study.runs, measure).curve_label,
        "windows": windows,
        "low": low,
        "high": high,
        "spread": spread,
        "grids": [list(grid) for grid in grids],
        "cells": cells,
    }


def _picked(curve: CellCurve, points: int) -> CellCurve:
    """At most so many points of a curve, among them the first and the last. Most are evenly
    spread, a quarter is denser at the start."""
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
        "half": _half_width_factors(first) if known else None,
        "spent": _interactions(first),
        # mean and sd of each window, one number per point
        "data": b64encode(np.concatenate(parts).tobytes()).decode(),
    }


def _half_width_factors(curve: CellCurve) -> Any:
    """The factor by which the sd at each point gives half the 95 % t interval; None where only one
    run has a value. One number where all points have the same number of runs."""
    factor = {n: half_width(1.0, n) if n > 1 else None for n in set(curve.n.tolist())}
    if len(factor) == 1:
        return next(iter(factor.values()))
    return [factor[n] for n in curve.n.tolist()]


def _coded(values: Array, low: float, high: float) -> Array:
    """Numbers between low and high as 16 bits each."""
    known, part = np.isfinite(values), np.zeros(len(values))
    if high > low:
        part = (np.where(known, values, low) - low) / (high - low)
    return np.where(known, np.rint(part * (UNKNOWN - 1)), UNKNOWN).astype("<u2")


def _interactions(curve: CellCurve) -> Any:
    """Interactions up to each round. One number where all rounds have equally many, which is
    usual."""
    per_round = curve.interactions[-1] / curve.rounds[-1] if curve.rounds[-1] else 0.0
    if np.allclose(curve.interactions, per_round * curve.rounds, rtol=1e-9, atol=0.5):
        return per_round
    return np.rint(curve.interactions).astype(int).tolist()
