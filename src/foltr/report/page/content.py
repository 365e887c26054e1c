"""Everything that the page shows, as plain data (JSON): the page, and a page that lives, are made
of nothing else."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from foltr.report import (
    tables,
)  # the first three register blocks
from foltr.report.chapters.blocks import Block, Cell, blocks
from foltr.report.page.rerun_command import COMMAND, arguments
from foltr.report.entries import Entry, Matrix
from foltr.report.matrix import matrix
from foltr.report.measures import MEASURES, measured, value
from foltr.report.provenance import counted, provenance
from foltr.report.statistics import PairedT
from foltr.report.study import Study
from foltr.report.line_styles import COLOURS, styles
from foltr.report.page.packed_curves import BUDGET, thinned
from foltr.results import Recorded, Runs

HEADLINES = ("ndcg@10", "online")  # measures whose highest mean is told at a glance


def model(study: Study, made: datetime | None = None, budget: int = BUDGET) -> dict[str, Any]:
    """A study as the page shows it. `budget`: bytes that its curves may take."""
    return {**without_curves(study, made), "curves": thinned(study, budget)}


def without_curves(study: Study, made: datetime | None = None) -> dict[str, Any]:
    made = made or datetime.now(UTC)
    matrices = [matrix(study, name) for name in measured(study)]
    numbers = {run.name: i for i, run in enumerate(study.runs)}
    return {
        "title": title(study),
        "made": f"{made:%Y-%m-%d %H:%M}",
        "selection": study.runs.selection,
        "baseline": study.baseline,
        "methods": [
            {"label": method.label, "style": list(style), "differs": _differs(study, i)}
            for i, (method, style) in enumerate(zip(study.methods, _looks(study), strict=True))
        ],
        "conditions": [condition.label for condition in study.conditions],
        "cells": {
            f"{m}.{c}": [numbers[run.name] for run in cell.values()]
            for (m, c), cell in study.cells.items()
        },
        "runs": _runs(study, [each.measure for each in matrices]),
        "matrices": [_matrix(each) for each in matrices],
        "glance": _glance(study, matrices),
        "blocks": [_block(each) for each in blocks(study.runs)],
        "provenance": [[label, list(lines)] for label, lines in provenance(study, made)],
        "downloads": _downloads(study.runs, matrices),
    }


def title(study: Study) -> str:
    methods, conditions = len(study.methods), len(study.conditions)
    told = (
        f"{methods} method{'s' * (methods != 1)} under {conditions}"
        f" condition{'s' * (conditions != 1)}"
    )
    return study.runs.title or told


def _looks(study: Study) -> list[tuple[int, int]]:
    """Hue and dashes of each method. A screen has room for bands: hues alone as long as there are
    enough."""
    n = len(study.methods)
    return [(i, 0) for i in range(n)] if n <= len(COLOURS) else styles(study.methods)


def _differs(study: Study, method: int) -> list[list[str]]:
    """The fields in which a method differs from the baseline: [name, the baseline's, its own]."""
    base, own = dict(study.methods[study.baseline].key), dict(study.methods[method].key)
    names = [name for name in {**base, **own} if repr(base.get(name)) != repr(own.get(name))]
    return [[name, _told(base, name), _told(own, name)] for name in names]


def _told(fields: dict[str, Any], name: str) -> str:
    return str(fields[name]) if name in fields else "none"


def _runs(study: Study, measures: list[str]) -> dict[str, Any]:
    """Names, repetitions, values and the command of each run; an option's values are kept once."""
    runs: list[Recorded] = list(study.runs)
    told = [arguments(run) for run in runs]
    options = {}
    for name in dict.fromkeys(name for given in told for name in given):
        values = {
            value: i for i, value in enumerate(dict.fromkeys(given.get(name) for given in told))
        }
        options[name] = {
            "values": list(values),
            "of": [values[given.get(name)] for given in told] if len(values) > 1 else 0,
        }
    return {
        "command": COMMAND,
        "options": options,
        "names": [run.name for run in runs],
        "paired_by": list(study.paired_by),
        "pairs": [[_plain(run.fields.get(name)) for name in study.paired_by] for run in runs],
        "values": {name: [_finite(value(run, name)) for run in runs] for name in measures},
    }


def _matrix(found: Matrix) -> dict[str, Any]:
    refusals = list(
        dict.fromkeys(entry.refused for entry in found.entries.values() if entry.refused)
    )
    return {
        "measure": found.measure,
        "name": MEASURES[found.measure],
        "told": found.told,
        "family": found.family,
        "decimals": found.decimals,
        "refusals": refusals,
        "entries": {
            f"{m}.{c}": _entry(found, entry, refusals) for (m, c), entry in found.entries.items()
        },
    }


def _entry(found: Matrix, entry: Entry, refusals: list[str]) -> dict[str, Any]:
    """What has no value is left out, for there may be thousands of them."""
    told: dict[str, Any] = {"n": entry.n, "mean": _finite(entry.mean), "sd": _finite(entry.sd)}
    if not math.isnan(entry.interval[0]):
        told["interval"] = [_finite(end) for end in entry.interval]
    if entry.test is not None:
        told |= {"test": _test(entry.test), "corrected": _finite(entry.corrected)}
    if entry.over_data is not None:
        told |= {
            "over_data": _test(entry.over_data),
            "corrected_data": _finite(entry.corrected_data),
        }
    if entry.refused:
        told["refused"] = refusals.index(entry.refused)
    more = {"best": entry.best, "mark": entry.mark, "odd": found.odd(entry)}
    return {**told, **{name: each for name, each in more.items() if each}}


def _test(test: PairedT) -> dict[str, Any]:
    numbers = {"difference": test.difference, "t": test.t, "p": test.p, "effect": test.effect}
    told: dict[str, Any] = {name: _finite(each) for name, each in numbers.items()}
    return {"n": test.n, **told, "interval": [_finite(end) for end in test.interval]}


def _block(block: Block) -> dict[str, Any]:
    rows = [[_told_of(cell) for cell in row] for row in block.rows]
    more = {
        name: each for name, each in (("chapter", block.chapter), ("folded", block.folded)) if each
    }
    return {"title": block.title, "text": block.text, "rows": rows, **more}


def _told_of(cell: str | Cell) -> str | dict[str, Any]:
    return (
        cell
        if isinstance(cell, str)
        else {name: each for name, each in vars(cell).items() if each}
    )


def _glance(study: Study, matrices: list[Matrix]) -> dict[str, Any]:
    runs = study.runs
    seconds = math.fsum(float(run.final["seconds"]) for run in runs)
    interactions = sum(int(run.final["interactions"]) for run in runs)
    sizes = sorted(Counter(len(cell) for cell in study.cells.values()))
    return {
        "runs": len(runs),
        "counted": counted(runs),
        "methods": len(study.methods),
        "conditions": len(study.conditions),
        "per_cell": [sizes[0], sizes[-1]],
        "empty_cells": len(study.methods) * len(study.conditions) - len(study.cells),
        "interactions": interactions,
        "seconds": round(seconds, 3),
        "best": [_best(study, found) for found in matrices if found.measure in HEADLINES],
    }


def _best(study: Study, found: Matrix) -> dict[str, Any]:
    """The method with the highest mean of each condition; of several equal ones all."""
    rows = []
    for c in range(len(study.conditions)):
        best = [
            m
            for m in range(len(study.methods))
            if (entry := found.entries.get((m, c))) and entry.best
        ]
        if best:
            first = found.entries[best[0], c]
            rows.append({"condition": c, "methods": best, **_entry(found, first, [first.refused])})
    return {
        "measure": found.measure,
        "name": MEASURES[found.measure],
        "decimals": found.decimals,
        "rows": rows,
    }


def _downloads(runs: Runs, matrices: list[Matrix]) -> dict[str, str]:
    """File name -> content."""
    found = {"runs.csv": runs.table.csv()}
    if matrices:
        found["matrices.csv"] = tables.csv(*matrices)
        found["tables.tex"] = tables.latex(*matrices)
    return found


def _finite(number: float | None) -> float | str | None:
    """A number as JSON can hold it, to twelve digits: what is shown of it, five or fewer, is
    rounded where it is shown. NaN becomes None."""
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return float(f"{number:.12g}")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) or value is None else repr(value)
