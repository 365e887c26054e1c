"""Which colour and which dashes a method's curve is drawn in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foltr.report.study import Group

# Okabe & Ito (2008), which colour-blind readers can tell apart, without their yellow, which paper
# swallows; and wine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.2, 1, 1.2)))
MARKERS = "os^DvPX<"  # one per colour: a copy in grey tells them apart too


def styles(methods: Sequence[Group]) -> list[tuple[int, int]]:
    """The number of the colour and of the dashes of each method; beyond all combinations they
    repeat.

    Where one field tells families of otherwise equal methods apart (the ranker, say), it makes the
    dashes, and equal methods of each family share a colour. Otherwise colours are used up before
    dashes."""
    fields = {
        name: [method.differs.get(name) for method in methods]
        for method in methods
        for name in method.differs
    }
    cuts = [
        (_numbered(colours), _numbered(dashes))
        for name in fields
        for dashes, colours in [_cut(fields, name)]
    ]
    good = [cut for cut in cuts if _is_good(*cut)]
    if not good:
        return [(i % len(COLOURS), i // len(COLOURS) % len(DASHES)) for i in range(len(methods))]
    colours, dashes = min(
        good, key=lambda cut: (max(cut[1]), max(cut[0]))
    )  # colours are easier to see than dashes
    return list(zip(colours, dashes, strict=True))


def _is_good(colours: list[int], dashes: list[int]) -> bool:
    """Whether both tell something, there are enough of both, and some methods share a colour."""
    return 0 < max(dashes) < len(DASHES) and 0 < max(colours) < min(len(COLOURS), len(colours) - 1)


def _cut(fields: dict[str, list[Any]], name: str) -> tuple[list[str], list[str]]:
    """What a field says of each method, and what those others say that do not follow from it."""
    own = [repr(value) for value in fields[name]]
    free = [
        [repr(value) for value in values]
        for values in fields.values()
        if not _follows(own, values)
    ]
    return own, [repr(rest) for rest in zip(*free, strict=True)] or [""] * len(own)


def _follows(own: list[str], values: list[Any]) -> bool:
    """Whether `values` are a function of `own`: a ranker's size follows from the ranker if there
    is one MLP."""
    return len({(a, repr(b)) for a, b in zip(own, values, strict=True)}) == len(set(own))


def _numbered(values: list[str]) -> list[int]:
    order = list(dict.fromkeys(values))
    return [order.index(value) for value in values]
