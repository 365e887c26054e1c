"""Learning curves of a study: mean and spread over the runs of a cell, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from foltr.core import Array, require
from foltr.metrics import GAMMA
from foltr.record import ONLINE, Curve
from foltr.report.study import Study
from foltr.results import Recorded

CURVES = {
    "ndcg@10": "offline nDCG@10",
    "mrr@10": "offline MRR@10",
    "expected_maxrr": "offline expected MaxRR",
    "online": "online performance so far",
    "online_ndcg@10": "online nDCG@10",
    "maxrr": "online MaxRR",
}


@dataclass(frozen=True)
class CellCurve:
    """Each array has one number per point, (r,)."""

    rounds: Array  # int; of an average over a stretch of rounds, the last of them
    interactions: Array  # since the start, mean over runs
    mean: Array
    sd: Array  # over runs, with n - 1; NaN where n = 1
    n: Array  # runs that have a value there


def curves(study: Study, measure: str, stretches: int = 0) -> dict[tuple[int, int], CellCurve]:
    """The curve of every cell of a study: (method, condition) -> curve."""
    return {place: cell_curve(list(cell.values()), measure, stretches) for place, cell in study.cells.items()}


def cell_curve(runs: Sequence[Recorded], measure: str, stretches: int = 0, smooth: int = 1) -> CellCurve:
    """Mean and sd over runs, at the rounds that all of them share and where any has a value.

    `stretches`: cut the rounds into at most so many stretches of (nearly) equal length, and average each run over each
    of them first (0: every point by itself). `smooth`: average each point of a run with its neighbours, a window of so
    many points that narrows towards the ends. Both come before mean and sd, which thus are of what is drawn.
    `measure`: any curve of a run; "online" is online performance so far, sum_{s<=t} gamma^(s-1) nDCG_s."""
    require(len(runs) > 0, "a curve needs a run")
    require(stretches >= 0 and smooth >= 1, f"stretches must be >= 0 and smooth >= 1, got {stretches} and {smooth}")
    found = [run_curve(run, measure) for run in runs]
    rounds = reduce(np.intersect1d, [curve.rounds for curve in found])
    require(len(rounds) > 0, f"{runs[0].name} and others were evaluated in different rounds: they share no {measure}")
    values = np.array([curve.values[np.isin(curve.rounds, rounds)] for curve in found])  # (runs, r)
    ends = np.arange(len(rounds))
    if 0 < stretches < len(rounds):
        ends = np.arange(1, stretches + 1) * len(rounds) // stretches - 1
        values = _stretched(values, ends)
    if smooth > 1:
        values = _smoothed(values, smooth)
    spent = np.mean([_spent(run)[rounds[ends]] for run in runs], axis=0)
    return _over_runs(rounds[ends], spent, values)


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


def _stretched(values: Array, ends: Array) -> Array:
    """The mean over each stretch, which ends there; of what is known of it."""  # (runs, r), (s,) -> (runs, s)
    starts = np.append(0, ends[:-1] + 1)
    known = np.add.reduceat(np.isfinite(values), starts, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.where(np.isfinite(values), values, 0.0), starts, axis=1)
    return np.where(known > 0, sums / np.maximum(known, 1), np.nan)


def _smoothed(values: Array, window: int) -> Array:
    """The mean over up to `window` points around each; of what is known of them. Near the ends the window narrows on
    both sides: one that is only cut off would lift the start of a rising curve."""  # (runs, r) -> (runs, r)
    known, at = np.isfinite(values), np.arange(values.shape[1])
    room = np.minimum(at, at[::-1])
    first, last = at - np.minimum((window - 1) // 2, room), at + np.minimum(window // 2, room) + 1

    def total(parts: Array) -> Array:
        before = np.concatenate([np.zeros((len(parts), 1)), np.cumsum(parts, axis=1)], axis=1)
        return before[:, last] - before[:, first]

    return np.where(known, total(np.where(known, values, 0.0)) / np.maximum(total(known), 1.0), np.nan)


def _over_runs(rounds: Array, interactions: Array, values: Array) -> CellCurve:
    n = np.isfinite(values).sum(axis=0)
    some = n > 0
    values, n = values[:, some], n[some]
    known = np.isfinite(values)
    mean = np.where(known, values, 0.0).sum(axis=0) / n
    squares = (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
    sd = np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
    return CellCurve(rounds[some], interactions[some], mean, sd, n)
