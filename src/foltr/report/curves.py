"""Learning curves of a study: mean and spread over the runs of a cell, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.metrics import GAMMA
from foltr.report.study import Study
from foltr.results import Recorded
from foltr.runs.folder import ONLINE, Curve

CURVES = {
    "ndcg@10": "offline nDCG@10",
    "mrr@10": "offline MRR@10",
    "expected_maxrr": "offline expected MaxRR",
    "merged_ndcg@10": "offline nDCG@10 by merged labellings",
    "merged_mrr@10": "offline MRR@10 by merged labellings",
    "online": "online performance so far",
    "online_ndcg@10": "online nDCG@10",
    "maxrr": "online MaxRR",
}
TINY = 1e-3  # of a window's spread of places, which is 0.25 for two neighbours: below is rounding


@dataclass(frozen=True)
class CellCurve:
    """Each array has one number per point, (r,)."""

    rounds: Array  # of an average over a stretch of rounds, their middle
    interactions: Array  # since the start, mean over runs; of a stretch, the mean over its rounds
    mean: Array
    sd: Array  # over runs, with n - 1; NaN where n = 1
    n: Array  # runs that have a value there


def curves(
    study: Study, measure: str, stretches: int = 0, smooth: int = 1, geometric: bool = False
) -> dict[tuple[int, int], CellCurve]:
    """The curve of every cell of a study that has one: (method, condition) -> curve."""
    runs = {
        place: [run for run in cell.values() if has(run, measure)]
        for place, cell in study.cells.items()
    }
    if not any(runs.values()):
        run_curve(next(iter(study.runs)), measure)  # a misspelt measure is told the right one
    found = {
        place: cell_curve(some, measure, stretches, smooth, geometric)
        for place, some in runs.items()
        if some
    }
    end = last_of(found.values())
    return {place: levelled(curve, end) for place, curve in found.items()}


def has(run: Recorded, measure: str) -> bool:
    """Whether a run has a curve: a baseline has none of what happens online."""
    name = "online_ndcg@10" if measure == "online" else measure
    return bool(run.metrics.online.get(name) or run.metrics.offline.get(name))


def last_of(curves: Iterable[CellCurve]) -> tuple[float, float]:
    """The last round of any curve, and its interactions."""
    return max(
        ((curve.rounds[-1], curve.interactions[-1]) for curve in curves if len(curve.rounds)),
        default=(0, 0),
    )


def levelled(curve: CellCurve, end: tuple[float, float]) -> CellCurve:
    """A baseline learns in no round: it is one point at the start, and a level for all that
    learn."""
    if len(curve.rounds) != 1 or curve.rounds[0] != 0 or not end[0]:
        return curve
    rounds = np.unique(np.array([0, 1, end[0]], curve.rounds.dtype))  # 1, for axes that have no 0
    spent = rounds * (end[1] / end[0])
    return CellCurve(
        rounds, spent, *(np.repeat(part, len(rounds)) for part in (curve.mean, curve.sd, curve.n))
    )


def cell_curve(
    runs: Sequence[Recorded],
    measure: str,
    stretches: int = 0,
    smooth: int = 1,
    geometric: bool = False,
) -> CellCurve:
    """Mean and sd over runs, at the rounds that all of them share and where any has a value.

    `stretches`: cut the rounds into at most so many stretches of (nearly) equal length, or of
    lengths that grow with the rounds (`geometric`, for a logarithmic axis), and average each run
    over each of them first (0: every point by itself). `smooth`: smooth each run by a line through
    a window of so many points. Both come before mean and sd, which thus are of what is drawn.
    `measure`: any curve of a run; "online" is online performance so far, sum_{s<=t} gamma^(s-1)
    nDCG_s."""
    require(len(runs) > 0, "a curve needs a run")
    require(
        stretches >= 0 and smooth >= 1,
        f"stretches must be >= 0 and smooth >= 1, got {stretches} and {smooth}",
    )
    found = [run_curve(run, measure) for run in runs]
    rounds = reduce(np.intersect1d, [curve.rounds for curve in found])
    require(
        len(rounds) > 0,
        f"{runs[0].name} and others were evaluated in different rounds: they share no {measure}",
    )
    values = np.array(
        [curve.values[np.isin(curve.rounds, rounds)] for curve in found]
    )  # (runs, r)
    spent = np.mean([_spent(run)[rounds] for run in runs], axis=0)
    if 0 < stretches < len(rounds):
        parts = np.vstack([rounds, spent, values])
        means = _stretched(parts, _starts(len(rounds), stretches, geometric))
        rounds, spent, values = means[0], means[1], means[2:]
    if smooth > 1:
        values = _smoothed(values, smooth)
    return _over_runs(rounds, spent, values)


def run_curve(run: Recorded, measure: str) -> Curve:
    """As `Recorded.curve`, and "online": online performance so far."""
    if measure != "online":
        return run.curve(measure)
    rounds, values = run.curve("online_ndcg@10")
    return Curve(rounds, np.cumsum(values * GAMMA ** np.arange(len(values))))


def is_online(measure: str) -> bool:
    """Known of every round, not only of those that were evaluated."""
    return measure in (*ONLINE, "online")


def _spent(run: Recorded) -> Array:
    """Interactions before each round: the first is 0, for round 0."""
    return np.append(0.0, np.cumsum(run.curve("interactions").values))


def _starts(points: int, stretches: int, geometric: bool) -> Array:
    """The first point of each stretch: of equal lengths, or of those between powers, where the
    first are single."""
    if not geometric:
        return np.arange(stretches) * points // stretches
    return np.unique(np.geomspace(1, points + 1, stretches + 1)[:-1].astype(np.int64)) - 1


def _stretched(values: Array, starts: Array) -> Array:
    """The mean over each stretch, which begins there; of what is known of it."""
    # (runs, r), (s,) -> (runs, s)
    known = np.add.reduceat(np.isfinite(values), starts, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.where(np.isfinite(values), values, 0.0), starts, axis=1)
    return np.where(known > 0, sums / np.maximum(known, 1), np.nan)


def _smoothed(values: Array, window: int) -> Array:
    """At each point the value there of the least-squares line through the known points of a window
    around it, which is cut off at the ends (Cleveland, JASA 1979, without weights): inside that is
    their plain mean.

    Straight lines stay as they are, up to the ends. A mean over a window that is cut off would
    lift the start of a rising curve, and one that narrows would end in a single raw round. An even
    window takes its two outermost points by half, so that it is symmetric. Where one point is
    known, or nothing spreads, it is the mean."""  # (runs, r)
    known, x = np.isfinite(values), np.arange(values.shape[1], dtype=np.float64)
    y = np.where(known, values, 0.0)

    def total(parts: Array) -> Array:
        before = np.concatenate([np.zeros((len(parts), 1)), np.cumsum(parts, axis=1)], axis=1)
        return (_within(before, window // 2) + _within(before, (window - 1) // 2)) / 2.0

    n = total(known)
    n = np.where(known, n, 1.0)  # elsewhere nothing is told
    mean, middle = total(y) / n, total(known * x) / n
    spread = total(known * x * x) / n - middle**2
    slope = np.divide(
        total(y * x) / n - mean * middle, spread, out=np.zeros_like(spread), where=spread > TINY
    )
    return np.where(known, mean + slope * (x - middle), np.nan)


def _within(before: Array, reach: int) -> Array:
    """Sums over the points at most `reach` away, from those of all points before each."""
    at, last = np.arange(before.shape[1] - 1), before.shape[1] - 1
    return before[:, np.minimum(at + reach + 1, last)] - before[:, np.maximum(at - reach, 0)]


def _over_runs(rounds: Array, interactions: Array, values: Array) -> CellCurve:
    n = np.isfinite(values).sum(axis=0)
    some = n > 0
    values, n = values[:, some], n[some]
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / n
    squares = (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
    sd = np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
    return CellCurve(rounds[some], interactions[some], mean, sd, n)
