"""A sweep: one TOML file, many experiments. Its [sweep] table lists the values of fields.

[sweep]                          # every combination of these lists
data.fold = [1, 2, 3]            # a field of a component, by its dotted name
ranker = ["Linear()", "MLP()"]   # or a whole component
seed = [1, 2, 3]

# lists of equal length, taken together; [[sweep.zip]] for several such tables
[sweep.zip]
clients = [10, 100]
learner.sessions = [40, 4]

[[sweep.method]]                 # named methods, each with fields of its own
name = "FPDGD"
clients = 100

The experiments of several [[sweep]] tables are united. `base = "other.toml"` takes all other
keys from another file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, did_you_mean, shown
from foltr.experiment import Experiment
from foltr.runs import config
from foltr.runs.tables import BESIDE_LISTS, Values, flat, overridden
from foltr.runs.user_files import Code
from foltr.sweeps.given import check_methods, refuse_listed
from foltr.sweeps.only import Conditions, as_file_name, in_words, narrowed

# These vary slowest, so that the finished runs are a whole study at any time, with fewer
# repetitions.
SLOWEST = ("seed", "data.fold")
LIMIT = 100_000


@dataclass(frozen=True)
class Point:
    """One experiment of a sweep, and the sweep's name for its method."""

    experiment: Experiment
    method: str | None
    sets: tuple[str, ...] = ()  # the fields in which methods differ
    label: str = ""  # the values in which it differs from the other points


@dataclass(frozen=True)
class Sweep:
    name: str
    title: str
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()  # what the user should know of the given values


def read_sweep(
    path: Path,
    given: Values | None = None,
    code: Code | None = None,
    only: Conditions | None = None,
) -> Sweep:
    """The experiments of a file, or those that fulfil the conditions `only`. Values that are
    `given` replace those of fields that are not swept."""
    return sweep_of(config.load(path, code or Code(), sweep=True), path, given, only)


def sweep_of(
    content: dict[str, Any],
    path: Path,
    given: Values | None = None,
    only: Conditions | None = None,
) -> Sweep:
    """The experiments of a file whose content is loaded."""
    found = content.pop("sweep", None)
    tables = found if isinstance(found, list) else [found]
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise Mistake(f"{path} has no [sweep] table: `foltr run {path}` runs its one experiment")
    titles = [table.pop("title", path.stem) for table in tables]
    if not isinstance(titles[0], str):
        raise Mistake(f"{path}: sweep.title must be text, got {titles[0]!r}")
    given = given or {}
    refuse_listed(given, tables)
    base = overridden(flat(content), given)
    try:
        points = _united([expanded(base, table) for table in tables])
    except Mistake as mistake:
        raise Mistake(f"{path}: {mistake}") from None
    name, title = path.stem, titles[0]
    if only:
        chosen = narrowed([(point.experiment, point.method) for point in points], only)
        points = tuple(points[i] for i in chosen)
        name, title = f"{name}.{as_file_name(only)}", f"{title} (only {in_words(only)})"
    return Sweep(name, title, points, check_methods(given, tables, [p.method for p in points]))


def _united(grids: list[tuple[Point, ...]]) -> tuple[Point, ...]:
    """All points of several tables; a point that is in two of them counts once."""
    sets = tuple(dict.fromkeys(name for grid in grids for point in grid for name in point.sets))
    found: dict[Experiment, Point] = {}
    for point in (point for grid in grids for point in grid):
        known = found.setdefault(point.experiment, replace(point, sets=sets))
        if known.method != point.method:
            raise Mistake(f"one experiment has two names: {known.method!r} and {point.method!r}")
    return tuple(found.values())


def expanded(base: Values, table: dict[str, Any]) -> tuple[Point, ...]:
    """All points of a [sweep] table: its lists crossed with its zips and methods."""
    table = dict(table)
    zips, methods = table.pop("zip", []), table.pop("method", [])
    axes = [
        [{name: value} for value in _list(values, name)]
        for name, values in _checked(table).items()
    ]
    axes += [_zipped(part) for part in (zips if isinstance(zips, list) else [zips])]
    named = _methods(methods) if methods else []
    if named:
        axes.insert(0, named)
    _swept_once(axes)
    # a method may replace a value of the base
    for name in (name for axis in axes[bool(named) :] for name in axis[0]):
        if name in base:
            raise Mistake(
                f"{name} has both one value ({shown(base[name])}) and a list of values in"
                " [sweep]: keep one"
            )
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > LIMIT:
        raise Mistake(f"the sweep has {count:,} experiments; the limit is {LIMIT:,}")
    axes.sort(
        key=lambda axis: min(
            (SLOWEST.index(name) for name in axis[0] if name in SLOWEST), default=len(SLOWEST)
        )
    )
    sets = tuple(dict.fromkeys(name for values in named for name in values if name))
    merged = [
        {name: value for part in parts for name, value in part.items()} for parts in product(*axes)
    ]
    return _built(base, merged, sets)


def _built(base: Values, all_values: list[Values], sets: tuple[str, ...]) -> tuple[Point, ...]:
    points, wrong = [], []
    seen: dict[Experiment, str] = {}
    for values in all_values:
        method = values.pop("", None)
        try:
            point = Point(
                config.experiment(overridden(base, values)),
                method,
                sets,
                _label(values, method, sets),
            )
        except Mistake as mistake:
            wrong.append(f"{mistake} (at {_described(values, method)})")
            continue
        described = _described(values, method)
        if point.experiment in seen:
            raise Mistake(
                f"the sweep has one experiment twice: {seen[point.experiment]}, and {described}"
            )
        seen[point.experiment] = described
        points.append(point)
    if wrong:
        raise Mistake(
            f"{len(wrong)} of {len(all_values)} experiments cannot be built. The first: {wrong[0]}"
        )
    return tuple(points)


def _label(values: Values, method: str | None, sets: tuple[str, ...]) -> str:
    """Short: the method's name, then the values of the other swept fields."""
    others = [
        f"{name.rpartition('.')[2]} {value}" for name, value in values.items() if name not in sets
    ]
    return ", ".join([*([method] if method else []), *others])


def _described(values: Values, method: str | None) -> str:
    return ", ".join(
        [*([method] if method else []), *(f"{name} = {value!r}" for name, value in values.items())]
    )


def _checked(table: dict[str, Any]) -> Values:
    """A table by dotted names, the first part of each a field of `Experiment`."""
    known = [field.name for field in fields(Experiment)]
    for name in table:
        if name.partition(".")[0] not in known:
            raise Mistake(
                f"sweep: unknown key {name!r}: {did_you_mean(name, [*known, *BESIDE_LISTS])}"
            )
    return flat(table)


def _list(values: Any, name: str) -> list[Any]:
    if not isinstance(values, list):
        raise Mistake(
            f"sweep.{name} must be a list, got {values!r}: put a single value above [sweep]"
        )
    if not values:
        raise Mistake(f"sweep.{name} is an empty list: give at least one value")
    for i, value in enumerate(values):
        if value in values[:i]:
            raise Mistake(f"sweep.{name} has {value!r} twice")
    return values


def _zipped(table: Any) -> list[Values]:
    if not isinstance(table, dict) or not table:
        raise Mistake(f"sweep.zip must be a table of lists, got {table!r}")
    lists = _checked(table)
    for name, values in lists.items():
        if not isinstance(values, list) or not values:
            raise Mistake(f"sweep.zip.{name} must be a list that is not empty, got {values!r}")
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise Mistake(f"lists in sweep.zip must have equal lengths, got {lengths}")
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _methods(tables: Any) -> list[Values]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Mistake("each method must be a table: write [[sweep.method]] above it")
    found: list[Values] = []
    for table in tables:
        name = table.get("name")
        if not isinstance(name, str) or not name.strip():
            raise Mistake(f"each [[sweep.method]] needs a name, got {table!r}")
        if any(name == other[""] for other in found):
            raise Mistake(f"two methods have the name {name!r}")
        found.append(
            {"": name, **_checked({key: value for key, value in table.items() if key != "name"})}
        )
    return found


def _swept_once(axes: list[list[Values]]) -> None:
    seen: set[str] = set()
    for axis in axes:
        names = {name for values in axis for name in values if name}
        for name in sorted(names & seen):
            raise Mistake(
                f"{name} is swept twice: give it in only one of [sweep], [sweep.zip] and"
                " [[sweep.method]]"
            )
        seen |= names
