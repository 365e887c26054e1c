"""Matrices as one CSV table with all numbers."""

from __future__ import annotations

import math
from typing import Any

from foltr.core.system.tables import Tidy
from foltr.report.matrix import Entry, Matrix
from foltr.report.measures import column
from foltr.report.provenance import code_of, data_source


def csv_table(*matrices: Matrix) -> str:
    """A row per measure, method and condition. A number that does not exist is empty.

    Columns with `data` in their name are of the test over the means of runs on equal data. The
    column `empty` is how queries without a relevant document count, `code` the compiled code that
    made the runs."""
    rows = [
        _row(m, i, j)
        for m in matrices
        for i in range(len(m.study.methods))
        for j in range(len(m.study.conditions))
    ]
    return Tidy.of(rows).csv()


def _row(matrix: Matrix, i: int, j: int) -> dict[str, Any]:
    study, runs = matrix.study, list(matrix.study.cell(i, j).values())
    nothing = Entry(0, math.nan, math.nan, (math.nan, math.nan), refused="no run has a value")
    e = matrix.entries.get((i, j), nothing)
    test, over_data = e.test, e.over_data
    follows = column(study.runs, matrix.measure).follows_empty
    rules = [str(run.final.get("empty")) for run in runs] if follows else []
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
        "pairs_data": over_data.n if over_data else None,
        "difference_data": over_data.difference if over_data else None,
        "difference_data_low": over_data.interval[0] if over_data else None,
        "difference_data_high": over_data.interval[1] if over_data else None,
        "t_data": over_data.t if over_data else None,
        "p_data": over_data.p if over_data else None,
        "p_data_bonferroni": e.corrected_data,
        "alpha": matrix.alpha,
        "mark": e.mark,
        "refused": e.refused,
        "data": "; ".join(dict.fromkeys(data_source(run, study.paired_by) for run in runs)),
        "empty": "; ".join(dict.fromkeys(rules)),
        "selection": study.runs.selection,
        "code": "; ".join(dict.fromkeys(map(code_of, runs))),
    }
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }
