"""The colour and the dashes of each method's curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foltr.report.study import Group

# Okabe & Ito (2008), which colour-blind readers can distinguish, without their yellow, which is
# too pale on paper; and wine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.2, 1, 1.2)))
MARKERS = "os^DvPX<"  # one per colour, so that curves differ in a grey copy as well


def line_styles(methods: Sequence[Group]) -> list[tuple[int, int]]:
    """The number of the colour and of the dashes of each method.

    Where one field (the ranker, say) splits the methods into families that are otherwise equal,
    that field chooses the dashes, and equal methods of each family share a colour. Otherwise all
    colours are used before the next dashes. Beyond all combinations they repeat."""
    fields = {
        name: [method.differs.get(name) for method in methods]
        for method in methods
        for name in method.differs
    }
    splits = []
    for name in fields:
        family, rest = _split(fields, name)
        splits.append((_numbered(rest), _numbered(family)))
    good = [split for split in splits if _is_good(*split)]
    if not good:
        return [(i % len(COLOURS), i // len(COLOURS) % len(DASHES)) for i in range(len(methods))]
    # few dashes first: colours are easier to see
    colours, dashes = min(good, key=lambda split: (max(split[1]), max(split[0])))
    return list(zip(colours, dashes, strict=True))


def _is_good(colours: list[int], dashes: list[int]) -> bool:
    """Whether both distinguish methods, there are enough of both, and some methods share a
    colour."""
    return 0 < max(dashes) < len(DASHES) and 0 < max(colours) < min(len(COLOURS), len(colours) - 1)


def _split(fields: dict[str, list[Any]], name: str) -> tuple[list[str], list[str]]:
    """The value of a field for each method, and the values of all fields that do not follow from
    it."""
    own = [repr(value) for value in fields[name]]
    free = [
        [repr(value) for value in values]
        for values in fields.values()
        if not _follows(own, values)
    ]
    return own, [repr(rest) for rest in zip(*free, strict=True)] or [""] * len(own)


def _follows(own: list[str], values: list[Any]) -> bool:
    """Whether `values` are a function of `own`. (A ranker's size follows from the ranker if there
    is only one MLP.)"""
    return len({(a, repr(b)) for a, b in zip(own, values, strict=True)}) == len(set(own))


def _numbered(values: list[str]) -> list[int]:
    order = list(dict.fromkeys(values))
    return [order.index(value) for value in values]
