"""What is compared with what: runs as methods x conditions x repetitions.

Fields in which the runs differ are of three kinds. `pairs` (by default the fold and the seed) tell
repetitions of one thing apart: two methods are compared over equal pairs. `columns` (users and
data) are the conditions under which methods are compared. All others make the methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.report.spec_text import opened
from foltr.results import Recorded, Runs

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
    def configs(self) -> tuple[dict[str, Any], ...]:
        """Of a run of each method."""
        first: dict[int, Recorded] = {}
        for (method, _), cell in self.cells.items():
            first.setdefault(method, next(iter(cell.values())))
        return tuple(first[method].config for method in range(len(self.methods)))

    @cached_property
    def paired_by(self) -> tuple[str, ...]:
        """The pair fields that really vary."""
        seen = [pair for cell in self.cells.values() for pair in cell]
        return tuple(
            name for i, name in enumerate(self.pairs) if len({pair[i] for pair in seen}) > 1
        )


def study(
    runs: Runs,
    baseline: int | str | None = None,
    pairs: Sequence[str] = PAIRS,
    columns: Sequence[str] = COLUMNS,
) -> Study:
    """Sort runs into methods, conditions and repetitions. `baseline`: a method by number or label
    (default: first). A field that is asked for as a column is none of the pairs."""
    if not len(runs):
        raise Mistake("there is no finished run to report" + _why_none(runs))
    known = {name for run in runs for name in run.fields}
    for name, what in [
        *((name, "columns") for name in columns),
        *((name, "pairs") for name in pairs),
    ]:
        if name not in known and name not in PAIRS:
            raise Mistake(
                f"no run has a field {name!r} for the {what}: {did_you_mean(name, known)}"
            )
    owned = tuple(
        dict.fromkeys(name for run in runs for name in run.sets)
    )  # by the methods of a sweep
    if tuple(columns) == COLUMNS:
        columns = tuple(
            name for name in columns if name not in pairs
        )  # what is asked for goes before a default
    columns = tuple(name for name in columns if name not in owned)
    pairs = tuple(name for name in pairs if name not in columns and not _belongs(name, owned))
    hidden = _hidden(runs, pairs)
    methods, conditions = _Groups(), _Groups()
    cells: dict[tuple[int, int], dict[Pair, Recorded]] = {}
    for run, unseen in zip(runs, hidden, strict=True):
        leaves = {**_leaves(run, pairs), **unseen}
        column = {
            name: value
            for name, value in leaves.items()
            if _belongs(name, columns) and not _belongs(name, owned)
        }
        method = {name: value for name, value in leaves.items() if name not in column}
        place = methods.number(method, run.method), conditions.number(column, None)
        pair = tuple(_hashable(run.fields.get(name)) for name in pairs)
        cell = cells.setdefault(place, {})
        if pair in cell:
            _same_twice(cell[pair], run)
        cell[pair] = run
    rows = methods.groups()
    return Study(runs, rows, conditions.groups(), pairs, cells, _chosen(rows, baseline))


def unnamed(runs: Runs, chosen: Sequence[Recorded], columns: Sequence[str] = COLUMNS) -> Study:
    """Some of the runs as a study of their fields alone, whatever the methods of a sweep are
    called and set."""
    plain = tuple(replace(run, method=None, sets=()) for run in chosen)
    known = {name for run in plain for name in run.config}
    return study(
        replace(runs, recorded=plain), columns=[name for name in columns if name in known]
    )


def _why_none(runs: Runs) -> str:
    parts = [f"{len(runs.unfinished)} are unfinished"] if runs.unfinished else []
    parts += (
        [f"{len(runs.skipped)} were skipped, the first because {runs.skipped[0].why}"]
        if runs.skipped
        else []
    )
    return f" ({'; '.join(parts)})" if parts else ""


def _same_twice(one: Recorded, other: Recorded) -> None:
    raise Mistake(
        f"{one.path} and {other.path} have the same config, but not the same identity (data, a"
        " file of your own, or a version of foltr changed between them): move one of them away"
    )


def _leaves(run: Recorded, pairs: Sequence[str]) -> dict[str, Any]:
    """Every field of the experiment and of its components, without the pairs; a component counts
    by its name (`data`: "MQ2008"), one inside another by its whole spec."""
    return {
        name: opened(value).name if name in run.config and isinstance(value, str) else value
        for name, value in run.fields.items()
        if not _belongs(name, pairs) and name.count(".") <= 1
    }


def _hidden(runs: Runs, pairs: Sequence[str]) -> list[dict[str, Any]]:
    """What no config tells, where it differs between runs of equal config (but for the pairs): the
    content of a user's file or of the data, the number of results, and revisions of components.
    Runs that differ in it are not repetitions of one thing."""
    ways: dict[str, Callable[[Recorded], tuple[Any, Any]]] = {
        "files": lambda run: (_leaves(run, pairs), run.environment.get("files")),
        "data.content": lambda run: (run.config.get("data"), run.environment.get("data")),
        "results": lambda run: (None, run.environment.get("results")),
        "revisions": lambda run: (_leaves(run, pairs), run.row.get("revisions", "before")),
    }
    found: list[dict[str, Any]] = [{} for _ in runs]
    for name, way in ways.items():
        told = [tuple(repr(part) for part in way(run)) for run in runs]
        contents: dict[str, set[str]] = {}
        for config, content in told:
            contents.setdefault(config, set()).add(content)
        for unseen, (config, content) in zip(found, told, strict=True):
            if len(contents[config]) > 1:
                short = blake2b(content.encode(), digest_size=3).hexdigest()
                unseen[name] = content.strip("'") if name in ("results", "revisions") else short
    return found


def _belongs(name: str, columns: Sequence[str]) -> bool:
    return any(name == column or name.startswith(f"{column}.") for column in columns)


def _hashable(value: Any) -> Any:
    """Specs may hold lists, which cannot be looked up."""
    return repr(value) if isinstance(value, list | dict | set) else value


class _Groups:
    """Numbers groups in the order of their first run, and labels them by what tells them apart."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.tables: list[dict[str, Any]] = []
        self.names: list[str | None] = []

    def number(self, fields: dict[str, Any], name: str | None) -> int:
        key = repr(sorted(fields.items()))  # whatever the order in a file, and 1 is not True
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.tables.append(fields)
            self.names.append(name)
        number = self.keys[key]
        self.names[number] = self.names[number] or name
        return number

    def groups(self) -> tuple[Group, ...]:
        differing, labels = _differing(self.tables), self._labels()
        groups = []
        for label, fields in zip(labels, self.tables, strict=True):
            own = {field: value for field, value in fields.items() if field in differing}
            groups.append(Group(label, tuple(fields.items()), own))
        return tuple(groups)

    def _labels(self) -> list[str]:
        labels: list[str] = []
        named = list(zip(self.tables, self.names, strict=True))
        rivals = {
            name: _Rivals([other for other, its in named if name is None or its == name])
            for name in dict.fromkeys(self.names)
        }
        for fields, name in named:
            label = (
                ", ".join([*([name] if name else []), *_told(fields, rivals[name])]) or "all runs"
            )
            again = sum(known == label or known.startswith(f"{label} #") for known in labels)
            labels.append(f"{label} #{again + 1}" if again else label)  # as of x=1 and x='1'
        return labels


def _differing(tables: list[dict[str, Any]]) -> set[str]:
    """The fields in which some groups differ; one that is missing somewhere differs."""
    names = {name for table in tables for name in table}
    return {name for name in names if len({repr(table.get(name, names)) for table in tables}) > 1}


class _Rivals:
    """Groups that labels must tell apart. There may be hundreds: what they differ in is found
    once."""

    def __init__(self, tables: list[dict[str, Any]]) -> None:
        self.tables, self.differing = tables, _differing(tables)
        self._alike: dict[tuple[str, str], set[str]] = {}

    def alike(self, name: str, value: Any) -> set[str]:
        """The fields in which those that share a field's value differ."""
        key = name, repr(value)
        if key not in self._alike:
            self._alike[key] = _differing(
                [table for table in self.tables if table.get(name) == value]
            )
        return self._alike[key]


def _told(fields: dict[str, Any], rivals: _Rivals) -> list[str]:
    """What tells `fields` from its rivals: "perfect", "clients=10", "MLP(hidden=64)"."""
    told, differing = [], rivals.differing
    for name in dict.fromkeys(field.split(".")[0] for field in fields):
        value, inside = (
            fields.get(name),
            [other for other in fields if other.startswith(f"{name}.")],
        )
        if name in fields and name in differing:
            alike = rivals.alike(name, value)
            inner = [
                f"{other.split('.', 1)[1]}={fields[other]!r}" for other in inside if other in alike
            ]
            component = inside or str(value)[:1].isupper()
            told.append(
                f"{value}({', '.join(inner)})"
                if inner
                else str(value)
                if component
                else f"{name}={value}"
            )
        else:
            told += [
                _inner(other, fields[other], differing) for other in inside if other in differing
            ]
    return told


def _inner(name: str, value: Any, differing: set[str]) -> str:
    """A component's field: "sessions=4", or "learner.lr=0.1" where another component differs in
    its own lr."""
    field = name.split(".", 1)[1]
    alone = sum(other.split(".", 1)[-1] == field for other in differing) == 1
    return str(value) if field in NAMING and alone else f"{field if alone else name}={value}"


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
    told = (
        did_you_mean(str(baseline), labels)
        if isinstance(baseline, str)
        else f"methods are 0 .. {len(labels) - 1}"
    )
    raise Mistake(f"no method is called {baseline!r}: {told}")
