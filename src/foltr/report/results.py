"""Finished runs as data: one table with a row per run, from a folder of runs or a sweep's record.

    runs = foltr.load_runs("runs")
    runs["ndcg@10"]                       # a column, in the order of the rows
    runs.where(clients=100, **{"users.kind": "perfect"})
    runs.to_csv("runs.csv"); runs.to_pandas(); runs.to_parquet("runs.parquet")

Columns are the fields of the experiment (`data`, `clients`, ...), those of its components
(`data.fold`, `learner.sessions`), and the final measures. Runs that cannot be read are listed in
`skipped`, unfinished ones in `unfinished`; neither counts as a result."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from foltr.components.users.cascade import TABLES
from foltr.core import Array
from foltr.core.errors import Mistake, did_you_mean
from foltr.core.spec import Ambiguous, opened
from foltr.core.system.files import check_extent, given_path, text_of, write_whole
from foltr.core.system.tables import Tidy, html_table, paragraphs
from foltr.core.world.measures import Measure
from foltr.simulation.runs.columns import (
    MEASURES,
    Column,
    Curve,
    Metrics,
    columns_of,
    parse_measures,
)
from foltr.simulation.runs.config import fields_of
from foltr.simulation.runs.folder import (
    CONFIG,
    ENVIRONMENT,
    RESULT,
    RESULTS,
    UNREADABLE,
    Damaged,
    Folder,
)
from foltr.simulation.runs.identity import folders_with_runs, holds_run
from foltr.simulation.runs.result import curve_of
from foltr.simulation.sweeps.state import SWEEP, Planned, Record

MAIN_MEASURES = ("ndcg@10", "mrr@10", "online")  # of a short table
TOLD = 3  # reasons why runs were skipped
WIDEST = 8  # columns of fields in a short table

# of all runs together: so many are read by a kernel, which takes half a second to load
MANY_ROUNDS = 500_000


class Skipped(NamedTuple):
    """A folder or a record that was left out."""

    path: Path
    why: str
    damaged: bool = False


@dataclass(frozen=True, repr=False)
class Recorded:
    """One finished run, as read from its folder. Its components need not be known here: a spec is
    text."""

    path: Path
    config: dict[str, Any]  # as in config.toml
    final: dict[str, Any]  # as in result.json
    environment: dict[str, Any]
    given: Metrics | None = None  # else they are read from the folder at first use
    method: str | None = None  # its sweep's name for it
    use: tuple[str, ...] = ()  # the user's files that it was made with
    sets: tuple[str, ...] = ()  # fields that the sweep's method sets
    chosen: tuple[str, ...] = ()  # fields whose values were chosen by tuning
    by_kernel: bool = False  # how its metrics are read

    @cached_property
    def metrics(self) -> Metrics:
        return self.given or Folder(self.path).metrics(self.by_kernel)

    def __repr__(self) -> str:
        return f"<run {self.name}>"

    def curve(self, name: str) -> Curve:
        return curve_of(self.metrics, self.final, name)

    @cached_property
    def interactions_before(self) -> Array:
        """Interactions up to each round; the first number is 0, for round 0."""
        return np.append(0.0, np.cumsum(self.curve("interactions").values))

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What may have been measured of it, by name."""
        asked = self.final.get(MEASURES)
        return columns_of(map(str, asked.values()) if isinstance(asked, dict) else ())

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The config, and each field of a component by its dotted name."""
        return {
            dotted: part
            for name, value in self.config.items()
            for dotted, part in fields_of(name, value)
        }

    @property
    def revisions(self) -> str:
        """The revisions of components whose results have changed since their first version."""
        numbers = self.environment.get("revisions") or {}
        return ", ".join(f"{name} {number}" for name, number in numbers.items())

    @property
    def _about(self) -> dict[str, Any]:
        return {"run": self.name, "method": self.method, **self.fields}

    @property
    def row(self) -> dict[str, Any]:
        about = self._about
        if self.revisions:
            about["revisions"] = self.revisions
        measures = {
            name: value
            for name, value in self.final.items()
            if name not in about and not isinstance(value, list | dict)
        }
        return {**about, **measures}


@dataclass(frozen=True, repr=False)
class Runs:
    """Finished runs, and the runs that were left out."""

    recorded: tuple[Recorded, ...]
    skipped: tuple[Skipped, ...] = ()
    unfinished: tuple[Path, ...] = ()
    title: str = ""
    planned: int | None = None  # number of runs of the sweep
    selection: str = ""  # the conditions given to `where`
    note: str = ""  # what a reader must know, of a record
    tuned_by: str = ""  # the measure by which runs of a record were chosen

    def __len__(self) -> int:
        return len(self.recorded)

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.recorded)

    def __repr__(self) -> str:
        more = f", {len(self.skipped)} skipped" if self.skipped else ""
        plural = "" if len(self) == 1 else "s"
        return f"<{len(self)} finished run{plural}{more}, {len(self.unfinished)} unfinished>"

    def _repr_html_(self) -> str:
        """In a notebook: a row per run, with the fields in which the runs differ and their main
        measures; then what was left out, and why."""
        table = {name: self[name] for name in self.headings}
        left_out = [f"skipped: {each.path.name}: {each.why}" for each in self.skipped[:TOLD]]
        if len(self.skipped) > TOLD:
            left_out.append(f"and {len(self.skipped) - TOLD:,} more skipped: see .skipped")
        fields = {name for run in self for name in run.fields}
        measured = set(table) - fields
        return paragraphs([repr(self)[1:-1]]) + html_table(table, measured) + paragraphs(left_out)

    @property
    def headings(self) -> list[str]:
        """The columns that a short table shows: the method, the fields in which the runs differ
        (the run's name, if they differ in none), the main measures, and those asked for."""
        found, tops = [], {name for run in self for name in run.config}
        columns = self.table.columns
        for name, values in columns.items():
            top = name.partition(".")[0]
            same_class = len({opened(run.config.get(top)).name for run in self}) <= 1
            inner = any(other.startswith(f"{name}.") for other in columns)
            shown = not inner if same_class else name == top
            if top in tops and shown and len(set(map(repr, values))) > 1:
                found.append(name)
        if any(run.method for run in self):
            found.insert(0, "method")
        asked = (name for run in self for name in run.final.get(MEASURES, ()))
        measures = dict.fromkeys([*MAIN_MEASURES, *asked])
        kept = [m for m in measures if any(v is not None for v in columns.get(m, ()))]
        return [*(found or ["run"])[:WIDEST], *kept] if self.recorded else []

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What may have been measured of any run, by name."""
        return {name: each for run in self for name, each in run.columns.items()}

    def measuring(self, measures: str | Sequence[str | Measure]) -> Runs:
        """The same runs with more measures of whole runs, such as 'RoundsTo(level=0.4)'."""
        asked = parse_measures(measures)
        if other := [each for each in asked if each.kind != "run"]:
            raise Mistake(
                f"{other[0]!r} is no measure of a whole run: give it to `foltr run` or"
                " `foltr sweep` (--measures), which compute it from a finished run's parameters"
            )
        specs = {each.name: repr(each) for each in asked}
        recorded = []
        for run in self:
            known = {**run.final.get(MEASURES, {}), **specs}
            recorded.append(replace(run, final={**run.final, MEASURES: known}))
        return replace(self, recorded=tuple(recorded))

    @cached_property
    def table(self) -> Tidy:
        """A row per run."""
        return Tidy.of([run.row for run in self])

    def __getitem__(self, column: str) -> list[Any]:
        return self.table[column]

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_csv(self, path: str | Path) -> None:
        write_whole(given_path(path), self.table.csv())

    def to_parquet(self, path: str | Path) -> None:
        write_whole(given_path(path), self.table.parquet())

    def where(self, test: Callable[[Recorded], bool] | None = None, **fields: Any) -> Runs:
        """The runs that have these values, as in `where(clients=100)` or `where(**{"data.fold":
        1})`, and pass the test."""
        known = {"run", "method", *(name for run in self for name in run.fields)}
        conditions, chosen = [self.selection], list(self)
        for name, value in fields.items():
            if name not in known:
                raise Mistake(f"no run has a field {name!r}: {did_you_mean(name, known)}")
            chosen = [run for run in chosen if _equal(run._about.get(name), value)]
            conditions.append(f"{name} = {value!r}")
        if test:
            chosen = [run for run in chosen if test(run)]
            conditions.append("a test of its own")
        selection = ", ".join(each for each in conditions if each)
        return replace(self, recorded=tuple(chosen), planned=None, selection=selection)

    def rounds(self, *measures: str) -> Tidy:
        """A row per run and round, with these measures; empty where a round was not evaluated."""
        rows = []
        for run in self:
            curves = {
                name: dict(zip(*map(list, run.curve(name)), strict=True))
                for name in measures or ("ndcg@10",)
            }
            for t in sorted({t for curve in curves.values() for t in curve}):
                values = {name: curve.get(t) for name, curve in curves.items()}
                rows.append({"run": run.name, "round": int(t), **values})
        return Tidy.of(rows)

    def queries(self) -> Tidy:
        """A row per run and held-out query, for runs made with `--per-query`."""
        pairs = ((run.name, row) for run in self for row in Folder(run.path).queries())
        return Tidy.of([{"run": name, **row} for name, row in pairs])


def load_runs(path: str | Path, any_version: bool = False) -> Runs:
    """All finished runs in a folder, or those of a sweep's record (runs/NAME.sweep.json).

    Runs of a version of foltr whose results differ are skipped, unless `any_version`."""
    return Loader(given_path(path), any_version).load()


@dataclass
class Loader:
    """Loads runs repeatedly, and reads each finished run once."""

    path: Path
    any_version: bool = False
    _known: dict[Path, tuple[int, Recorded]] = field(default_factory=dict)

    def load(self) -> Runs:
        if self.path.is_file() and self.path.name.endswith(SWEEP):
            return self._of_sweep()
        if not self.path.is_dir():
            raise Mistake(
                f"no runs at {self.path}: give a folder of runs, or a sweep's record"
                f" (runs/NAME{SWEEP})"
            )
        folders = [self.path] if holds_run(self.path) else folders_with_runs(self.path)
        records, unread = [], []
        for file in sorted(self.path.glob(f"*{SWEEP}")):
            try:
                records.append(Record.read(file))
            except Mistake as mistake:
                unread.append(Skipped(file, str(mistake)))
        sweeps = [record for record in records if not record.tuned]
        planned = _named([run for record in sweeps for run in record.runs])
        runs = self._read(folders, planned)
        order = {name: i for i, name in enumerate(planned)}  # in the sweeps' order, then by field

        def place(run: Recorded) -> tuple[int, list[tuple[int, float, str]]]:
            return order.get(run.name, len(order)), [_rank(value) for value in run.fields.values()]

        return replace(
            runs,
            recorded=tuple(sorted(runs.recorded, key=place)),
            skipped=(*unread, *runs.skipped),
        )

    def _of_sweep(self) -> Runs:
        record = Record.read(self.path)
        planned = _named(record.runs)
        folders = [self.path.parent / name for name in planned]
        runs = self._read([folder for folder in folders if folder.exists()], planned)
        runs = replace(runs, title=record.title, planned=len(planned))
        return replace(runs, note=record.note, tuned_by=record.tuned_by)

    def _read(self, folders: list[Path], planned: dict[str, Planned]) -> Runs:
        recorded: dict[str, Recorded] = {}  # by identity
        skipped, unfinished = [], []
        for folder in folders:
            try:
                run = self._finished(folder)
            except Mistake as mistake:
                skipped.append(Skipped(folder, str(mistake), isinstance(mistake, Damaged)))
                continue
            identity = str(run.environment.get("identity", folder)) if run else ""
            if run is None and (error := Folder(folder).failure()):
                skipped.append(Skipped(folder, f"failed: {error}"))
            elif run is None:
                unfinished.append(folder)
            elif identity in recorded:
                skipped.append(Skipped(folder, f"the same run as {recorded[identity].name}"))
            else:
                plan = planned.get(folder.name, Planned(folder.name, None))
                recorded[identity] = replace(
                    run, method=plan.method, sets=tuple(plan.sets), chosen=tuple(plan.chosen)
                )
        found = tuple(recorded.values())
        if sum(int(run.final["rounds"]) for run in found) > MANY_ROUNDS:
            found = tuple(replace(run, by_kernel=True) for run in found)
        return Runs(found, tuple(skipped), tuple(unfinished))

    def _finished(self, path: Path) -> Recorded | None:
        """A finished run; None if it is not finished; a Mistake if it cannot be read."""
        try:
            written = (path / RESULT).stat().st_mtime_ns
        except OSError:
            return None
        if self._known.get(path, (0, None))[0] != written:
            self._known[path] = written, _recorded(path, self.any_version)
        return self._known[path][1]


def _recorded(path: Path, any_version: bool) -> Recorded:
    try:
        environment = json.loads(text_of(path / ENVIRONMENT))
        if not isinstance(environment, dict):
            raise ValueError(f"{ENVIRONMENT} holds no table")
        config = tomllib.loads(text_of(path / CONFIG))
        check_extent(config)
        used = tuple(map(str, config.pop("use", [])))
    except UNREADABLE as error:
        raise Damaged(path, error) from None
    if environment.get("results") != RESULTS and not any_version:
        maker = f"foltr {environment.get('foltr', 'of an unknown version')}"
        number = f"results version {environment.get('results')}, here {RESULTS}"
        raise Mistake(
            f"made by {maker}, whose results differ ({number}): add --any-version to read it"
        )
    final = Folder(path).final()
    if final is None:
        raise Mistake(f"{path} was deleted while it was read")
    final |= Folder(path).kept_measures()
    return Recorded(path, config, final, environment, use=used)


def _named(runs: Sequence[Planned]) -> dict[str, Planned]:
    """By folder name. A run that has different names in two sweeps gets both."""
    found: dict[str, Planned] = {}
    for run in runs:
        known = found.get(run.run, run)
        names = dict.fromkeys(name for name in (known.method, run.method) if name)
        sets = tuple(dict.fromkeys([*known.sets, *run.sets]))
        found[run.run] = run._replace(method=" / ".join(names) or None, sets=sets)
    return found


def _equal(value: Any, wanted: Any) -> bool:
    """Text from a command line that is also a number or a truth value may mean either."""
    return value == wanted or (isinstance(wanted, Ambiguous) and value == wanted.value)


def _rank(value: Any) -> tuple[int, float, str]:
    """Orders numbers by size, then kinds of users from clear to noisy clicks, then all else as
    text."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    text = str(value)
    return 1, next((i for i, kind in enumerate(TABLES) if kind in text), len(TABLES)), text
