"""A matrix in words: what was averaged and tested, over what, of which data, and what is
missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from foltr.report.entries import BETTER, WORSE, Entry, Matrix
from foltr.report.measures import LEAVES_OUT, MEASURES, empty_rule
from foltr.report.pairing import is_data
from foltr.report.provenance import source
from foltr.report.study import Pair, Study
from foltr.results import Recorded

Place = tuple[int, int]  # method, condition
NAMED = 3  # conditions or data sets that are named; more are counted
REASONS = {  # how a refusal begins -> what a caption says
    "not paired": "the runs cannot be paired",
    "not measured alike": "the runs were not measured alike",
    "one pair only": "there is one pair only",
}


def told(
    study: Study,
    measure: str,
    entries: dict[Place, Entry],
    pairs: dict[Place, set[Pair]],
    family: int,
    alpha: float,
) -> str:
    """What must be said of a table. `pairs`: those of each cell that have a value."""
    parts = [
        _spread(study, entries, pairs),
        _tests(study, entries, pairs, family, alpha),
        _second_tests(study, entries, pairs, alpha),
        of_what(study.runs, measure, study.pairs),
        f"Only runs with {study.runs.selection}." if study.runs.selection else "",
        _incomplete(study, pairs),
    ]
    return " ".join(part for part in parts if part)


def varying(study: Study, pairs: dict[Place, set[Pair]]) -> dict[tuple[str, ...], list[int]]:
    """The fields in which the runs of a cell differ -> the conditions where they do: not all data
    have folds."""
    found: dict[tuple[str, ...], list[int]] = {}
    for condition in range(len(study.conditions)):
        cells = [cell for (_, at), cell in pairs.items() if at == condition]
        names = tuple(
            name
            for i, name in enumerate(study.pairs)
            if any(len({pair[i] for pair in cell}) > 1 for cell in cells)
        )
        if cells:
            found.setdefault(names, []).append(condition)
    return found


def _spread(study: Study, entries: dict[Place, Entry], pairs: dict[Place, set[Pair]]) -> str:
    groups = varying(study, pairs)
    parts = []
    for names, conditions in groups.items():
        sizes = _range(entry.n for (_, at), entry in entries.items() if at in conditions)
        which = f" ({_conditions(study, conditions)})" if len(groups) > 1 else ""
        parts.append(
            f"over {sizes} runs that differ in {_and(names)}{which}"
            if names
            else f"of one run{which}"
        )
    if list(groups) == [()]:
        return "One run in each cell."
    return f"Mean and standard deviation {', '.join(parts)}."


def _conditions(study: Study, conditions: list[int]) -> str:
    labels = [study.conditions[condition].label for condition in conditions]
    return "; ".join(labels) if len(labels) <= NAMED else count(len(labels), "condition")


def _tests(
    study: Study,
    entries: dict[Place, Entry],
    pairs: dict[Place, set[Pair]],
    family: int,
    alpha: float,
) -> str:
    if family == 0:
        return "Nothing is tested: there is one method."
    methods, conditions = (
        count(len(study.methods) - 1, "method"),
        count(len(study.conditions), "condition"),
    )
    asked = f"{count(family, 'comparison')} ({methods} x {conditions}, this measure)"
    baseline = study.methods[study.baseline].label
    tests = [entry.test for entry in entries.values() if entry.test]
    if not tests:
        why = reasons(entries.values()) or "no other method has a value"
        return f"Nothing is tested, of {asked} with the baseline ({baseline}): {why}."
    left = f", of which {family - len(tests)} could not be made" if len(tests) < family else ""
    groups = [names for names in varying(study, pairs) if names]
    equal = f"with equal {_and(groups[0])}" if len(groups) == 1 else "in which these are equal"
    return (
        f"Two-tailed paired t-tests against the baseline ({baseline}) over"
        f" {_range(test.n for test in tests)} pairs of runs {equal}; Bonferroni-corrected for a"
        f" family of {asked}{left}; significant where corrected p < {alpha:g}."
    )


def _second_tests(
    study: Study, entries: dict[Place, Entry], pairs: dict[Place, set[Pair]], alpha: float
) -> str:
    """Of runs that share data."""
    both = [entry for entry in entries.values() if entry.over_data and entry.test]
    if not both:
        return ""
    names = dict.fromkeys(
        name for group in varying(study, pairs) for name in group if is_data(name)
    )
    data, runs = _and(names), _range(entry.test.n for entry in both if entry.test)
    means = _range(entry.over_data.n for entry in both if entry.over_data)
    marked = [entry.mark for entry in both if entry.mark]
    others = sum(
        entry.corrected_data is not None and entry.corrected_data < alpha for entry in both
    )
    remain = sum(mark in (BETTER, WORSE) for mark in marked)
    left = f"of {len(marked)} marked, {remain} {'remains' if remain == 1 else 'remain'}"
    left = left if marked else f"{others or 'none'} would be significant"
    return (
        f"Runs of one {data} share its queries, so {runs} pairs are not as many independent"
        " samples, and these tests speak of these splits only. Of other queries speak the same"
        f" tests over the mean of each {data} ({means} pairs): {left}."
    )


def of_what(runs: Iterable[Recorded], measure: str, pairs: tuple[str, ...]) -> str:
    """The data, and how queries count for which a measure is undefined."""
    specs = dict.fromkeys(source(run, pairs) for run in runs)
    names = [spec.partition("(")[0] for spec in specs]
    sources = (
        names if len(set(names)) == len(names) else list(specs)
    )  # fields only where they tell something apart
    data = ", ".join(sources) if len(sources) <= NAMED else f"{len(sources)} data sets"
    rules = list(dict.fromkeys(empty_rule(run) for run in runs)) if measure in LEAVES_OUT else []
    alike = ", not alike in all runs" if len(rules) > 1 else ""
    rule = f" Queries without a relevant document {' or '.join(rules)}{alike}." if rules else ""
    return f"Data: {data}.{rule}"


def _incomplete(study: Study, pairs: dict[Place, set[Pair]]) -> str:
    """Cells without a value, and those that lack repetitions which others of their condition
    have."""
    cells = len(study.methods) * len(study.conditions)
    empty, every = cells - len(pairs), {at: set[Pair]() for at in range(len(study.conditions))}
    for (_, at), cell in pairs.items():
        every[at] |= cell
    short = sum(cell != every[at] for (_, at), cell in pairs.items())
    parts = [f"{empty} of {cells} cells {'is' if empty == 1 else 'are'} empty"] if empty else []
    parts += (
        [f"{short} of {cells} cells {'lacks' if short == 1 else 'lack'} runs that others have"]
        if short
        else []
    )
    return f"The grid is incomplete: {_and(parts)}." if parts else ""


def reasons(entries: Collection[Entry]) -> str:
    """In general terms, why something was not tested."""
    found = [
        told
        for begins, told in REASONS.items()
        if any(entry.refused.startswith(begins) for entry in entries)
    ]
    return " or ".join(found)


def refusals(matrix: Matrix) -> list[str]:
    """What could not be tested, and why."""
    methods, conditions = matrix.study.methods, matrix.study.conditions
    refused = {place: entry.refused for place, entry in matrix.entries.items() if entry.refused}
    return [f"{methods[i].label}, {conditions[j].label}: {why}" for (i, j), why in refused.items()]


def heading(matrix: Matrix) -> str:
    """What a table of it is called."""
    title, name = matrix.study.runs.title, MEASURES[matrix.measure]
    return f"{title}: {name}" if title else name[0].upper() + name[1:]


def count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
