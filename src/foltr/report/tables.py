"""A matrix as CSV for everything, as LaTeX for a paper, as text for a terminal."""

from __future__ import annotations

import math
from typing import Any

from foltr.report.latex import latex
from foltr.report.matrix import Entry, Matrix
from foltr.report.terminal import text
from foltr.tidy import Tidy

__all__ = ["csv", "latex", "text"]


def csv(*matrices: Matrix) -> str:
    """A row per measure, method and condition, with all numbers; empty where there is none."""
    rows = [
        _row(m, i, j) for m in matrices for i in range(len(m.study.methods)) for j in range(len(m.study.conditions))
    ]
    return Tidy.of(rows).csv()


def _row(matrix: Matrix, i: int, j: int) -> dict[str, Any]:
    study, entry = matrix.study, matrix.entries.get((i, j))
    nothing = Entry(0, math.nan, math.nan, (math.nan, math.nan), refused="no run has a value")
    e = entry or nothing
    test = e.test
    row = {
        "measure": matrix.measure,
        "method": study.methods[i].label,
        "condition": study.conditions[j].label,
        "baseline": i == study.baseline,
        "n": e.n,
        "mean": e.mean,
        "sd": e.sd,
        "low": e.interval[0],
        "high": e.interval[1],
        "best": e.best,
        "pairs": test.n if test else None,
        "paired_by": " ".join(study.paired_by),
        "difference": test.difference if test else None,
        "difference_sd": test.sd if test else None,
        "difference_low": test.interval[0] if test else None,
        "difference_high": test.interval[1] if test else None,
        "effect_dz": test.effect if test else None,
        "t": test.t if test else None,
        "p": test.p if test else None,
        "family": matrix.family,
        "p_bonferroni": e.corrected,
        "alpha": matrix.alpha,
        "mark": e.mark,
        "refused": e.refused,
    }
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
