"""One measure of a study as a matrix of methods and conditions, each tested against the baseline.

Tests are paired: the runs of a method and of the baseline must be of the same repetitions (fold,
seed, ...) of the same condition, and measured in the same way. Where they are not, nothing is
tested, and the entry says why.

The test over runs treats repetitions as independent. Given the data, seeds are independent. Runs
of one fold are not, because they share its test queries: what a method gains on these queries, it
gains with each seed. The p of this test is therefore a statement about these splits. As a
statement about other queries it can be too small by orders of magnitude. (In a study of 5 folds x
5 seeds the differences within a fold correlated by .82. The standard error was 2.2 times the one
that treats runs as independent.) A second test is therefore over the means of each fold: its n is
the number of folds. Even folds are not quite independent, because their training queries overlap
(Nadeau & Bengio, Machine Learning 2003)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.system.tables import decimals_of
from foltr.report.measures import column, measured, value
from foltr.report.results import Recorded
from foltr.report.statistics import (
    ONE_PAIR,
    PairedT,
    bonferroni,
    expanded_interval,
    in_order,
    mean_and_sd,
    on_equal_data,
    paired_t,
    why_not_comparable,
)
from foltr.report.study import Pair, Place, Study

CellValues = dict[Pair, float]  # of the runs of a cell
Values = dict[Place, CellValues]
ALPHA = 0.05
BETTER, WORSE = "▲", "▼"  # by every test that was made
BETTER_HERE, WORSE_HERE = "△", "▽"  # by the test over runs, but not by the test over data
MARK_MEANING = {
    BETTER: "significantly better",
    WORSE: "significantly worse",
    BETTER_HERE: "significantly better over runs, but not over data splits",
    WORSE_HERE: "significantly worse over runs, but not over data splits",
}


@dataclass(frozen=True)
class Entry:
    """One method in one condition, over the runs that have a value."""

    n: int
    mean: float
    sd: float  # with n - 1; NaN when n = 1
    # 95 % expanded percentile bootstrap interval of the mean over runs; NaN when n < 5
    interval: tuple[float, float]
    test: PairedT | None = None  # over runs, against the baseline in the same condition
    corrected: float | None = None  # min(1, p x family)
    # the same test over the means of runs on equal data, where several runs share their data
    over_data: PairedT | None = None
    corrected_data: float | None = None
    refused: str = ""  # why there is no test
    comparable: bool = True  # whether the difference from the baseline means anything
    best: bool = False  # best mean of its condition, among two or more comparable ones
    mark: str = ""  # see MARK_MEANING


@dataclass(frozen=True)
class Matrix:
    measure: str
    study: Study
    alpha: float
    family: int  # comparisons with the baseline
    entries: dict[Place, Entry]  # a cell without any value is absent
    values: Values  # of the runs of each entry

    @cached_property
    def decimals(self) -> int:
        """How many decimals a table shows."""
        return decimals_of(entry.mean for entry in self.entries.values())

    @cached_property
    def usual_n(self) -> int:
        """The number of runs that most entries have; the larger one of equally frequent
        numbers."""
        counts = Counter(entry.n for entry in self.entries.values())
        return max(counts, key=lambda n: (counts[n], n))

    def unusual_n(self, entry: Entry) -> str:
        """ "n=4" where that is not the usual number of runs"""
        return "" if entry.n == self.usual_n else f"n={entry.n}"


def matrix(study: Study, measure: str, alpha: float = ALPHA) -> Matrix:
    """The means of a measure, and whether they differ from the baseline's."""
    higher_is_better = column(study.runs, measure).measure.higher_is_better
    if not 0.0 < alpha < 1.0:
        raise Mistake(f"alpha must be in (0, 1), got {alpha}")
    values = {
        place: cell_values(cell, partial(value, measure=measure))
        for place, cell in study.cells.items()
    }
    values = {place: known for place, known in sorted(values.items()) if known}
    if not values:
        raise Mistake(
            f"no run has a value of {measure!r}: choose one of"
            f" {', '.join(measured(study)) or 'none'}"
        )
    family = (len(study.methods) - 1) * len(study.conditions)
    entries = {
        place: tested_entry(study, measure, values, place, family, alpha) for place in values
    }
    best = _best(study, measure, values, entries, higher_is_better)
    entries = {place: replace(entry, best=place in best) for place, entry in entries.items()}
    return Matrix(measure, study, alpha, family, entries, values)


def cell_values(cell: dict[Pair, Recorded], of: Callable[[Recorded], float | None]) -> CellValues:
    """The values of a cell's runs, in the order of their pairs. A run without a value is left
    out."""
    numbers = {pair: of(cell[pair]) for pair in in_order(cell.keys())}
    return {pair: number for pair, number in numbers.items() if number is not None}


def tested_entry(
    study: Study, measure: str, values: Values, place: Place, family: int, alpha: float
) -> Entry:
    """One cell, tested against the study's baseline."""
    method, condition = place
    own, base = values[place], values.get((study.baseline, condition), {})
    ours = np.array(list(own.values()))
    mean, sd = mean_and_sd(ours)
    entry = Entry(len(ours), mean, sd, expanded_interval(ours))
    if method == study.baseline:
        return entry
    if why := why_not_comparable(study, measure, place, study.baseline, set(own), set(base)):
        return replace(entry, refused=why, comparable=False)
    if len(own) < 2:
        return replace(entry, refused=f"{ONE_PAIR}: a t-test needs two or more")
    theirs = np.array([base[pair] for pair in own])
    test = paired_t(ours, theirs)
    over_data = _test_over_data(on_equal_data(study, list(own)), ours - theirs)
    entry = replace(
        entry,
        test=test,
        corrected=bonferroni(test.p, family),
        over_data=over_data,
        corrected_data=bonferroni(over_data.p, family) if over_data else None,
    )
    higher_is_better = column(study.runs, measure).measure.higher_is_better
    return replace(entry, mark=_mark(entry, alpha, higher_is_better))


def _test_over_data(groups: list[list[int]], differences: Array) -> PairedT | None:
    """The paired t-test over the mean difference of each group; None where there are no
    groups."""
    if not groups:
        return None
    means = np.array([mean_and_sd(differences[group])[0] for group in groups])
    return paired_t(means, np.zeros(len(means)))


def _mark(entry: Entry, alpha: float, higher_is_better: bool) -> str:
    test, over_data = entry.test, entry.over_data
    if test is None or entry.corrected is None or entry.corrected >= alpha:
        return ""
    higher = test.difference > 0.0
    better = higher == higher_is_better
    if over_data is None or (
        (entry.corrected_data or 0.0) < alpha and (over_data.difference > 0.0) == higher
    ):
        return BETTER if better else WORSE
    return BETTER_HERE if better else WORSE_HERE


def _best(
    study: Study, measure: str, values: Values, entries: dict[Place, Entry], higher_is_better: bool
) -> set[Place]:
    """The best mean of each condition, among the methods whose runs match the baseline's (the
    first method's, where the baseline has none).

    A mean over other repetitions, or measured in another way, may be better for that alone."""
    best: set[Place] = set()
    for condition in range(len(study.conditions)):
        there = [place for place in values if place[1] == condition]
        if not there:
            continue
        first = (study.baseline, condition) if (study.baseline, condition) in values else there[0]
        base = set(values[first])
        rivals = [
            place
            for place in there
            if place == first
            or not why_not_comparable(study, measure, place, first[0], set(values[place]), base)
        ]
        means = [entries[place].mean for place in rivals]
        winner = max(means) if higher_is_better else min(means)
        if len(rivals) > 1:
            best |= {place for place in rivals if entries[place].mean == winner}
    return best
