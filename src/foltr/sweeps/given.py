"""`--set` in a sweep: a value that would have no effect is refused, with the reason and the way
out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foltr.errors import Mistake, shortened, shown
from foltr.runs.tables import Values, lists_of, methods_of, replaced_by


def refuse_listed(given: Values, tables: Sequence[dict[str, Any]]) -> None:
    """Refuse values of fields that a list of the sweep sets."""
    for name, value in given.items():
        for table in tables:
            lists = {**lists_of(table), **_zipped(table)}
            if (listed := replaced_by(name, lists)) is None:
                continue
            takes = lists[listed] if isinstance(lists[listed], list) else []
            known = shortened(", ".join(map(str, takes)), 80)
            raise Mistake(
                f"--set {name}={_text(value)} has no effect: the file lists the values of {listed}"
                f" ({known}). " + _way_out(name, value, listed, takes)
            )


def _text(value: Any) -> str:
    """As it was given, shortened; Python writes no integer of thousands of digits."""
    return value if isinstance(value, str) else shown(value)


def _zipped(table: dict[str, Any]) -> Values:
    zips = table.get("zip", [])
    tables = zips if isinstance(zips, list) else [zips]
    return {n: v for part in tables if isinstance(part, dict) for n, v in lists_of(part).items()}


def _way_out(name: str, value: Any, listed: str, takes: list[Any]) -> str:
    if name != listed:
        return f"Change {listed} in the file"
    if value in takes:
        return f"--only '{name}={_text(value)}' narrows the sweep to it"
    example = f"--only '{name}={takes[0]}' narrows the sweep to one of them; " if takes else ""
    return f"{example}for another value, change the list in the file"


def check_methods(
    given: Values, tables: Sequence[dict[str, Any]], methods: Sequence[str | None]
) -> tuple[str, ...]:
    """Refuse values that the method of every experiment replaces; `methods` are those of the
    experiments. Returns notes on values that only some methods take."""
    sets: dict[str, list[Values]] = {}
    for table in tables:
        for method, values in methods_of(table).items():
            sets.setdefault(method, []).append(values)
    used = list(dict.fromkeys(method for method in methods if method is not None))
    notes = []
    for name, value in given.items():
        given_as = f"--set {name}={_text(value)}"
        own = [method for method in used if all(replaced_by(name, each) for each in sets[method])]
        if used and len(own) == len(used) and None not in methods:
            raise Mistake(
                f"{given_as} has no effect: every method of the sweep sets {name}."
                f" --only \"method='{own[0]}'\" chooses one of them; to change {name}, change the"
                " methods in the file"
            )
        if own:
            told = ", ".join(map(repr, own[:3])) + (" and others" if len(own) > 3 else "")
            notes.append(f"{given_as} does not change methods that set it: {told}")
    return tuple(notes)
