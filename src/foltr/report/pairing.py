"""Whether the runs of two cells can be paired; if not, why not."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from foltr.report.study import Pair, Study
from foltr.results import Recorded

WAYS: dict[str, Callable[[Recorded], Any]] = {  # in which runs of a pair must have been measured alike
    "queries without a relevant document count": lambda run: run.final.get("empty"),
    "held-out queries": lambda run: run.final.get("queries"),
    "content of the data": lambda run: run.environment.get("data"),
    "number of results, which foltr raises when bits change": lambda run: run.environment.get("results"),
}
SUMS = ("online",)  # measures that add up over rounds, and need as many of them


def mismatch(study: Study, measure: str, place: tuple[int, int], own: Set[Pair], base: Set[Pair]) -> str:
    """Why a method's runs cannot be tested against the baseline's of the same condition; "" if they can.

    `own` and `base` are the pairs that have a value of the measure."""
    method, condition = place
    if not base:
        return "not paired: the baseline has no run with a value in this condition"
    sides = (("the baseline", own - base), (study.methods[method].label, base - own))
    lacking = [f"{who} lacks {_named(study, pairs)}" for who, pairs in sides if pairs]
    if lacking:
        return f"not paired: {'; '.join(lacking)}"
    ways = WAYS | ({"rounds": lambda run: run.final.get("rounds")} if measure in SUMS else {})
    theirs, ours = study.cell(study.baseline, condition), study.cell(method, condition)
    for pair in sorted(own, key=repr):
        for what, told in ways.items():
            a, b = told(ours[pair]), told(theirs[pair])
            if a is not None and b is not None and a != b:
                return f"measured differently: {what} {a!r}, of the baseline {b!r} ({_named(study, {pair})})"
    return "one pair only: a t-test needs two or more" if len(own) < 2 else ""


def _named(study: Study, pairs: Set[Pair]) -> str:
    """ "data.fold=3, seed=2 (and 4 more)" """
    shown = [i for i, name in enumerate(study.pairs) if name in study.paired_by]
    first = min(pairs, key=lambda pair: [_order(value) for value in pair])
    told = ", ".join(f"{study.pairs[i]}={first[i]!r}" for i in shown) or "its only run"
    return told + (f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else "")


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers by size, before everything else as text."""
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, repr(value))
