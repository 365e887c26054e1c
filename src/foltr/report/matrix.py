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
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from foltr.core.errors import Mistake
from foltr.core.system.tables import decimals_of
from foltr.report.measures import column, measured, value
from foltr.report.results import Recorded
from foltr.report.statistics import PairedT, bonferroni, expanded_interval, mean_and_sd, paired_t
from foltr.report.study import Pair, Place, Study

CellValues = dict[Pair, float]  # of the runs of a cell
Values = dict[Place, CellValues]
ALPHA = 0.05
NOT_PAIRED = "not paired"  # how the reason of a refused test begins
NOT_ALIKE = "not measured alike"
ONE_PAIR = "one pair only"
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
    column(study.runs, measure)  # raises a Mistake if there is none
    if not 0.0 < alpha < 1.0:
        raise Mistake(f"alpha must be in (0, 1), got {alpha}")
    cells = MeasuredCells(study, measure, cell_values(study, sorted(study.cells), measure))
    if not cells.values:
        raise Mistake(
            f"no run has a value of {measure!r}: choose one of"
            f" {', '.join(measured(study)) or 'none'}"
        )
    family = (len(study.methods) - 1) * len(study.conditions)
    entries = {place: cells.entry(place, study.baseline, family, alpha) for place in cells.values}
    for place in cells.best(entries):
        entries[place] = replace(entries[place], best=True)
    return Matrix(measure, study, alpha, family, entries, cells.values)


def cell_values(
    study: Study,
    places: Sequence[Place],
    measure: str,
    of: Callable[[Recorded, str], float | None] = value,
) -> Values:
    """The values of the runs of some cells, in the order of their pairs. A run without a value is
    left out, and a cell without any."""
    found: Values = {}
    for place in places:
        cell = study.cells[place]
        numbers = {pair: of(cell[pair], measure) for pair in in_order(cell.keys())}
        if known := {pair: number for pair, number in numbers.items() if number is not None}:
            found[place] = known
    return found


@dataclass(frozen=True, eq=False)
class MeasuredCells:
    """The values of one measure of a study, and their comparison."""

    study: Study
    measure: str
    values: Values

    def entry(self, place: Place, reference: int, family: int, alpha: float = ALPHA) -> Entry:
        """One cell, tested against the method `reference` in the same condition."""
        own, base = self.values[place], self.values.get((reference, place[1]), {})
        ours = np.array(list(own.values()))
        mean, sd = mean_and_sd(ours)
        entry = Entry(len(ours), mean, sd, expanded_interval(ours))
        if place[0] == reference:
            return entry
        if why := self.why_not_comparable(place, reference):
            return replace(entry, refused=why, comparable=False)
        if len(own) < 2:
            return replace(entry, refused=f"{ONE_PAIR}: a t-test needs two or more")
        theirs = np.array([base[pair] for pair in own])
        test, over_data = paired_t(ours, theirs), None
        if groups := on_equal_data(self.study, list(own)):
            means = np.array([mean_and_sd((ours - theirs)[group])[0] for group in groups])
            over_data = paired_t(means, np.zeros(len(means)))
        entry = replace(
            entry,
            test=test,
            corrected=bonferroni(test.p, family),
            over_data=over_data,
            corrected_data=bonferroni(over_data.p, family) if over_data else None,
        )
        return replace(entry, mark=_mark(entry, alpha, self.higher_is_better))

    @property
    def higher_is_better(self) -> bool:
        return column(self.study.runs, self.measure).measure.higher_is_better

    def why_not_comparable(self, place: Place, reference: int) -> str:
        """Why the mean of a method cannot be compared with that of the method `reference` in the
        same condition; "" if it can.

        Means are comparable over equal pairs that were measured in the same way."""
        method, condition = place
        ours, theirs = self.study.cell(method, condition), self.study.cell(reference, condition)
        own = self.values[place].keys()
        base = self.values.get((reference, condition), {}).keys()
        if not base:
            what = "value" if theirs else "run"
            return f"{NOT_PAIRED}: the baseline has no {what} in this condition"
        name = self.study.methods[method].label
        missing = [
            *self._missing("the baseline", own - base, theirs),
            *self._missing(name, base - own, ours),
        ]
        if missing:
            return f"{NOT_PAIRED}: {'; '.join(missing)}"
        for pair in in_order(own):
            if difference := _measured_differently(self.measure, ours[pair], theirs[pair]):
                return f"{NOT_ALIKE}: {difference} ({_pair_names(self.study, {pair})})"
        return ""

    def _missing(self, who: str, pairs: Set[Pair], cell: dict[Pair, Recorded]) -> Iterator[str]:
        """Which of the pairs have no run, and which have a run without a value."""
        if absent := pairs - cell.keys():
            yield f"{who} lacks {_pair_names(self.study, absent)}"
        if undefined := pairs & cell.keys():
            yield f"{who} has no value for {_pair_names(self.study, undefined)}"

    def best(self, entries: dict[Place, Entry]) -> Iterator[Place]:
        """The best mean of each condition, among the methods whose runs match the baseline's (the
        first method's, where the baseline has none).

        A mean over other repetitions, or measured in another way, may be better for that alone."""
        for condition in range(len(self.study.conditions)):
            there = [place for place in self.values if place[1] == condition]
            if not there:
                continue
            base = (self.study.baseline, condition)
            first = base if base in self.values else there[0]
            means = {
                place: entries[place].mean
                for place in there
                if place == first or not self.why_not_comparable(place, first[0])
            }
            winner = max(means.values()) if self.higher_is_better else min(means.values())
            if len(means) > 1:
                yield from (place for place, mean in means.items() if mean == winner)


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


def on_equal_data(study: Study, pairs: Sequence[Pair]) -> list[list[int]]:
    """The positions of the pairs on equal data (one fold, several seeds), group by group.

    Empty where all pairs are on the same data, or each pair has its own data."""
    groups: dict[Pair, list[int]] = {}
    for i, pair in enumerate(pairs):
        on = tuple(each for name, each in zip(study.pairs, pair, strict=True) if is_data(name))
        groups.setdefault(on, []).append(i)
    return list(groups.values()) if 1 < len(groups) < len(pairs) else []


def is_data(name: str) -> bool:
    """Whether a pair field is a field of the data."""
    return name == "data" or name.startswith("data.")


def _measured_differently(measure: str, run: Recorded, base: Recorded) -> str:
    """The first way in which two runs were measured differently. A way that either run did not
    record is ignored."""
    ways = [
        ("queries without a relevant document: {!r}, the baseline {!r}", "final", "empty"),
        ("on {} held-out queries, the baseline on {}", "final", "queries"),
        ("on data of other content than the baseline", "environment", "data"),
        ("by a foltr of results {}, the baseline by one of results {}", "environment", "results"),
    ]
    column = run.columns.get(measure)
    if column is not None and column.measure.curve == "summed":
        ways.append(("a sum over {} rounds, the baseline's over {}", "final", "rounds"))
    for text, table, name in ways:
        ours, theirs = getattr(run, table).get(name), getattr(base, table).get(name)
        if ours is not None and theirs is not None and ours != theirs:
            return text.format(ours, theirs)
    return ""


def _pair_names(study: Study, pairs: Set[Pair]) -> str:
    """ "data.fold=3, seed=2 (and 4 more)" """
    first = in_order(pairs)[0]
    values = dict(zip(study.pairs, first, strict=True))
    has = [name for name in study.paired_by if values[name] is not None]  # some data have no folds
    text = ", ".join(f"{name}={values[name]!r}" for name in has) or "the only run"
    return text + (f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else "")


def in_order(pairs: Set[Pair]) -> list[Pair]:
    """Numbers by size, then everything else as text."""

    def order(value: Any) -> tuple[int, float, str]:
        return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, repr(value))

    return sorted(pairs, key=lambda pair: [order(value) for value in pair])
