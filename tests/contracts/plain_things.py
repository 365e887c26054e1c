"""One plain example of any component: its defaults, and for fields without one the first values of
the annotated kind that it does not refuse."""

import types
from dataclasses import MISSING, fields, replace
from itertools import islice
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from foltr.core.errors import Mistake
from foltr.core.spec import FAMILIES

PLAIN = {
    bool: (False, True),
    int: (1, 2, 3, 10, 0, 100, -1),
    float: (0.75, 1.5, 3.0, 0.25, 10.0, 0.0, 0.01, -0.75, 100.0),
    str: ("somewhere",),
}
TRIED = 5000  # combinations of values for one component


def values_for(hint):
    """Values of an annotation, the likeliest first."""
    if hint in PLAIN:
        return list(PLAIN[hint])
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if hint is type(None):
        return [None]
    if get_origin(hint) in (Union, types.UnionType):
        return [value for part in get_args(hint) for value in values_for(part)]
    if get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis:
        each = values_for(get_args(hint)[0])
        return [*((value,) * n for value in each for n in (1, 2, 3)), tuple(each[:2]), ()]
    if get_origin(hint) is tuple:
        return list(islice(likeliest([values_for(part) for part in get_args(hint)]), TRIED))
    for family in FAMILIES:
        if hint is family.protocol:
            return simplest(family)
    raise TypeError(f"nobody knows a value of the kind {hint}: teach tests/contracts one")


def likeliest(options):
    """One of each, those first that stand first in most of them."""

    def summing(left, total):
        if not left:
            yield from [()] if total == 0 else []
            return
        for i in range(min(total, len(left[0]) - 1) + 1):
            yield from ((left[0][i], *rest) for rest in summing(left[1:], total - i))

    for total in range(sum(len(each) - 1 for each in options) + 1):
        yield from summing(options, total)


def simplest(family):
    """The members that need nothing, foltr's own and those with the fewest fields first."""
    free = [cls for cls in family.members().values() if not required(cls)]
    return [
        cls()
        for cls in sorted(
            free,
            key=lambda cls: (
                not cls.__module__.startswith("foltr."),
                len(fields(cls)),
                cls.__name__,
            ),
        )
    ]


def required(cls):
    return [
        field.name
        for field in fields(cls)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    ]


def plain(cls, **changes):
    """An object of the class. Fails, and says why, if it takes nothing that was tried."""
    names, hints, refusal = required(cls), get_type_hints(cls), None
    for values in islice(likeliest([values_for(hints[name]) for name in names]), TRIED):
        try:
            return replace(cls(**dict(zip(names, values, strict=True))), **changes)
        except Mistake as mistake:
            refusal = mistake
    told = f"no plain value of {', '.join(names)} will do" if names else "its defaults will not do"
    pytest.fail(f"{cls.__name__}: {told}, the last one because: {refusal}", pytrace=False)


def each(family, test=lambda thing: True, variants=lambda cls: ()):
    """Parametrizes `thing` over a family: every member by itself, and with each of its variants (a
    name and changed fields), as far as `test` holds of it. What cannot be made is let through to
    fail in the test, by itself."""

    def wanted(cls, changes):
        try:
            return test(plain(cls, **changes))
        except pytest.fail.Exception:
            return True

    made = []
    for name, cls in family.members().items():
        for label, changes in ((name, {}), *variants(cls)):
            if wanted(cls, changes):
                made.append(pytest.param((cls, changes), id=label))
    return pytest.mark.parametrize("thing", made, indirect=True)
