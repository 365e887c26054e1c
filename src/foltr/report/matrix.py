"""One measure of a study as a matrix of methods x conditions, each tested against the baseline.

Tests are paired: the runs of a method and of the baseline must stand for the same repetitions
(fold, seed, ...) of the same condition, measured in the same way. Where they do not, nothing is
tested, and the entry says why.

The test over runs takes repetitions for independent. Seeds are, given the data; runs of one fold
are not, for they share its test queries, and what a method gains there comes again with each seed.
p is then of these splits: of other queries it can be too small by orders of magnitude (on a real
study of 5 folds x 5 seeds the correlation of differences within folds was .82, and the standard
error 2.2 times the one that counts runs). A second test is therefore over the means of each fold:
its n is the number of folds (Nadeau & Bengio, Machine Learning 2003, on why even those are not
quite independent: their training queries overlap)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake, did_you_mean
from foltr.report.entries import BETTER, BETTER_HERE, WORSE, WORSE_HERE, Entry, Matrix
from foltr.report.measures import MEASURES, measured, value
from foltr.report.pairing import ALONE, in_order, on_equal_data, unlike
from foltr.report.statistics import PairedT, bonferroni, expanded_interval, mean_and_sd, paired_t
from foltr.report.study import Pair, Study
from foltr.report.captions import told
from foltr.results import Recorded

__all__ = ["MEASURES", "Entry", "Matrix", "matrix", "measured"]

Place = tuple[int, int]  # method, condition
Known = dict[Place, dict[Pair, float]]  # the values of each cell's runs
ALPHA = 0.05


def matrix(study: Study, measure: str, alpha: float = ALPHA) -> Matrix:
    """The means of a measure, and whether they differ from the baseline's."""
    if measure not in MEASURES:
        raise Mistake(f"no measure is called {measure!r}: {did_you_mean(measure, MEASURES)}")
    if not 0.0 < alpha < 1.0:
        raise Mistake(f"alpha must be in (0, 1), got {alpha}")
    known = {
        place: known_of(cell, partial(value, measure=measure))
        for place, cell in study.cells.items()
    }
    known = {place: values for place, values in sorted(known.items()) if values}
    if not known:
        raise Mistake(
            f"no run has a value of {measure!r}: choose one of"
            f" {', '.join(measured(study)) or 'none'}"
        )
    family = (len(study.methods) - 1) * len(study.conditions)
    entries = {place: entry_of(study, measure, known, place, family, alpha) for place in known}
    best = _best(study, measure, known, entries)
    entries = {place: replace(entry, best=place in best) for place, entry in entries.items()}
    pairs = {place: set(values) for place, values in known.items()}
    return Matrix(
        measure, study, alpha, family, entries, told(study, measure, entries, pairs, family, alpha)
    )


def known_of(
    cell: dict[Pair, Recorded], of: Callable[[Recorded], float | None]
) -> dict[Pair, float]:
    """The values of a cell's runs, in an order of their own; a run without one counts as
    missing."""
    numbers = {pair: of(cell[pair]) for pair in in_order(cell.keys())}
    return {pair: number for pair, number in numbers.items() if number is not None}


def entry_of(
    study: Study, measure: str, known: Known, place: Place, family: int, alpha: float
) -> Entry:
    """One cell, tested against the study's baseline."""
    method, condition = place
    own, base = known[place], known.get((study.baseline, condition), {})
    values = np.array(list(own.values()))
    mean, sd = mean_and_sd(values)
    entry = Entry(len(values), mean, sd, expanded_interval(values))
    if method == study.baseline:
        return entry
    if why := unlike(study, measure, place, study.baseline, set(own), set(base)):
        return replace(entry, refused=why, comparable=False)
    if len(own) < 2:
        return replace(entry, refused=ALONE)
    theirs = np.array([base[pair] for pair in own])
    test, over = (
        paired_t(values, theirs),
        _over_data(on_equal_data(study, list(own)), values - theirs),
    )
    corrected = bonferroni(test.p, family)
    again = bonferroni(over.p, family) if over else None
    entry = replace(entry, test=test, corrected=corrected, over_data=over, corrected_data=again)
    return replace(entry, mark=_mark(entry, alpha))


def _over_data(groups: list[list[int]], differences: Array) -> PairedT | None:
    """The paired t-test over the mean differences of each group; None where there are no
    groups."""
    if not groups:
        return None
    means = np.array([mean_and_sd(differences[group])[0] for group in groups])
    return paired_t(means, np.zeros(len(means)))


def _mark(entry: Entry, alpha: float) -> str:
    test, over = entry.test, entry.over_data
    if test is None or entry.corrected is None or entry.corrected >= alpha:
        return ""
    better = test.difference > 0.0
    if over is None or (
        (entry.corrected_data or 0.0) < alpha and (over.difference > 0.0) == better
    ):
        return BETTER if better else WORSE
    return BETTER_HERE if better else WORSE_HERE


def _best(study: Study, measure: str, known: Known, entries: dict[Place, Entry]) -> set[Place]:
    """The highest mean of each condition, among the methods whose runs match the baseline's (the
    first method's, where the baseline has none): a mean over other repetitions, or measured
    otherwise, is higher or lower for that alone."""
    best: set[Place] = set()
    for condition in range(len(study.conditions)):
        there = [place for place in known if place[1] == condition]
        if not there:
            continue
        first = (study.baseline, condition) if (study.baseline, condition) in known else there[0]
        base = set(known[first])
        rivals = [
            place
            for place in there
            if place == first
            or not unlike(study, measure, place, first[0], set(known[place]), base)
        ]
        highest = max(entries[place].mean for place in rivals)
        if len(rivals) > 1:
            best |= {place for place in rivals if entries[place].mean == highest}
    return best
