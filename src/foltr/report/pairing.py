"""Whether the runs of two methods can be paired in a condition; if not, why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from foltr.report.study import Pair, Place, Study
from foltr.results import Recorded

# how a reason begins
NOT_PAIRED, NOT_ALIKE, ONE_PAIR = "not paired", "not measured alike", "one pair only"


def why_not_comparable(
    study: Study, measure: str, place: Place, reference: int, own: Set[Pair], base: Set[Pair]
) -> str:
    """Why the mean of a method cannot be compared with that of the method `reference` in the same
    condition; "" if it can.

    `own` and `base` are the pairs of which the two methods have a value. Means are comparable over
    equal pairs that were measured in the same way."""
    method, condition = place
    ours, theirs = study.cell(method, condition), study.cell(reference, condition)
    if not base:
        what = "value" if theirs else "run"
        return f"{NOT_PAIRED}: the baseline has no {what} in this condition"
    name = study.methods[method].label
    missing = [
        *_missing(study, "the baseline", own - base, theirs),
        *_missing(study, name, base - own, ours),
    ]
    if missing:
        return f"{NOT_PAIRED}: {'; '.join(missing)}"
    for pair in in_order(own):
        if difference := _measured_differently(measure, ours[pair], theirs[pair]):
            return f"{NOT_ALIKE}: {difference} ({_pair_names(study, {pair})})"
    return ""


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


def _missing(study: Study, who: str, pairs: Set[Pair], cell: dict[Pair, Recorded]) -> list[str]:
    """Which of the pairs have no run, and which have a run without a value."""
    absent, undefined = pairs - cell.keys(), pairs & cell.keys()
    parts = [f"{who} lacks {_pair_names(study, absent)}"] if absent else []
    if undefined:
        parts.append(f"{who} has no value for {_pair_names(study, undefined)}")
    return parts


def _measured_differently(measure: str, run: Recorded, base: Recorded) -> str:
    """The first way in which two runs were measured differently. A way that either run did not
    record is ignored."""
    ways: dict[str, Callable[[Recorded], Any]] = {
        "queries without a relevant document: {!r}, the baseline {!r}": (
            lambda run: run.final.get("empty")
        ),
        "on {} held-out queries, the baseline on {}": lambda run: run.final.get("queries"),
        "on data of other content than the baseline": lambda run: run.environment.get("data"),
        "by a foltr of results {}, the baseline by one of results {}": (
            lambda run: run.environment.get("results")
        ),
    }
    column = run.columns.get(measure)
    if column is not None and column.measure.curve == "summed":
        ways["a sum over {} rounds, the baseline's over {}"] = lambda run: run.final.get("rounds")
    for text, way in ways.items():
        ours, theirs = way(run), way(base)
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
