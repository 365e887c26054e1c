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
keys from another file. `--set` gives values to fields that are not swept, `--only` chooses some
of the experiments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import blake2b
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, did_you_mean, shortened, shown
from foltr.core.spec import brief, coerce, hints_of, opened
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from foltr.simulation.runs import config
from foltr.simulation.runs.config import (
    BESIDE_LISTS,
    Values,
    flat,
    lists_of,
    methods_of,
    overridden,
    replaced_by,
)

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
        points = narrowed(points, only)
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
    names = Counter(n for axis in axes for n in {n for values in axis for n in values if n})
    if twice := sorted(name for name, times in names.items() if times > 1):
        raise Mistake(
            f"{twice[0]} is swept twice: give it in only one of [sweep], [sweep.zip] and"
            " [[sweep.method]]"
        )
    # a method may replace a value of the base
    for name in (name for axis in axes[bool(named) :] for name in axis[0]):
        if name in base:
            raise Mistake(
                f"{name} has both one value ({shown(base[name])}) and a list of values in"
                " [sweep]: keep one"
            )
    if (count := prod(map(len, axes))) > LIMIT:
        raise Mistake(f"the sweep has {count:,} experiments; the limit is {LIMIT:,}")
    # a stable sort: seeds first, then folds, then the others
    axes.sort(key=lambda axis: [name not in axis[0] for name in SLOWEST])
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
        named = [method] if method else []
        described = ", ".join([*named, *(f"{name} = {v!r}" for name, v in values.items())])
        try:
            experiment = config.experiment(overridden(base, values))
        except Mistake as mistake:
            wrong.append(f"{mistake} (at {described})")
            continue
        if experiment in seen:
            raise Mistake(
                f"the sweep has one experiment twice: {seen[experiment]}, and {described}"
            )
        seen[experiment] = described
        # short: the method's name, then the values of the other swept fields
        others = [f"{n.rpartition('.')[2]} {v}" for n, v in values.items() if n not in sets]
        points.append(Point(experiment, method, sets, ", ".join([*named, *others])))
    if wrong:
        raise Mistake(
            f"{len(wrong)} of {len(all_values)} experiments cannot be built. The first: {wrong[0]}"
        )
    return tuple(points)


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
        others = {key: value for key, value in table.items() if key != "name"}
        found.append({"": name, **_checked(others)})
    return found


def refuse_listed(given: Values, tables: Sequence[dict[str, Any]]) -> None:
    """Refuse values of `--set` for fields that a list of the sweep sets: they would have no
    effect."""
    for name, value in given.items():
        for table in tables:
            zips = table.get("zip", [])
            zips = zips if isinstance(zips, list) else [zips]
            tables_of_lists = [table, *(each for each in zips if isinstance(each, dict))]
            lists = {n: v for each in tables_of_lists for n, v in lists_of(each).items()}
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


# dotted field, or `method` -> values, any of which fits
Conditions = Mapping[str, Sequence[Any]]
METHOD = "method"
LACKS = object()  # the value of a field that an experiment does not have
SHOWN = 12  # values in a message
LONGEST = 100  # part of a file name


def narrowed(points: Sequence[Point], only: Conditions) -> tuple[Point, ...]:
    """The points that fulfil all conditions of `--only 'seed=1|2, data.fold=1'`. Raises a Mistake
    for an unknown field, for a value that no point has, and if none is left."""
    left = set(range(len(points)))
    for name, wanted in only.items():
        places: dict[Any, list[int]] = {}  # many points have equal values, and are compared once
        for i, point in enumerate(points):
            if (value := value_of(point, name)) is not LACKS:
                places.setdefault(value, []).append(i)
        if not places:
            known = {field for point in points for field in names_in(point.experiment)}
            known |= {METHOD for point in points if point.method is not None}
            raise Mistake(
                f"--only: no experiment has a field {name!r}: {did_you_mean(name, known)}"
            )
        fitting: set[int] = set()
        for each in wanted:
            equal = [at for v, at in places.items() if _equal(points[at[0]], name, v, each)]
            if not equal:
                raise Mistake(
                    f"--only '{name}={each}' leaves no experiment: {name} is {_shown(places)}"
                )
            fitting.update(*equal)
        left &= fitting
    if not left:
        raise Mistake(
            f"--only leaves no experiment: each of these values is in the sweep, but not together:"
            f" {in_words(only)}"
        )
    return tuple(points[i] for i in sorted(left))


def value_of(point: Point, name: str) -> Any:
    """The value of a field by its dotted name, or LACKS."""
    if name == METHOD:
        return LACKS if point.method is None else point.method
    thing: Any = point.experiment
    for part in name.split("."):
        if not is_dataclass(thing) or part not in [field.name for field in fields(thing)]:
            return LACKS
        thing = getattr(thing, part)
    return thing


def names_in(thing: Any, before: str = "") -> Iterator[str]:
    """The dotted names of all fields of a component, and of the components inside it."""
    for field in fields(thing):
        name, value = f"{before}{field.name}", getattr(thing, field.name)
        yield name
        if is_dataclass(value):
            yield from names_in(value, f"{name}.")


def _equal(point: Point, name: str, value: Any, wanted: Any) -> bool:
    if name == METHOD:
        return bool(value == str(wanted))
    if value is None or wanted is None:
        return value is None and str(wanted).casefold() == "none"
    if is_dataclass(value) and wanted == opened(repr(value)).name:
        return True  # a component by its name alone, whatever its fields
    above, _, last = name.rpartition(".")
    owner: Hashable = value_of(point, above) if above else point.experiment
    hint = hints_of(type(owner)).get(last)
    try:
        meant = coerce(wanted, hint, name)
    except Mistake:
        return False
    return bool(meant == value)


def _shown(values: Iterable[Any]) -> str:
    """The values that a field takes, as they are given to --only."""
    texts = list(
        dict.fromkeys(
            brief(value) if is_dataclass(value) else "none" if value is None else repr(value)
            for value in values
        )
    )
    more = f" or one of {len(texts) - SHOWN} others" if len(texts) > SHOWN else ""
    *first, last = texts[:SHOWN]
    if more or not first:
        return ", ".join([*first, last]) + more
    return f"{', '.join(first)} or {last}"


def in_words(only: Conditions) -> str:
    return ", ".join(
        f"{name} = {' or '.join(map(str, values))}" for name, values in sorted(only.items())
    )


def as_file_name(only: Conditions) -> str:
    """A part of the name of the narrowed sweep's record: seed=1+2,data.fold=1. Where it cannot
    hold everything, a hash makes it unique."""
    parts = [(name, list(map(str, values))) for name, values in sorted(only.items())]
    told = ",".join(f"{name}={'+'.join(values)}" for name, values in parts)
    plain = all(re.fullmatch(r"[\w.-]+", value) for _, values in parts for value in values)
    if plain and len(told) <= LONGEST:
        return told
    short = re.sub(r"[^\w.,=+-]+", "_", told)[:LONGEST].rstrip("._")
    return f"{short}.{blake2b(repr(parts).encode(), digest_size=4).hexdigest()}"
