"""Checks of an experiment together with its data, before it runs, and notes for readers of its
results."""

from __future__ import annotations

import numpy as np

from foltr.compatibility import remarks
from foltr.errors import require
from foltr.experiment import Experiment
from foltr.guards import check_initial, check_notes
from foltr.runs.setup import population_of
from foltr.seeds import stream
from foltr.world.dataset import Dataset
from foltr.world.population import Population


def validation_of(e: Experiment, train: Dataset) -> Dataset | None:
    """The validation queries, if the experiment uses them; raises if the data has none."""
    if e.evaluate_on is None:
        return None
    name = type(e.data).__name__
    there = f"{name} has no validation queries (vali), only {', '.join(e.data.splits)}"
    require("vali" in e.data.splits, f"evaluate_on='validation': {there}: leave evaluate_on out")
    found: Dataset = e.data.load("vali")
    check_splits(train, found, name, "validation")
    relevant = f"patience={e.patience}: no validation query of {name} has a relevant document"
    require(e.patience is None or bool(found.labels.any()), f"{relevant}: leave patience out")
    return found


def checked_population(e: Experiment, train: Dataset, test: Dataset) -> Population:
    """The clients, if the experiment can be run on this data. Every command that runs an
    experiment or states its guarantee asks here: what a run refuses, no command guarantees."""
    check_splits(train, test, type(e.data).__name__)
    first = e.ranker.init(train.width, stream(e.seed, "init"))
    check_initial(e.ranker, first, train.width)
    return population_of(e, train)


def check_splits(train: Dataset, test: Dataset, source: str, second: str = "test") -> None:
    """Kernels trust that both splits have the same features and grades, and labels that are such
    grades. `second` is the name of the second one."""
    shapes = f"features {train.width} and {test.width}, grades {train.grades} and {test.grades}"
    same = train.width == test.width and train.grades == test.grades
    require(same, f"{source}: train and {second} do not fit together: {shapes}")
    for name, data in (("train", train), (second, test)):
        low, high = int(data.labels.min()), int(data.labels.max())
        wrong = (
            f"{source}: labels of {name} reach from {low} to {high}, but grades are 0 .."
            f" {data.grades - 1}"
        )
        require(0 <= low and high < data.grades, wrong)


def notes_of(e: Experiment, train: Dataset, test: Dataset) -> tuple[str, ...]:
    """What a reader of the results should know."""
    notes, size = list(remarks(e)), float(np.abs(train.features[:2000]).max())
    if e.baseline is None:
        notes += check_notes(e.learner, e.learner.fits(e.optimizer))
    if size > 10.0:
        notes.append(
            f"features reach {size:.3g}: raw ones learn badly, most sources have normalize=True"
        )
    if train.content == test.content:
        notes.append("this source has no held-out queries: measured on the training queries")
    if not test.labels[0].any():
        notes.append("no held-out query has a relevant document: nDCG and MRR are undefined")
    if len(train.labels) > 1:
        notes.append(
            f"judged by each of {len(train.labels)} labellings; merged: relevant in any of them"
        )
    return tuple(notes)
