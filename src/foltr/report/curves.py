"""Learning curves of a study: mean and spread over the runs of a cell, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.report.measures import has_curve, run_curve
from foltr.report.results import Recorded
from foltr.report.study import Place, Study

TINY = 1e-3  # a smaller variance of the positions in a window is rounding (two neighbours: 0.25)


@dataclass(frozen=True)
class CellCurve:
    """The curve of one method in one condition. Each array has one number per point, (r,)."""

    rounds: Array  # of a bin of rounds, its middle
    interactions: Array  # since the start, mean over runs; of a bin, the mean over its rounds
    mean: Array
    sd: Array  # over runs, with n - 1; NaN where n = 1
    n: Array  # runs that have a value there


def curves(
    study: Study, measure: str, bins: int = 0, smooth: int = 1, geometric: bool = False
) -> dict[Place, CellCurve]:
    """The curve of every cell of a study that has one. The arguments are those of `cell_curve`."""
    runs = {
        place: [run for run in cell.values() if has_curve(run, measure)]
        for place, cell in study.cells.items()
    }
    if not any(runs.values()):
        run_curve(next(iter(study.runs)), measure)  # raises a Mistake that names the known curves
    found = {
        place: cell_curve(some, measure, bins, smooth, geometric)
        for place, some in runs.items()
        if some
    }
    end = last_round(found.values())
    return {place: extended(curve, end) for place, curve in found.items()}


def last_round(curves: Iterable[CellCurve]) -> tuple[float, float]:
    """The last round of all curves, and the interactions up to it."""
    return max(
        ((curve.rounds[-1], curve.interactions[-1]) for curve in curves if len(curve.rounds)),
        default=(0, 0),
    )


def extended(curve: CellCurve, end: tuple[float, float]) -> CellCurve:
    """The curve of a baseline, which has one point at round 0, as a level line up to the last
    round of the other methods. Any other curve as it is."""
    if len(curve.rounds) != 1 or curve.rounds[0] != 0 or not end[0]:
        return curve
    # round 1 is for logarithmic axes, which have no 0
    rounds = np.unique(np.array([0, 1, end[0]], curve.rounds.dtype))
    interactions = rounds * (end[1] / end[0])
    repeated = (np.repeat(part, len(rounds)) for part in (curve.mean, curve.sd, curve.n))
    return CellCurve(rounds, interactions, *repeated)


def cell_curve(
    runs: Sequence[Recorded], measure: str, bins: int = 0, smooth: int = 1, geometric: bool = False
) -> CellCurve:
    """Mean and sd over runs, at the rounds that all runs share and where any run has a value.

    `measure`: any curve of a run. "online" is online performance so far, sum_{s<=t} gamma^(s-1)
    nDCG_s.
    `bins`: divide the rounds into at most so many bins and average each run over each bin (0: no
    bins). Bins are of (nearly) equal width, or with `geometric` grow with the rounds, for a
    logarithmic axis.
    `smooth`: smooth each run by a line through a window of so many points.
    Bins and smoothing come before mean and sd, so that the sd is that of the curves drawn."""
    [curve] = cell_curves(runs, measure, [smooth], bins, geometric)
    return curve


def cell_curves(
    runs: Sequence[Recorded],
    measure: str,
    windows: Sequence[int],
    bins: int = 0,
    geometric: bool = False,
) -> list[CellCurve]:
    """`cell_curve` for each of several windows of smoothing."""
    require(len(runs) > 0, "a curve needs a run")
    require(
        bins >= 0 and min(windows) >= 1,
        f"bins must be >= 0 and smooth >= 1, got {bins} and {min(windows)}",
    )
    found = [run_curve(run, measure) for run in runs]
    rounds = _shared([curve.rounds for curve in found])
    require(
        len(rounds) > 0,
        f"{runs[0].name} and others were evaluated in different rounds: they share no {measure}",
    )
    # (runs, r)
    values = np.array(
        [
            curve.values
            if len(curve.rounds) == len(rounds)
            else curve.values[np.isin(curve.rounds, rounds)]
            for curve in found
        ]
    )
    interactions = np.mean([run.interactions_before[rounds] for run in runs], axis=0)
    if 0 < bins < len(rounds):
        parts = np.vstack([rounds, interactions, values])
        means = _bin_means(parts, _bin_starts(len(rounds), bins, geometric))
        rounds, interactions, values = means[0], means[1], means[2:]
    return [
        _over_runs(rounds, interactions, _smoothed(values, window) if window > 1 else values)
        for window in windows
    ]


def _shared(rounds: Sequence[Array]) -> Array:
    """The rounds that all runs share, in order. Runs of a study mostly have the same rounds."""
    first = rounds[0]
    if all(np.array_equal(first, each) for each in rounds) and (first[1:] > first[:-1]).all():
        return first
    return reduce(np.intersect1d, rounds)


def _bin_starts(points: int, bins: int, geometric: bool) -> Array:
    """The first point of each bin. Of geometric bins the first ones hold a single point."""
    if not geometric:
        return np.arange(bins) * points // bins
    return np.unique(np.geomspace(1, points + 1, bins + 1)[:-1].astype(np.int64)) - 1


def _bin_means(values: Array, starts: Array) -> Array:
    """The mean over the finite values of each bin; NaN where there is none."""
    # (runs, r), (s,) -> (runs, s)
    known = np.add.reduceat(np.isfinite(values), starts, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.where(np.isfinite(values), values, 0.0), starts, axis=1)
    return np.where(known > 0, sums / np.maximum(known, 1), np.nan)


def _smoothed(values: Array, window: int) -> Array:
    """Each point replaced by the value there of the least-squares line through the finite points
    of a window around it (Cleveland, JASA 1979, without weights). Where the window is whole, that
    is their plain mean. At both ends the window is cut off.

    Straight lines stay as they are, up to the ends. A mean over a window that is cut off would
    lift the start of a rising curve. A window that narrows would end in a single raw round. An
    even window counts its two outermost points half, so that it is symmetric. Where only one point
    is finite the result is the mean."""  # (runs, r)
    known, x = np.isfinite(values), np.arange(values.shape[1], dtype=np.float64)
    y = np.where(known, values, 0.0)
    if known.all():
        known = known[:1]  # all runs have the same windows

    def total(parts: Array) -> Array:
        before = np.concatenate([np.zeros((len(parts), 1)), np.cumsum(parts, axis=1)], axis=1)
        return (_within(before, window // 2) + _within(before, (window - 1) // 2)) / 2.0

    n = total(known)
    n = np.where(known, n, 1.0)  # elsewhere the result is NaN anyway
    mean, middle = total(y) / n, total(known * x) / n
    spread = total(known * x * x) / n - middle**2
    slope = np.divide(
        total(y * x) / n - mean * middle, spread, out=np.zeros_like(y), where=spread > TINY
    )
    return np.where(known, mean + slope * (x - middle), np.nan)


def _within(before: Array, reach: int) -> Array:
    """Sums over the points at most `reach` away from each point. `before`: the sums of all points
    before each."""
    last = before.shape[1] - 1
    reach = min(reach, last)
    sums = np.empty((len(before), last))
    sums[:, : last - reach] = before[:, reach + 1 :]
    sums[:, last - reach :] = before[:, -1:]
    sums[:, reach:] -= before[:, : last - reach]
    sums[:, :reach] -= before[:, :1]
    return sums


def _over_runs(rounds: Array, interactions: Array, values: Array) -> CellCurve:
    n = np.isfinite(values).sum(axis=0)
    some = n > 0
    if not some.all():
        rounds, interactions, values, n = (
            rounds[some],
            interactions[some],
            values[:, some],
            n[some],
        )
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / n
    squares = (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
    sd = np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
    return CellCurve(rounds, interactions, mean, sd, n)
