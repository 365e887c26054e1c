"""Everything that the page shows, as plain data. The page and the live page are made of nothing
else. What the script needs can be written as JSON."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from foltr.core.system.tables import count
from foltr.report.captions import caption
from foltr.report.chapters.registry import blocks
from foltr.report.figures import COLOURS, line_styles
from foltr.report.matrix import (
    BETTER,
    BETTER_HERE,
    MARK_MEANING,
    WORSE,
    WORSE_HERE,
    Entry,
    Matrix,
    matrix,
)
from foltr.report.measures import column, measured, value
from foltr.report.page.packed_curves import BUDGET, packed_curves
from foltr.report.provenance import COMMAND, options, provenance, runs_counted
from foltr.report.results import Runs
from foltr.report.statistics import PairedT
from foltr.report.study import Study
from foltr.report.tables.csv_table import csv_table
from foltr.report.tables.latex_table import latex_tables

MARK_CLASS = {BETTER: "up", WORSE: "down", BETTER_HERE: "up", WORSE_HERE: "down"}


def page_content(
    study: Study, made: datetime | None = None, budget: int = BUDGET
) -> dict[str, Any]:
    """The content of the page of a study. `budget`: bytes that its curves may take."""
    return {**content_without_curves(study, made), "curves": packed_curves(study, budget)}


def content_without_curves(study: Study, made: datetime | None = None) -> dict[str, Any]:
    made = made or datetime.now(UTC)
    matrices = [matrix(study, name) for name in measured(study)]
    numbers = {run.name: i for i, run in enumerate(study.runs)}
    return {
        "title": _title(study),
        "made": f"{made:%Y-%m-%d %H:%M}",
        "selection": study.runs.selection,
        "baseline": study.baseline,
        "methods": [
            {"label": method.label, "style": list(style), "differs": _differs(study, i)}
            for i, (method, style) in enumerate(zip(study.methods, _styles(study), strict=True))
        ],
        "conditions": [condition.label for condition in study.conditions],
        "cells": {
            f"{m}.{c}": [numbers[run.name] for run in cell.values()]
            for (m, c), cell in study.cells.items()
        },
        "runs": _runs(study, [each.measure for each in matrices]),
        "matrices": [_matrix(each) for each in matrices],
        "marks": {
            mark: {"class": MARK_CLASS[mark], "text": text} for mark, text in MARK_MEANING.items()
        },
        "counted": runs_counted(study.runs),
        "interactions": sum(int(run.final["interactions"]) for run in study.runs),
        "seconds": round(math.fsum(float(run.final["seconds"]) for run in study.runs), 3),
        "blocks": blocks(study.runs),
        "provenance": provenance(study, made),
        "downloads": _downloads(study.runs, matrices),
    }


def _title(study: Study) -> str:
    methods = count(len(study.methods), "method")
    return study.runs.title or f"{methods} under {count(len(study.conditions), 'condition')}"


def _styles(study: Study) -> list[tuple[int, int]]:
    """The number of the colour and of the dashes of each method. A screen shows bands as well, so
    only colours are used as long as there are enough."""
    n = len(study.methods)
    return [(i, 0) for i in range(n)] if n <= len(COLOURS) else line_styles(study.methods)


def _differs(study: Study, method: int) -> list[list[str]]:
    """The fields in which a method differs from the baseline: [name, the baseline's, its own]."""
    base, own = dict(study.methods[study.baseline].key), dict(study.methods[method].key)
    names = [name for name in {**base, **own} if repr(base.get(name)) != repr(own.get(name))]
    return [[name, str(base.get(name, "none")), str(own.get(name, "none"))] for name in names]


def _runs(study: Study, measures: list[str]) -> dict[str, Any]:
    """The names, repetitions, values and commands of the runs. Each value of an option is kept
    once."""
    runs = list(study.runs)
    commands = [options(run) for run in runs]
    shared = {}
    for name in dict.fromkeys(name for given in commands for name in given):
        values = dict.fromkeys(given.get(name) for given in commands)
        # not `value`: in Python 3.12.1 the function of that name would be unbound below
        numbers = {each: i for i, each in enumerate(values)}
        shared[name] = {
            "values": list(values),
            "of": [numbers[given.get(name)] for given in commands] if len(values) > 1 else 0,
        }
    return {
        "command": COMMAND,
        "options": shared,
        "names": [run.name for run in runs],
        "paired_by": list(study.paired_by),
        "pairs": [[_plain(run.fields.get(name)) for name in study.paired_by] for run in runs],
        "values": {name: [_number(value(run, name)) for run in runs] for name in measures},
    }


def _matrix(found: Matrix) -> dict[str, Any]:
    refusals = list(
        dict.fromkeys(entry.refused for entry in found.entries.values() if entry.refused)
    )
    return {
        "measure": found.measure,
        "name": column(found.study.runs, found.measure).label,
        "caption": caption(found),
        "family": found.family,
        "decimals": found.decimals,
        "refusals": refusals,
        "entries": {
            f"{m}.{c}": _entry(found, entry, refusals) for (m, c), entry in found.entries.items()
        },
    }


def _entry(found: Matrix, entry: Entry, refusals: list[str]) -> dict[str, Any]:
    """An entry without the keys that have no value: there may be thousands of entries."""
    made: dict[str, Any] = {"n": entry.n, "mean": _number(entry.mean), "sd": _number(entry.sd)}
    if not math.isnan(entry.interval[0]):
        made["interval"] = [_number(end) for end in entry.interval]
    if entry.test is not None:
        made |= {"test": _test(entry.test), "corrected": _number(entry.corrected)}
    if entry.over_data is not None:
        made |= {
            "over_data": _test(entry.over_data),
            "corrected_data": _number(entry.corrected_data),
        }
    if entry.refused:
        made["refused"] = refusals.index(entry.refused)
    more = {"best": entry.best, "mark": entry.mark, "unusual_n": found.unusual_n(entry)}
    return {**made, **{name: each for name, each in more.items() if each}}


def _test(test: PairedT) -> dict[str, Any]:
    shown = ("difference", "t", "p", "effect")
    numbers = {name: _number(getattr(test, name)) for name in shown}
    return {"n": test.n, **numbers, "interval": [_number(end) for end in test.interval]}


def _downloads(runs: Runs, matrices: list[Matrix]) -> dict[str, str]:
    """File name -> content."""
    found = {"runs.csv": runs.table.csv()}
    if matrices:
        found["matrices.csv"] = csv_table(*matrices)
        found["tables.tex"] = latex_tables(*matrices)
    return found


def _number(number: float | None) -> float | str | None:
    """A number as JSON can hold it, to twelve digits. The page shows five of them or fewer. NaN
    becomes None."""
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return float(f"{number:.12g}")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) or value is None else repr(value)
