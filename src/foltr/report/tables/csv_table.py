"""A matrix as CSV for everything, as LaTeX for a paper, as text for a terminal."""

from __future__ import annotations

import math
from typing import Any

from foltr.report.entries import Entry, Matrix
from foltr.report.tables.latex_table import latex
from foltr.report.measures import LEAVES_OUT
from foltr.report.provenance import source
from foltr.report.tables.terminal_table import text
from foltr.system.table import Tidy

__all__ = ["csv", "latex", "text"]


def csv(*matrices: Matrix) -> str:
    """A row per measure, method and condition, with all numbers; empty where there is none.

    Columns that end in _data, or have it inside, are of the test over means of runs on equal data;
    `empty` is how queries without a relevant document count."""
    rows = [
        _row(m, i, j)
        for m in matrices
        for i in range(len(m.study.methods))
        for j in range(len(m.study.conditions))
    ]
    return Tidy.of(rows).csv()


def _row(matrix: Matrix, i: int, j: int) -> dict[str, Any]:
    study, entry = matrix.study, matrix.entries.get((i, j))
    nothing = Entry(0, math.nan, math.nan, (math.nan, math.nan), refused="no run has a value")
    e = entry or nothing
    test, again, runs = e.test, e.over_data, list(study.cell(i, j).values())
    rules = [str(run.final.get("empty")) for run in runs] if matrix.measure in LEAVES_OUT else []
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
        "pairs_data": again.n if again else None,
        "difference_data": again.difference if again else None,
        "difference_data_low": again.interval[0] if again else None,
        "difference_data_high": again.interval[1] if again else None,
        "t_data": again.t if again else None,
        "p_data": again.p if again else None,
        "p_data_bonferroni": e.corrected_data,
        "alpha": matrix.alpha,
        "mark": e.mark,
        "refused": e.refused,
        "data": "; ".join(dict.fromkeys(source(run, study.pairs) for run in runs)),
        "empty": "; ".join(dict.fromkeys(rules)),
        "selection": study.runs.selection,
    }
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }
