"""What is compared with what: runs as methods x conditions x repetitions.

Fields in which the runs differ are of three kinds. `pairs` (by default the fold and the seed) tell repetitions of one
thing apart: two methods are compared over equal pairs. `columns` (users and data) are the conditions under which
methods are compared. All others make the methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.results import Recorded, Runs
from foltr.spec import opened

PAIRS = ("data.fold", "data.seed", "seed")
COLUMNS = ("users", "data")
NAMING = ("kind", "shape")  # fields whose value says enough
Pair = tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """A method or a condition."""

    label: str
    key: tuple[tuple[str, Any], ...]  # the fields that make it what it is
    differs: dict[str, Any]  # those of them in which the study's groups differ


@dataclass(frozen=True)
class Study:
    runs: Runs
    methods: tuple[Group, ...]
    conditions: tuple[Group, ...]
    pairs: tuple[str, ...]  # fields; of them those that vary tell repetitions apart
    cells: dict[tuple[int, int], dict[Pair, Recorded]]  # (method, condition) -> pair -> run
    baseline: int  # a method

    def cell(self, method: int, condition: int) -> dict[Pair, Recorded]:
        return self.cells.get((method, condition), {})

    @cached_property
    def paired_by(self) -> tuple[str, ...]:
        """The pair fields that really vary."""
        seen = [pair for cell in self.cells.values() for pair in cell]
        return tuple(name for i, name in enumerate(self.pairs) if len({pair[i] for pair in seen}) > 1)


def study(
    runs: Runs,
    baseline: int | str | None = None,
    pairs: Sequence[str] = PAIRS,
    columns: Sequence[str] = COLUMNS,
) -> Study:
    """Sort runs into methods, conditions and repetitions. `baseline`: a method by number or label (default: first)."""
    if not len(runs):
        raise Mistake("there is no finished run to report" + _why_none(runs))
    known = {name for run in runs for name in run.fields}
    for name in columns:
        if name not in known:
            raise Mistake(f"no run has a field {name!r} for the columns: {did_you_mean(name, known)}")
    methods, conditions = _Groups(), _Groups()
    cells: dict[tuple[int, int], dict[Pair, Recorded]] = {}
    for run in runs:
        leaves = _leaves(run, pairs)
        column = {name: value for name, value in leaves.items() if _belongs(name, columns)}
        method = {name: value for name, value in leaves.items() if name not in column}
        place = methods.number(method, run.method), conditions.number(column, None)
        pair = tuple(run.fields.get(name) for name in pairs)
        cell = cells.setdefault(place, {})
        if pair in cell:
            _same_twice(cell[pair], run)
        cell[pair] = run
    rows = methods.groups()
    return Study(runs, rows, conditions.groups(), tuple(pairs), cells, _chosen(rows, baseline))


def _why_none(runs: Runs) -> str:
    parts = [f"{len(runs.unfinished)} are unfinished"] if runs.unfinished else []
    parts += [f"{len(runs.skipped)} were skipped, the first because {runs.skipped[0].why}"] if runs.skipped else []
    return f" ({'; '.join(parts)})" if parts else ""


def _same_twice(one: Recorded, other: Recorded) -> None:
    raise Mistake(
        f"{one.path} and {other.path} have the same config, but not the same identity (data, a file of your own, or a "
        "version of foltr changed between them): move one of them away"
    )


def _leaves(run: Recorded, pairs: Sequence[str]) -> dict[str, Any]:
    """Every field down to plain values, without the pairs; a component counts by its name (`data`: "MQ2008")."""
    return {
        name: opened(value).name if name in run.config else value
        for name, value in run.fields.items()
        if name not in pairs
    }


def _belongs(name: str, columns: Sequence[str]) -> bool:
    return any(name == column or name.startswith(f"{column}.") for column in columns)


class _Groups:
    """Numbers groups in the order of their first run, and labels them by what tells them apart."""

    def __init__(self) -> None:
        self.keys: dict[tuple[tuple[str, Any], ...], int] = {}
        self.names: list[str | None] = []

    def number(self, fields: dict[str, Any], name: str | None) -> int:
        key = tuple(fields.items())
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.names.append(name)
        return self.keys[key]

    def groups(self) -> tuple[Group, ...]:
        tables = [dict(key) for key in self.keys]
        differing = _differing(tables)
        groups = []
        for key, fields, name in zip(self.keys, tables, self.names, strict=True):
            rivals = [other for other, its in zip(tables, self.names, strict=True) if name is None or its == name]
            label = ", ".join([*([name] if name else []), *_told(fields, rivals)]) or "all runs"
            groups.append(Group(label, key, {field: fields[field] for field in fields if field in differing}))
        return tuple(groups)


def _differing(tables: list[dict[str, Any]]) -> set[str]:
    """The fields in which some groups differ; one that is missing somewhere differs."""
    names = {name for table in tables for name in table}
    return {name for name in names if len({repr(table.get(name, names)) for table in tables}) > 1}


def _told(fields: dict[str, Any], rivals: list[dict[str, Any]]) -> list[str]:
    """What tells `fields` from its rivals: "perfect", "clients=10", "MLP(hidden=64)"."""
    told, differing = [], _differing(rivals)
    for name in (name for name in fields if "." not in name):
        value, inside = fields[name], [other for other in fields if other.startswith(f"{name}.")]
        if name in differing:
            alike = _differing([rival for rival in rivals if rival.get(name) == value])
            inner = [f"{other.split('.', 1)[1]}={fields[other]!r}" for other in inside if other in alike]
            component = inside or str(value)[:1].isupper()
            told.append(f"{value}({', '.join(inner)})" if inner else str(value) if component else f"{name}={value}")
        else:
            told += [_inner(other.split(".", 1)[1], fields[other]) for other in inside if other in differing]
    return told


def _inner(field: str, value: Any) -> str:
    return str(value) if field in NAMING else f"{field}={value}"


def _chosen(methods: tuple[Group, ...], baseline: int | str | None) -> int:
    if baseline is None:
        return 0
    labels = [method.label for method in methods]
    if isinstance(baseline, str) and baseline in labels:
        return labels.index(baseline)
    if isinstance(baseline, str) and baseline.lstrip("-").isdigit():
        baseline = int(baseline)
    if isinstance(baseline, int) and 0 <= baseline < len(labels):
        return baseline
    told = did_you_mean(str(baseline), labels) if isinstance(baseline, str) else f"methods are 0 .. {len(labels) - 1}"
    raise Mistake(f"no method is called {baseline!r}: {told}")
