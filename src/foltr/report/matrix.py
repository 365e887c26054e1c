"""One measure of a study as a matrix of methods x conditions, each tested against the baseline.

Tests are paired: the runs of a method and of the baseline must stand for the same repetitions (fold, seed, ...) of the
same condition, measured in the same way. Where they do not, nothing is tested, and the entry says why. The repetitions
count as independent, which seeds are and folds (whose training queries overlap) are not quite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from foltr.errors import Mistake, did_you_mean
from foltr.report.pairing import in_order, mismatch
from foltr.report.statistics import PairedT, bonferroni, bootstrap_interval, mean_and_sd, paired_t
from foltr.report.study import Pair, Study
from foltr.results import Recorded

MEASURES = {  # higher is better in each
    "ndcg@10": "offline nDCG@10",
    "mrr@10": "offline MRR@10",
    "expected_maxrr": "offline expected MaxRR",
    "online": "online performance (discounted sum of nDCG@10)",
    "online_ndcg@10": "online nDCG@10 in the last round",
    "maxrr": "online MaxRR in the last round",
}
BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True)
class Entry:
    """One method under one condition, over the runs that have a value."""

    n: int
    mean: float
    sd: float  # with n - 1; NaN when n = 1
    interval: tuple[float, float]  # 95 %, percentile bootstrap of the mean; NaN when n = 1
    test: PairedT | None = None  # against the baseline's entry of the same condition
    corrected: float | None = None  # min(1, p x family)
    refused: str = ""  # why it was not tested although it should be
    best: bool = False  # highest mean of its condition
    mark: str = ""  # ▲ significantly better than the baseline, ▼ worse


@dataclass(frozen=True)
class Matrix:
    measure: str
    study: Study
    alpha: float
    family: int
    entries: dict[tuple[int, int], Entry]  # (method, condition); one without any value is absent
    told: str  # the test, what is paired, the baseline, the family and the correction

    @cached_property
    def decimals(self) -> int:
        """How many a table shows: three, as is usual for measures up to 1; fewer for large means, more for tiny."""
        largest = max(abs(entry.mean) for entry in self.entries.values())
        exponent = math.floor(math.log10(largest)) if largest > 0.0 else 0
        return max(0, 3 - exponent) if exponent >= 0 else min(3 - exponent - 1, 9)


def measured(study: Study) -> list[str]:
    """The measures that any run of a study has a value of."""
    return [name for name in MEASURES if any(_number(run.final.get(name)) is not None for run in study.runs)]


def matrix(study: Study, measure: str, alpha: float = 0.05) -> Matrix:
    """The means of a measure, and whether they differ from the baseline's."""
    if measure not in MEASURES:
        raise Mistake(f"no measure is called {measure!r}: {did_you_mean(measure, MEASURES)}")
    if not 0.0 < alpha < 1.0:
        raise Mistake(f"alpha must be in (0, 1), got {alpha}")
    known = {place: _known(cell, measure) for place, cell in study.cells.items()}
    known = {place: values for place, values in known.items() if values}
    if not known:
        raise Mistake(f"no run has a value of {measure!r}: choose one of {', '.join(measured(study)) or 'none'}")
    family = (len(study.methods) - 1) * len(study.conditions)
    entries = {place: _entry(study, measure, known, place, family, alpha) for place in sorted(known)}
    entries = _with_best(entries)
    return Matrix(measure, study, alpha, family, entries, _told(study, entries, family, alpha))


def _known(cell: dict[Pair, Recorded], measure: str) -> dict[Pair, float]:
    """The values of a cell's runs, in an order of their own; a run without one counts as missing."""
    numbers = {pair: _number(cell[pair].final.get(measure)) for pair in in_order(cell.keys())}
    return {pair: number for pair, number in numbers.items() if number is not None}


def _number(value: Any) -> float | None:
    """A finite number, or None. JSON readers also take NaN."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _entry(study: Study, measure: str, known: dict[tuple[int, int], dict[Pair, float]], place: tuple[int, int],
           family: int, alpha: float) -> Entry:  # fmt: skip
    method, condition = place
    values = np.array(list(known[place].values()))
    mean, sd = mean_and_sd(values)
    unknown = (math.nan, math.nan)
    entry = Entry(len(values), mean, sd, bootstrap_interval(values) if len(values) > 1 else unknown)
    if method == study.baseline:
        return entry
    base = known.get((study.baseline, condition), {})
    if why := mismatch(study, measure, place, set(known[place]), set(base)):
        return replace(entry, refused=why)
    test = paired_t(values, np.array([base[pair] for pair in known[place]]))
    corrected = bonferroni(test.p, family)
    mark = "" if corrected >= alpha else BETTER if test.difference > 0.0 else WORSE
    return replace(entry, test=test, corrected=corrected, mark=mark)


def _with_best(entries: dict[tuple[int, int], Entry]) -> dict[tuple[int, int], Entry]:
    highest: dict[int, float] = {}
    for (_, condition), entry in entries.items():
        highest[condition] = max(entry.mean, highest.get(condition, -math.inf))
    return {place: replace(entry, best=entry.mean == highest[place[1]]) for place, entry in entries.items()}


def _told(study: Study, entries: dict[tuple[int, int], Entry], family: int, alpha: float) -> str:
    over, sizes = " and ".join(study.paired_by), _range(entry.n for entry in entries.values())
    spread = f"Mean and standard deviation over {sizes} runs that differ in {over}." if over else "One run per cell."
    if family == 0:
        return f"{spread} Nothing is tested: there is one method."
    methods, conditions = _count(len(study.methods) - 1, "method"), _count(len(study.conditions), "condition")
    asked = f"{_count(family, 'comparison')} ({methods} x {conditions}, this measure)"
    baseline = study.methods[study.baseline].label
    tests = [entry.test for entry in entries.values() if entry.test]
    if not tests:
        return f"{spread} Nothing is tested: of {asked} with the baseline ({baseline}) none could be paired."
    left = f", of which {family - len(tests)} could not be made" if len(tests) < family else ""
    return (
        f"{spread} Two-tailed paired t-tests against the baseline ({baseline}) over {_range(test.n for test in tests)} "
        f"pairs of runs with equal {over}; Bonferroni-corrected for a family of {asked}{left}; "
        f"significant where corrected p < {alpha:g}."
    )


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def refusals(matrix: Matrix) -> list[str]:
    """What could not be tested, and why."""
    methods, conditions = matrix.study.methods, matrix.study.conditions
    refused = {place: entry.refused for place, entry in matrix.entries.items() if entry.refused}
    return [f"{methods[i].label}, {conditions[j].label}: {why}" for (i, j), why in refused.items()]


def heading(matrix: Matrix) -> str:
    """What a table of it is called."""
    title, name = matrix.study.runs.title, MEASURES[matrix.measure]
    return f"{title}: {name}" if title else name[0].upper() + name[1:]
