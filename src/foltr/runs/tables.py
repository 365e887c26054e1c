"""TOML tables as values by dotted names, and how the values of one file replace those of
another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foltr.errors import Mistake

Values = dict[str, Any]  # dotted field -> value
BESIDE_LISTS = ("title", "zip", "method")  # keys of a [sweep] table that are no fields


def flat(table: dict[str, Any], before: str = "") -> Values:
    """Nested tables with dotted names: {"learner": {"sessions": 4}} becomes {"learner.sessions":
    4}."""
    found: Values = {}
    for name, value in table.items():
        found.update(
            flat(value, f"{before}{name}.")
            if isinstance(value, dict)
            else {f"{before}{name}": value}
        )
    return found


def overridden(values: Values, given: Values) -> Values:
    """`values`, replaced by those that are `given`. A given component also replaces the values of
    its fields."""
    return {**without(values, given), **given}


def without(values: Values, given: Iterable[str]) -> Values:
    """`values` without those of the fields that are `given`, or that lie inside of them."""
    return {
        name: value
        for name, value in values.items()
        if not any(name == other or name.startswith(f"{other}.") for other in given)
    }


def replaced_by(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` whose value replaces that of the field `name`: the field itself, or
    the component that it lies in."""
    return next((o for o in others if name == o or name.startswith(f"{o}.")), None)


def lists_of(table: dict[str, Any]) -> Values:
    """The lists of a [sweep] table, by dotted names."""
    return flat({name: value for name, value in table.items() if name not in BESIDE_LISTS})


def methods_of(table: dict[str, Any]) -> dict[str, Values]:
    """The fields that each named method of a [sweep] table sets. Tables that are no methods are
    passed over: who reads the sweep refuses them."""
    tables = table.get("method", [])
    methods = [each for each in tables if isinstance(each, dict)] if tables else []
    return {
        str(method.get("name")): flat({n: v for n, v in method.items() if n != "name"})
        for method in methods
    }


def inherited(own: dict[str, Any], base: dict[str, Any], named: str) -> dict[str, Any]:
    """The content of a file with that of its base, called `named`. Each key replaces the same key
    of the base: a field, a list of [sweep], its title, zip or method. A single value replaces a
    list of the base, and a list a single value. Several [[sweep]] tables are one thing."""
    own, base = dict(own), dict(base)
    ours, theirs = own.pop("sweep", None), base.pop("sweep", None)
    values, before = flat(own), flat(base)
    if isinstance(theirs, dict) and (ours is None or isinstance(ours, dict)):
        table, lists = ours or {}, lists_of(ours or {})
        methods = {} if "method" in table else methods_of(theirs)
        _check_effect(values, methods, without(lists_of(theirs), lists), named)
        kept = without(lists_of(theirs), values)
        beside = {n: v for n, v in {**theirs, **table}.items() if n in BESIDE_LISTS}
        sweep: Any = {**beside, **overridden(kept, lists)}
    else:
        lists = lists_of(ours) if isinstance(ours, dict) else {}
        sweep = theirs if ours is None else ours
    found = overridden(without(before, lists), values)
    return found if sweep is None else {**found, "sweep": sweep}


def _check_effect(values: Values, methods: dict[str, Values], lists: Values, base: str) -> None:
    """Refuse a value that methods or a list of the base would replace in every experiment."""
    for name in values:
        if methods and all(replaced_by(name, sets) for sets in methods.values()):
            raise Mistake(
                f"{name} has no effect: every method of the base {base} sets it. Give methods of"
                " your own ([[sweep.method]])"
            )
        if (listed := replaced_by(name, lists)) and listed != name:
            raise Mistake(
                f"{name} has no effect: the base {base} gives a list of whole components,"
                f" {listed}. Give {listed}, or a list of your own"
            )
