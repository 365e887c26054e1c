"""Unlearning on the page: how far rankers that forgot clients are from those that never knew them,
and at what cost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foltr.cohorts import cosine
from foltr.core import Array
from foltr.report.chapters.reference_comparison import Against, tested
from foltr.report.chapters.blocks import Block, Cell, Entry, a_few_at_a_time, block
from foltr.report.chapters.unlearning_references import RETRAINED, Leavers
from foltr.report.number_format import NONE
from foltr.report.study import unnamed
from foltr.results import Recorded, Runs
from foltr.runs.folder import UNREADABLE, Folder
from foltr.system.files import text_of

CHAPTER = "Unlearning"
COSTS = {  # of result.json -> column
    "local_steps": "local steps",
    "messages": "messages",
    "bytes": "bytes sent",
}


@block
def unlearning(runs: Runs) -> list[Block] | None:
    """Effectiveness in each condition, then what is left of those who left and what it took."""
    chosen = [run for run in runs if "baseline" not in run.config]
    if not any("unlearning" in run.config for run in chosen):
        return None
    found = Leavers(unnamed(runs, chosen))
    return [*_effects(found), *_traces(found), *_costs(found)]


def _effects(found: Leavers) -> Iterator[Block]:
    study = found.study
    retrained, before = (
        Against(study, "ndcg@10", references) for references in (found.retrained, found.before)
    )
    everything = Against(study, "ndcg@10", {place: place[0] for place in study.cells})
    text = (
        "Final nDCG@10; its difference from training again without those who leave (the nearer to"
        " 0, the better they are forgotten), and from before they left."
        f" {tested([retrained, before])}"
    )
    count = len(study.conditions)
    for part, conditions in a_few_at_a_time(range(count)):
        heads, rows = [], []
        for c in conditions:
            name = f"{study.conditions[c].label}: " if count > 1 else ""
            heads += [f"{name}nDCG@10", "against retraining", "against before"]
        for method, label in found.rows.items():
            cells: list[Entry] = []
            for c in conditions:
                place = method, c
                cells += [
                    everything.value(place),
                    retrained.difference(place),
                    before.difference(place),
                ]
            if any(cell != NONE for cell in cells):
                rows.append((label, *cells))
        yield Block(
            f"What is learned without those who leave{part}",
            text,
            (("method", *heads), *rows),
            CHAPTER,
        )


def _traces(found: Leavers) -> Iterator[Block]:
    """Where parameters lie beside retrained ones, and how the ranker serves those who left."""
    labels, numbers = [], []
    for method, label in found.rows.items():
        runs = _runs(found, method)
        own = [
            _mean([_number(run.final, "unlearning", "own", when) for run in runs])
            for when in ("before", "after")
        ]
        influence = _mean([_number(_beside(run.path), "influence", "left") for run in runs])
        labels.append(label)
        numbers.append((*_distances(found, method), *own, influence))
    heads = (
        "L2 to retrained",
        "cosine to retrained",
        "their nDCG@10 before",
        "their nDCG@10 after",
        "influence left",
    )
    columns = [i for i in range(len(heads)) if any(row[i] is not None for row in numbers)]
    cells = [
        [NONE if each is None else f"{each:.3f}" for each in (row[i] for i in columns)]
        for row in numbers
    ]
    shown = [
        (label, *row)
        for label, row in zip(labels, cells, strict=True)
        if any(cell != NONE for cell in row)
    ]
    if shown:
        text = (
            "Means over all runs. Distances are between final parameters of runs with equal"
            " repetitions. Their nDCG@10: on the training queries of those who leave, as they"
            " judge them. Influence left: 1 before, 0 retrained."
        )
        yield Block(
            "What is left of those who leave",
            text,
            (("method", *(heads[i] for i in columns)), *shown),
            CHAPTER,
        )


def _costs(found: Leavers) -> Iterator[Block]:
    rows: list[tuple[Entry, ...]] = []
    for method, label in found.rows.items():
        runs = _runs(found, method)
        cells = [_cost(runs, name) for name in COSTS]
        device, all_of_them = (
            _mean([_number(run.final, "unlearning", "storage", of) for run in runs])
            for of in ("per_device", "in_all")
        )
        cells += [NONE if each is None else f"{each:,.0f} bytes" for each in (device, all_of_them)]
        if found.kind(method) >= RETRAINED and any(cell != NONE for cell in cells):
            rows.append((label, *cells))
    if rows:
        heads = ("method", *COSTS.values(), "stored on a device", "stored on all")
        text = "Means over all runs; in brackets how many times fewer than retraining takes."
        yield Block("What unlearning takes", text, (heads, *rows), CHAPTER)


def _cost(runs: list[Recorded], name: str) -> Entry:
    made = _mean([_number(run.final, "unlearning", name, "made") for run in runs])
    if made is None:
        return NONE
    fewer = _mean([_number(run.final, "unlearning", name, "times_fewer") for run in runs])
    return Cell(f"{made:,.0f}", "" if fewer is None else f"({fewer:,.1f} times)")


# ---- numbers


def _runs(found: Leavers, method: int) -> list[Recorded]:
    return [
        run
        for (its, _), cell in found.study.cells.items()
        if its == method
        for run in cell.values()
    ]


def _distances(found: Leavers, method: int) -> tuple[float | None, float | None]:
    """L2 and cosine between the parameters of runs and of their retrained ones, means."""
    apart, angles = [], []
    for (its, c), other in found.retrained.items():
        retrained = found.study.cell(other, c)
        for pair, run in found.study.cell(its, c).items() if its == method else ():
            ours, theirs = (
                _params(run.path),
                _params(retrained[pair].path) if pair in retrained else None,
            )
            if ours is not None and theirs is not None and ours.shape == theirs.shape:
                apart.append(float(np.sqrt(np.square(ours - theirs).sum())))
                angles.append(cosine(ours, theirs))
    return _mean(apart), _mean(angles)


def _params(folder: Path) -> Array | None:
    """A run's final parameters, where its folder is still there."""
    try:
        found = Folder(folder).params()
    except (*UNREADABLE, MemoryError):
        return None
    return found.astype(np.float64) if found.dtype.kind == "f" else None


def _beside(folder: Path) -> dict[str, Any]:
    """What `foltr unlearn` said of a run."""
    try:
        found = json.loads(text_of(folder / "unlearning.json"))
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _number(told: Any, *names: str) -> float | None:
    """A number inside tables that may lack it."""
    for name in names:
        told = told.get(name) if isinstance(told, dict) else None
    good = isinstance(told, int | float) and not isinstance(told, bool) and math.isfinite(told)
    return float(told) if good else None


def _mean(values: list[float] | list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
