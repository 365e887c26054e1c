"""The measures that tables and curves show, and the value that a run has of each."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from foltr.core.errors import Mistake, did_you_mean, near
from foltr.core.metrics import EMPTY
from foltr.core.spec import opened
from foltr.core.world.measures import RunMeasure
from foltr.report.results import Recorded, Runs
from foltr.report.study import Study
from foltr.simulation.runs.columns import MEASURES, Column, Curve, late_or_sum, usual_columns

MAIN = "ndcg@10"  # the measure of the chapters, and of every file that shows one measure
HEADLINES = (MAIN, "online")  # the page shows the best mean of these first
# the usual curves in the order of the page; others follow
CURVES = (
    "ndcg@10",
    "validation_ndcg@10",
    "merged_ndcg@10",
    "online_ndcg@10",
    "mrr@10",
    "validation_mrr@10",
    "merged_mrr@10",
    "expected_maxrr",
    "validation_expected_maxrr",
    "maxrr",
    "online",
)


def column(runs: Runs, name: str) -> Column:
    """A column of a study by its name; raises a Mistake if there is no such column."""
    known = runs.columns
    if name not in known:
        if name in (unknown := unknown_measures(runs)):
            component = opened(unknown[name]).name
            raise Mistake(f"{name} is {unknown[name]}: load the file of {component} with --use")
        there = [each for each in known if any(value(run, each) is not None for run in runs)]
        nearest = did_you_mean(name, known if near(name, known) else there or known)
        raise Mistake(
            f"no measure is called {name!r}: {nearest}{'' if nearest.endswith('?') else '.'}"
            " `foltr sweep --measures` records others, also of finished runs"
        )
    return known[name]


def unknown_measures(runs: Runs) -> dict[str, str]:
    """The measures of runs whose components are not loaded here: names and specs."""
    asked = {name: spec for run in runs for name, spec in run.final.get(MEASURES, {}).items()}
    return {name: str(spec) for name, spec in asked.items() if name not in runs.columns}


def curve_names(runs: Runs) -> list[str]:
    """The measures that may have a learning curve, in the order of the page."""
    more = [name for name in runs.columns if name not in usual_columns()]
    return [*CURVES, *more]


def measured(study: Study) -> list[str]:
    """The measures of which any run of a study has a value."""
    return [
        name
        for name in study.runs.columns
        if any(value(run, name) is not None for run in study.runs)
    ]


def value(run: Recorded, measure: str) -> float | None:
    """A run's value of a measure, or None.

    A measure of every round varies much from round to round. Its value is the mean over the last
    5 % of rounds (at least one round), as far as they are known; or the sum, if it adds up."""
    found = run.columns.get(measure)
    if found is None:
        return None
    if found.measure.kind == "run":
        try:
            return finite(cast(RunMeasure, found.measure).of_run(run))
        except Mistake:  # a curve that it does not have
            return None
    if found.measure.kind == "offline" or measure not in run.final:
        return finite(run.final.get(measure))
    rounds = np.array(run.metrics.online.get(measure, []))
    return finite(late_or_sum(found.measure, rounds))


def run_curve(run: Recorded, measure: str) -> Curve:
    """The curve of one run; a measure that adds up as its sum so far. Raises a Mistake if it has
    none."""
    found = run.columns.get(measure)
    if found is not None and found.measure.kind == "run":
        made = cast(RunMeasure, found.measure).curve_of(run)
        if made is None:
            raise Mistake(f"{measure} is a number of a whole run: it has no curve")
        return Curve(*made)
    rounds, values = run.curve(measure)
    if found is not None and found.measure.curve == "summed":
        values = np.cumsum(values)
    return Curve(rounds, values)


def has_curve(run: Recorded, measure: str) -> bool:
    """Whether a run has a curve of a measure. A baseline has no online curves."""
    found = run.columns.get(measure)
    if found is None or found.measure.kind != "run":
        known = run.metrics.online.get(measure, run.metrics.offline.get(measure, ()))
        return len(known) > 0
    try:
        return len(run_curve(run, measure).rounds) > 0
    except Mistake:
        return False


def is_smoothed(runs: Runs, measure: str) -> bool:
    """Whether a measure varies much from round to round, so that its curve is averaged."""
    found = runs.columns.get(measure)
    return found is not None and found.measure.curve == "smoothed"


def empty_rule(run: Recorded) -> str:
    """How queries without a relevant document count: "are skipped"."""
    empty = run.final.get("empty")
    return EMPTY.get(str(empty), f"count by the rule {empty!r}")


def finite(value: object) -> float | None:
    """A finite number as a float, anything else as None. Values come from JSON files, which may
    hold NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None
