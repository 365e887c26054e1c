"""What a reader of a matrix must know, in sentences: the heading of its table, what was averaged
and tested, on which data, what is missing, and what the marks mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from foltr.core.system.tables import count
from foltr.report.matrix import (
    BETTER,
    BETTER_HERE,
    NOT_ALIKE,
    NOT_PAIRED,
    ONE_PAIR,
    WORSE,
    WORSE_HERE,
    Entry,
    Matrix,
    is_data,
)
from foltr.report.measures import column, empty_rule
from foltr.report.provenance import data_name, data_source, mixed_code
from foltr.report.study import Pair, Study

NAMED = 3  # more conditions or data sets than that are counted, not named
REASONS = {  # how the reason of a refused test begins -> what a caption says
    NOT_PAIRED: "the runs cannot be paired",
    NOT_ALIKE: "the runs were not measured alike",
    ONE_PAIR: "there is one pair only",
}


def heading(matrix: Matrix) -> str:
    """The heading of its table."""
    runs = matrix.study.runs
    title, name = runs.title, column(runs, matrix.measure).label
    return f"{title}: {name}" if title else name[0].upper() + name[1:]


def caption(matrix: Matrix) -> str:
    """What was averaged and tested, on which data, and what is missing."""
    study = matrix.study
    parts = [
        _averages(matrix),
        _tests(matrix),
        _tests_over_data(matrix),
        _data(study, matrix.measure),
        study.runs.note,
        f"Only runs with {study.runs.selection}." if study.runs.selection else "",
        _missing(matrix),
        mixed_code(study.runs),
    ]
    return " ".join(part for part in parts if part)


def mark_legend(matrix: Matrix, symbols: Mapping[str, str]) -> list[str]:
    """What the marks of its entries mean. `symbols`: how the table shows each mark."""
    marks = {entry.mark for entry in matrix.entries.values()}
    lines = []
    if marks & {BETTER, WORSE}:
        lines.append(
            f"{symbols[BETTER]} significantly better, {symbols[WORSE]} worse than the baseline (b)"
        )
    if marks & {BETTER_HERE, WORSE_HERE}:
        lines.append(
            f"{symbols[BETTER_HERE]} significantly better, {symbols[WORSE_HERE]} worse than the"
            " baseline (b) over runs, but not over data splits"
        )
    if marks == {""} and matrix.family:
        tested = any(entry.test for entry in matrix.entries.values())
        none = "none differs significantly from the baseline (b)"
        lines.append(none if tested else "(b) is the baseline")
    return lines


def refusal_reasons(entries: Collection[Entry]) -> str:
    """Why tests were refused, in general terms: "the runs cannot be paired"."""
    found = [
        text
        for begins, text in REASONS.items()
        if any(entry.refused.startswith(begins) for entry in entries)
    ]
    return " or ".join(found)


def refusals(matrix: Matrix) -> list[str]:
    """Each cell that was not tested, with the reason."""
    methods, conditions = matrix.study.methods, matrix.study.conditions
    refused = {place: entry.refused for place, entry in matrix.entries.items() if entry.refused}
    return [f"{methods[i].label}, {conditions[j].label}: {why}" for (i, j), why in refused.items()]


def _varying(matrix: Matrix) -> dict[tuple[str, ...], list[int]]:
    """The pair fields in which the runs of a cell differ -> the conditions where they do. Some
    data have no folds, so conditions may differ in this."""
    study = matrix.study
    found: dict[tuple[str, ...], list[int]] = {}
    for condition in range(len(study.conditions)):
        cells = [cell for (_, at), cell in matrix.values.items() if at == condition]
        names = tuple(
            name
            for i, name in enumerate(study.pairs)
            if any(len({pair[i] for pair in cell}) > 1 for cell in cells)
        )
        if cells:
            found.setdefault(names, []).append(condition)
    return found


def _averages(matrix: Matrix) -> str:
    groups = _varying(matrix)
    if list(groups) == [()]:
        return "One run in each cell."
    parts = []
    for names, conditions in groups.items():
        sizes = number_range(
            entry.n for (_, at), entry in matrix.entries.items() if at in conditions
        )
        which = f" ({_condition_names(matrix.study, conditions)})" if len(groups) > 1 else ""
        runs = f"over {sizes} runs that differ in {_and(names)}" if names else "of one run"
        parts.append(runs + which)
    return f"Mean and standard deviation {', '.join(parts)}."


def _condition_names(study: Study, conditions: list[int]) -> str:
    labels = [study.conditions[condition].label for condition in conditions]
    return "; ".join(labels) if len(labels) <= NAMED else count(len(labels), "condition")


def _tests(matrix: Matrix) -> str:
    study, family = matrix.study, matrix.family
    if family == 0:
        return "Nothing is tested: there is only one method."
    methods = count(len(study.methods) - 1, "method")
    conditions = count(len(study.conditions), "condition")
    product = f"({methods} x {conditions}, this measure)"
    baseline = study.methods[study.baseline].label
    tests = [entry.test for entry in matrix.entries.values() if entry.test]
    if not tests:
        why = refusal_reasons(matrix.entries.values()) or "no other method has a value"
        none = f"None of the {family:,} comparisons" if family > 1 else "The comparison"
        not_tested = "could be tested" if family > 1 else "could not be tested"
        return f"{none} {product} with the baseline ({baseline}) {not_tested}: {why}."
    left = f", of which {family - len(tests)} could not be made" if len(tests) < family else ""
    groups = [names for names in _varying(matrix) if names]
    several = "that are equal in these fields"
    equal = f"with equal {_and(groups[0])}" if len(groups) == 1 else several
    pairs = number_range(test.n for test in tests)
    return (
        f"Two-tailed paired t-tests against the baseline ({baseline}) over {pairs} pairs of runs"
        f" {equal}; Bonferroni-corrected for a family of {count(family, 'comparison')}"
        f" {product}{left}; significant where corrected p < {matrix.alpha:g}."
    )


def _tests_over_data(matrix: Matrix) -> str:
    """The second tests, where several runs share their data."""
    both = [entry for entry in matrix.entries.values() if entry.over_data and entry.test]
    if not both:
        return ""
    fields = dict.fromkeys(name for names in _varying(matrix) for name in names if is_data(name))
    data, runs = _and(fields), number_range(entry.test.n for entry in both if entry.test)
    means = number_range(entry.over_data.n for entry in both if entry.over_data)
    marked = [entry.mark for entry in both if entry.mark]
    if marked:
        confirmed = sum(mark in (BETTER, WORSE) for mark in marked)
        result = f"they confirm {confirmed} of {count(len(marked), 'significant difference')}"
    else:
        significant = sum(
            entry.corrected_data is not None and entry.corrected_data < matrix.alpha
            for entry in both
        )
        are = "is" if significant < 2 else "are"
        result = f"{significant or 'none'} of them {are} significant"
    return (
        f"Runs of one {data} share its queries, so these {runs} pairs are not independent, and the"
        f" tests are about these splits only. Tests over the mean of each {data} ({means} pairs)"
        f" are about other queries too: {result}."
    )


def _data(study: Study, measure: str) -> str:
    """The data, and how queries count for which the measure is undefined."""
    runs = study.runs
    specs = {data_source(run, study.paired_by): data_name(run, study) for run in runs}
    names = list(specs.values())
    # fields are shown only where names are not enough
    sources = names if len(set(names)) == len(names) else list(specs)
    data = ", ".join(sources) if len(sources) <= NAMED else f"{len(sources)} data sets"
    follows = column(runs, measure).follows_empty
    rules = list(dict.fromkeys(empty_rule(run) for run in runs)) if follows else []
    differing = ", depending on the run" if len(rules) > 1 else ""
    rule = (
        f" Queries without a relevant document {' or '.join(rules)}{differing}." if rules else ""
    )
    return f"Data: {data}.{rule}"


def _missing(matrix: Matrix) -> str:
    """How many cells have no value, and how many lack repetitions that other cells of their
    condition have."""
    study, values = matrix.study, matrix.values
    cells = len(study.methods) * len(study.conditions)
    empty = cells - len(values)
    every: dict[int, set[Pair]] = {}  # by condition
    for (_, at), cell in values.items():
        every.setdefault(at, set()).update(cell)
    short = sum(cell.keys() != every[at] for (_, at), cell in values.items())
    parts = [f"{empty} of {cells} cells {'is' if empty == 1 else 'are'} empty"] if empty else []
    if short:
        lack = "lacks" if short == 1 else "lack"
        parts.append(f"{short} of {cells} cells {lack} runs that others have")
    return f"The table is incomplete: {_and(parts)}." if parts else ""


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def number_range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
