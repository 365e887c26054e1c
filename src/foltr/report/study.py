"""Sort runs into methods, conditions and repetitions.

Fields in which the runs differ are of three kinds. `pairs` (by default the fold and the seed)
distinguish repetitions of one method in one condition. Two methods are compared over equal pairs.
`columns` (by default users, data and attacks) are the conditions under which methods are compared.
All other fields make the methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any

from foltr.core.errors import Mistake, did_you_mean
from foltr.report.results import Recorded, Runs
from foltr.report.spec_text import equal, is_component, opened

PAIRS = ("data.fold", "data.seed", "seed")
WORLD = ("users", "data")
NOT_METHOD = (*WORLD, "seed")  # whole fields of a config that never make a method
ATTACK_FIELDS = ("attack", "malicious", "roaming")
COLUMNS = (*WORLD, *ATTACK_FIELDS)
NO_ATTACK = "no attack"  # the value of `attack` where other runs of a study have one
OWN_RULE = "its rule"  # the value of an attack's field that is the very rule of the run
UNLEARNING_FIELDS = ("unlearning", "leaving", "history")
VALUE_IS_ENOUGH = ("kind", "shape")  # a label shows the value of these fields without their name
Pair = tuple[Any, ...]  # the values of the pair fields of one run
Place = tuple[int, int]  # the numbers of a method and of a condition


@dataclass(frozen=True)
class Group:
    """A method or a condition."""

    label: str
    key: tuple[tuple[str, Any], ...]  # all fields that define it, with their values
    differs: dict[str, Any]  # those of them in which the groups of the study differ


@dataclass(frozen=True)
class Study:
    runs: Runs
    methods: tuple[Group, ...]
    conditions: tuple[Group, ...]
    pairs: tuple[str, ...]  # the pair fields
    cells: dict[Place, dict[Pair, Recorded]]  # runs by method, condition and pair
    baseline: int  # the number of a method

    def cell(self, method: int, condition: int) -> dict[Pair, Recorded]:
        return self.cells.get((method, condition), {})

    def condition_label(self, condition: int) -> str:
        """ "" where there is only one condition."""
        return self.conditions[condition].label if len(self.conditions) > 1 else ""

    @cached_property
    def configs(self) -> tuple[dict[str, Any], ...]:
        """The config of one run of each method."""
        first: dict[int, Recorded] = {}
        for (method, _), cell in self.cells.items():
            first.setdefault(method, next(iter(cell.values())))
        return tuple(first[method].config for method in range(len(self.methods)))

    @cached_property
    def paired_by(self) -> tuple[str, ...]:
        """The pair fields that have more than one value."""
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
    """Sort runs into methods, conditions and repetitions.

    `baseline` is the number or the label of a method (default: the first method). A field that
    the caller asks for as a column is not used as a pair field. Where the runs differ in nothing
    but attacks, users and data, attacks make the methods, unless the caller asks for columns."""
    if not len(runs):
        raise Mistake("there is no finished run to report" + _why_none(runs))
    _check_fields(runs, pairs, columns if tuple(columns) != COLUMNS else WORLD)
    found = _sorted(runs, baseline, pairs, columns)
    several = {dict(each.key).get("attack") for each in found.conditions}
    if tuple(columns) == COLUMNS and len(found.methods) == 1 and len(several) > 1:
        return _sorted(runs, baseline, pairs, WORLD)
    return found


def _sorted(
    runs: Runs, baseline: int | str | None, pairs: Sequence[str], columns: Sequence[str]
) -> Study:
    # the fields that the methods of a sweep set
    owned = tuple(dict.fromkeys(name for run in runs for name in run.sets))
    if tuple(columns) in (COLUMNS, WORLD):  # a default: the caller's pairs go first
        columns = tuple(name for name in columns if name not in pairs)
        if any(is_within(name, ATTACK_FIELDS) for name in owned):  # attacks make the methods
            columns = tuple(name for name in columns if name not in ATTACK_FIELDS)
    columns = tuple(name for name in columns if name not in owned)
    pairs = tuple(name for name in pairs if name not in columns and not is_within(name, owned))
    methods, conditions = Groups(), Groups()
    cells: dict[Place, dict[Pair, Recorded]] = {}

    @cache  # thousands of runs share the names of their fields
    def is_column(name: str) -> bool:
        return is_within(name, columns) and not is_within(name, owned)

    all_leaves = leaves_of(runs, pairs)
    all_outside = _outside_config(runs, all_leaves)
    for run, inside, outside in zip(runs, all_leaves, all_outside, strict=True):
        leaves = {**inside, **outside}
        column = {name: value for name, value in leaves.items() if is_column(name)}
        method = {name: value for name, value in leaves.items() if name not in column}
        place = methods.number(method, run.method), conditions.number(column, None)
        pair = tuple(_hashable(run.fields.get(name)) for name in pairs)
        cell = cells.setdefault(place, {})
        if pair in cell:
            raise Mistake(
                f"{cell[pair].path} and {run.path} have the same config, but not the same identity"
                " (data, a file of your own, or a version of foltr changed between them): move one"
                " of them away"
            )
        cell[pair] = run
    rows = methods.groups()
    return Study(runs, rows, conditions.groups(), pairs, cells, _baseline_number(rows, baseline))


def study_by_fields(
    runs: Runs, chosen: Sequence[Recorded], columns: Sequence[str] = WORLD
) -> Study:
    """A study of some of the runs by their fields alone, in which an attack is part of a method.
    It ignores the names that a sweep gave to its methods."""
    plain = tuple(replace(run, method=None, sets=()) for run in chosen)
    known = {name for run in plain for name in run.config}
    return study(
        replace(runs, recorded=plain), columns=[name for name in columns if name in known]
    )


def trained_runs(runs: Runs) -> list[Recorded]:
    """The runs that trained a ranker in rounds: neither a baseline nor unlearning."""
    return [run for run in runs if "baseline" not in run.config and "unlearning" not in run.config]


def _check_fields(runs: Runs, pairs: Sequence[str], columns: Sequence[str]) -> None:
    known = {name for run in runs for name in run.fields}
    for names, what in ((columns, "columns"), (pairs, "pairs")):
        for name in names:
            if name not in known and name not in PAIRS:
                raise Mistake(
                    f"no run has a field {name!r} for the {what}: {did_you_mean(name, known)}"
                )


def _why_none(runs: Runs) -> str:
    parts = []
    if runs.unfinished:
        parts.append(f"{len(runs.unfinished)} are unfinished")
    if runs.skipped:
        first = runs.skipped[0].why
        parts.append(f"{len(runs.skipped)} were skipped, the first because {first}")
    return f" ({'; '.join(parts)})" if parts else ""


def leaves_of(runs: Runs, pairs: Sequence[str]) -> list[dict[str, Any]]:
    """Every field of each experiment and of its components, without the pair fields and
    those that were chosen by tuning.

    A component counts by its name (`data`: "MQ2008"). A component inside a component counts by
    its whole spec; the rule that an attack is aimed at counts as one where it is the rule of the
    run."""

    @cache
    def is_leaf(name: str) -> bool:
        return not is_within(name, pairs) and name.count(".") <= 1

    def leaf(run: Recorded, name: str, value: Any) -> Any:
        if name.startswith("attack.") and is_component(value):
            return OWN_RULE if equal(value, str(run.config.get("aggregator", ""))) else value
        return opened(value).name if name in run.config and isinstance(value, str) else value

    def leaves(run: Recorded) -> dict[str, Any]:
        found = {
            name: leaf(run, name, value)
            for name, value in run.fields.items()
            if is_leaf(name) and not is_within(name, run.chosen)
        }
        if attacked and "attack" not in run.config:  # malicious=0 says nothing more
            found = {name: value for name, value in found.items() if name not in ATTACK_FIELDS}
            found["attack"] = NO_ATTACK
        return found

    attacked = any("attack" in run.config for run in runs)
    return [leaves(run) for run in runs]


def _outside_config(runs: Runs, leaves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a config does not say, for each run, where runs of equal config differ in it.

    This is the content of a user's file or of the data, the version number of results, and the
    revisions of components. Runs that differ in any of these are not repetitions of each other."""
    configs = [repr(each) for each in leaves]
    data = [repr(run.config.get("data")) for run in runs]
    ways: list[tuple[str, list[str], list[Any]]] = [
        ("files", configs, [run.environment.get("files") for run in runs]),
        ("data.content", data, [run.environment.get("data") for run in runs]),
        ("results", [""] * len(runs), [run.environment.get("results") for run in runs]),
        ("revisions", configs, [run.revisions or "before" for run in runs]),
    ]
    found: list[dict[str, Any]] = [{} for _ in runs]
    for name, alike, values in ways:
        contents: dict[str, set[str]] = {}
        for config, value in zip(alike, values, strict=True):
            contents.setdefault(config, set()).add(repr(value))
        for outside, config, value in zip(found, alike, values, strict=True):
            if len(contents[config]) > 1 and name in ("results", "revisions"):
                outside[name] = str(value)
            elif len(contents[config]) > 1:
                outside[name] = blake2b(repr(value).encode(), digest_size=3).hexdigest()
    return found


def is_within(name: str, fields: Sequence[str]) -> bool:
    """Whether a dotted name is one of the fields, or a field of one of them."""
    return any(name == field or name.startswith(f"{field}.") for field in fields)


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict | set) else value


class Groups:
    """Numbers groups in the order of their first run. Labels them by the fields in which they
    differ."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.tables: list[dict[str, Any]] = []
        self.names: list[str | None] = []

    def number(self, fields: dict[str, Any], name: str | None) -> int:
        key = repr(sorted(fields.items()))  # the order in a file does not count; 1 is not True
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.tables.append(fields)
            self.names.append(name)
        number = self.keys[key]
        self.names[number] = self.names[number] or name
        return number

    def groups(self) -> tuple[Group, ...]:
        differing, labels = differing_fields(self.tables), self._labels()
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
            parts = [*([name] if name else []), *_label_parts(fields, rivals[name])]
            label = ", ".join(parts) or "all runs"
            again = sum(known == label or known.startswith(f"{label} #") for known in labels)
            labels.append(f"{label} #{again + 1}" if again else label)  # e.g. of x=1 and x='1'
        return labels


def differing_fields(tables: list[dict[str, Any]]) -> set[str]:
    """The fields in which some groups differ. A field that only some groups have differs; but
    where nobody attacks, it says nothing that there is no number of attackers."""
    names = {name for table in tables for name in table}

    def values(name: str) -> set[str]:
        having = tables
        if name in ATTACK_FIELDS and name != "attack":
            having = [table for table in tables if table.get("attack") != NO_ATTACK]
        return {repr(table.get(name, names)) for table in having}

    return {name for name in names if len(values(name)) > 1}


class _Rivals:
    """Groups that need different labels. There may be hundreds of them, so the fields in which
    they differ are found once."""

    def __init__(self, tables: list[dict[str, Any]]) -> None:
        self.tables, self.differing = tables, differing_fields(tables)
        self._alike: dict[tuple[str, str], set[str]] = {}

    def alike(self, name: str, value: Any) -> set[str]:
        """The fields in which the groups with this value of a field differ."""
        key = name, repr(value)
        if key not in self._alike:
            self._alike[key] = differing_fields(
                [table for table in self.tables if table.get(name) == value]
            )
        return self._alike[key]


def _label_parts(fields: dict[str, Any], rivals: _Rivals) -> list[str]:
    """What distinguishes a group from its rivals: "perfect", "clients=10", "MLP(hidden=64)"."""
    parts, differing = [], rivals.differing
    for name in dict.fromkeys(field.split(".")[0] for field in fields):
        value = fields.get(name)
        inside = [other for other in fields if other.startswith(f"{name}.")]
        if name not in fields or name not in differing:
            parts += [
                _inner_label(other, fields[other], differing)
                for other in inside
                if other in differing
            ]
            continue
        alike = rivals.alike(name, value)
        inner = [
            f"{other.split('.', 1)[1]}={fields[other]!r}" for other in inside if other in alike
        ]
        if inner:
            parts.append(f"{value}({', '.join(inner)})")
        else:
            is_clear = inside or str(value)[:1].isupper() or value == NO_ATTACK
            parts.append(str(value) if is_clear else f"{name}={value}")
    return parts


def _inner_label(name: str, value: Any, differing: set[str]) -> str:
    """A component's field: "sessions=4", or "learner.lr=0.1" where another component differs in
    its own lr."""
    field = name.split(".", 1)[1]
    alone = sum(other.split(".", 1)[-1] == field for other in differing) == 1
    if field in VALUE_IS_ENOUGH and alone:
        return str(value)
    return f"{field if alone else name}={value}"


def _baseline_number(methods: tuple[Group, ...], baseline: int | str | None) -> int:
    if baseline is None:
        return 0
    labels = [method.label for method in methods]
    if isinstance(baseline, str) and baseline in labels:
        return labels.index(baseline)
    if isinstance(baseline, str) and baseline.lstrip("-").isdigit():
        baseline = int(baseline)
    if isinstance(baseline, int) and 0 <= baseline < len(labels):
        return baseline
    known = (
        did_you_mean(str(baseline), labels)
        if isinstance(baseline, str)
        else f"methods are 0 .. {len(labels) - 1}"
    )
    raise Mistake(f"no method is called {baseline!r}: {known}")
