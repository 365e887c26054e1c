"""Whether the runs of two cells can be paired; if not, why not."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from foltr.report.study import Pair, Study
from foltr.results import Recorded

ALONE = "one pair only: a t-test needs two or more"
SUMS = ("online",)  # measures that add up over rounds, and need as many of them


def unlike(
    study: Study,
    measure: str,
    place: tuple[int, int],
    reference: int,
    own: Set[Pair],
    base: Set[Pair],
) -> str:
    """Why a method's mean cannot be compared with that of another (`reference`) in the same
    condition: other repetitions, or measured in another way; "" if it can."""
    method, condition = place
    ours, theirs = study.cell(method, condition), study.cell(reference, condition)
    if not base:
        return f"not paired: the baseline has no {'value' if theirs else 'run'} in this condition"
    name = study.methods[method].label
    lacking = _lacking(study, "the baseline", own - base, theirs) + _lacking(
        study, name, base - own, ours
    )
    if lacking:
        return f"not paired: {'; '.join(lacking)}"
    for pair in in_order(own):
        if other := _measured_otherwise(measure, ours[pair], theirs[pair]):
            return f"not measured alike: {other} ({_named(study, {pair})})"
    return ""


def on_equal_data(study: Study, pairs: Sequence[Pair]) -> list[list[int]]:
    """Positions of the pairs whose data are equal (one fold, several seeds), group by group; none
    where there is one group only, or every pair has data of its own."""
    groups: dict[Pair, list[int]] = {}
    for i, pair in enumerate(pairs):
        on = tuple(each for name, each in zip(study.pairs, pair, strict=True) if is_data(name))
        groups.setdefault(on, []).append(i)
    return list(groups.values()) if 1 < len(groups) < len(pairs) else []


def is_data(name: str) -> bool:
    """Whether a field of the pairs chooses data, which runs then share."""
    return name == "data" or name.startswith("data.")


def _lacking(study: Study, who: str, pairs: Set[Pair], cell: dict[Pair, Recorded]) -> list[str]:
    """What is missing on one side, and what is there but undefined."""
    absent, undefined = pairs - cell.keys(), pairs & cell.keys()
    told = [f"{who} lacks {_named(study, absent)}"] if absent else []
    return told + ([f"{who} has no value for {_named(study, undefined)}"] if undefined else [])


def _measured_otherwise(measure: str, run: Recorded, base: Recorded) -> str:
    """The first way in which two runs were measured differently; what either does not tell is not
    held against it."""
    ways = {
        "queries without a relevant document: {!r}, the baseline {!r}": lambda run: run.final.get(
            "empty"
        ),
        "on {} held-out queries, the baseline on {}": lambda run: run.final.get("queries"),
        "on data of other content than the baseline": lambda run: run.environment.get("data"),
        "by a foltr of results {}, the baseline by one of results {}": lambda run: (
            run.environment.get("results")
        ),
    }
    if measure in SUMS:
        ways["a sum over {} rounds, the baseline's over {}"] = lambda run: run.final.get("rounds")
    for told, way in ways.items():
        ours, theirs = way(run), way(base)
        if ours is not None and theirs is not None and ours != theirs:
            return told.format(ours, theirs)
    return ""


def _named(study: Study, pairs: Set[Pair]) -> str:
    """ "data.fold=3, seed=2 (and 4 more)" """
    first = in_order(pairs)[0]
    values = dict(zip(study.pairs, first, strict=True))
    has = [name for name in study.paired_by if values[name] is not None]  # some data have no folds
    told = ", ".join(f"{name}={values[name]!r}" for name in has) or "the only run"
    return told + (f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else "")


def in_order(pairs: Set[Pair]) -> list[Pair]:
    """Numbers by size, before everything else as text."""

    def order(value: Any) -> tuple[int, float, str]:
        return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, repr(value))

    return sorted(pairs, key=lambda pair: [order(value) for value in pair])
