"""Finished runs as data: one tidy table, a row per run, from a folder of run folders or from a
sweep's record.

    runs = foltr.load_runs("runs")
    runs["ndcg@10"]                       # a column, in the order of the rows
    runs.where(clients=100, **{"users.kind": "perfect"})
    runs.to_csv("runs.csv"); runs.to_pandas(); runs.to_parquet("runs.parquet")

Columns are the fields of the experiment (`data`, `clients`, ...), those of its components
(`data.fold`, `learner.sessions`), and the final measures. What cannot be read is named in
`skipped`, what is not finished in `unfinished`; neither is ever counted as a result."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from foltr.components.users.cascade import TABLES
from foltr.errors import Mistake, did_you_mean
from foltr.runs.folder import RESULTS, UNREADABLE, Curve, Folder, Metrics, why
from foltr.spec import opened
from foltr.sweeps.state import SWEEP, Planned, Record
from foltr.system.files import check_extent, text_of, write_whole
from foltr.system.table import Tidy

MARKS = ("config.toml", "result.json")  # either says that a folder is a run's


class Skipped(NamedTuple):
    path: Path
    why: str


@dataclass(frozen=True, repr=False)
class Recorded:
    """One finished run, as its folder tells it. Its components need not be known here: a spec is
    only text."""

    path: Path
    config: dict[str, Any]  # as in config.toml
    final: dict[str, Any]  # as in result.json
    environment: dict[str, Any]
    given: Metrics | None = None  # else they are read when they are first asked for
    method: str | None = None  # what its sweep calls it
    use: tuple[str, ...] = ()  # files of a user's own that it was made with
    sets: tuple[str, ...] = ()  # fields that the sweep's method sets

    @cached_property
    def metrics(self) -> Metrics:
        return self.given or Folder(self.path).metrics()

    def __repr__(self) -> str:
        return f"<run {self.name}>"

    def curve(self, name: str) -> Curve:
        return self.metrics.curve(name)

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The config, and every field of a component by its dotted name."""
        return {
            dotted: part
            for name, value in self.config.items()
            for dotted, part in fields_of(name, value)
        }

    @property
    def row(self) -> dict[str, Any]:
        about = {"run": self.name, "method": self.method, **self.fields}
        if revisions := self.environment.get(
            "revisions"
        ):  # of components that had other bits before
            about["revisions"] = ", ".join(
                f"{name} {number}" for name, number in revisions.items()
            )
        told = {
            name: value for name, value in self.final.items() if not isinstance(value, list | dict)
        }
        return {**about, **{name: value for name, value in told.items() if name not in about}}


def fields_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value of a config, and the fields of the component that it is, by dotted names."""
    yield name, value
    for inner, part in opened(value).fields.items():
        yield from fields_of(f"{name}.{inner}", part)


@dataclass(frozen=True, repr=False)
class Runs:
    """Finished runs, and what was not counted among them."""

    recorded: tuple[Recorded, ...]
    skipped: tuple[Skipped, ...] = ()
    unfinished: tuple[Path, ...] = ()
    title: str = ""
    planned: int | None = None  # runs that the sweep asks for
    selection: str = ""  # what `where` chose

    def __len__(self) -> int:
        return len(self.recorded)

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.recorded)

    def __repr__(self) -> str:
        more = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"<{len(self)} finished runs{more}, {len(self.unfinished)} unfinished>"

    @cached_property
    def table(self) -> Tidy:
        """A row per run."""
        return Tidy.of([run.row for run in self])

    def __getitem__(self, column: str) -> list[Any]:
        return self.table[column]

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_csv(self, path: str | Path) -> None:
        write_whole(Path(path), self.table.csv())

    def to_parquet(self, path: str | Path) -> None:
        write_whole(Path(path), self.table.parquet())

    def where(self, test: Callable[[Recorded], bool] | None = None, **fields: Any) -> Runs:
        """Those runs only: `where(clients=100)`, `where(**{"data.fold": 1})`, or any test of a
        run."""
        known = {"run", "method", *(name for run in self for name in run.fields)}
        for name in fields:
            if name not in known:
                raise Mistake(f"no run has a field {name!r}: {did_you_mean(name, known)}")

        def kept(run: Recorded) -> bool:
            its = {"run": run.name, "method": run.method, **run.fields}
            return all(its.get(name) == value for name, value in fields.items()) and (
                not test or test(run)
            )

        told = [f"{name} = {value!r}" for name, value in fields.items()] + (
            ["a test of its own"] if test else []
        )
        chosen = tuple(run for run in self if kept(run))
        selection = ", ".join([*([self.selection] if self.selection else []), *told])
        return replace(self, recorded=chosen, planned=None, selection=selection)

    def rounds(self, *measures: str) -> Tidy:
        """A row per run and round of the curves that are asked for; empty where a round was not
        evaluated."""
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
        """A row per run and held-out query, of the runs that kept them (`--per-query`)."""
        rows: list[dict[str, Any]] = []
        for run in self:
            rows += [{"run": run.name, **row} for row in Folder(run.path).queries()]
        return Tidy.of(rows)


def load_runs(path: str | Path, any_version: bool = False) -> Runs:
    """All finished runs below a folder, or those of a sweep's record (runs/NAME.sweep.json).

    Runs of a foltr whose results have other bits are skipped, and named, unless `any_version`."""
    return Loader(Path(path), any_version).load()


@dataclass
class Loader:
    """Loads again and again without reading twice what is finished."""

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
        one = any((self.path / mark).exists() for mark in MARKS)
        below = {file.parent for mark in MARKS for file in self.path.glob(f"[!.]*/{mark}")}
        records, unread = [], []
        for file in sorted(self.path.glob(f"*{SWEEP}")):
            try:
                records.append(Record.read(file))
            except Mistake as mistake:
                unread.append(Skipped(file, str(mistake)))
        planned = _named([run for record in records for run in record.runs])
        runs = self._read([self.path] if one else sorted(below), planned)
        order = {name: i for i, name in enumerate(planned)}  # as the sweeps have it, then by field

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
        return replace(runs, title=record.title, planned=len(planned))

    def _read(self, folders: list[Path], planned: dict[str, Planned]) -> Runs:
        recorded: dict[str, Recorded] = {}  # by identity
        skipped, unfinished = [], []
        for folder in folders:
            try:
                run = self._finished(folder)
            except Mistake as mistake:
                skipped.append(Skipped(folder, str(mistake)))
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
                recorded[identity] = replace(run, method=plan.method, sets=tuple(plan.sets))
        return Runs(tuple(recorded.values()), tuple(skipped), tuple(unfinished))

    def _finished(self, path: Path) -> Recorded | None:
        """A finished run, None if it is not finished, or a Mistake that says what is wrong with
        it."""
        try:
            written = (path / "result.json").stat().st_mtime_ns
        except OSError:
            return None
        if self._known.get(path, (0, None))[0] != written:
            self._known[path] = written, _recorded(path, self.any_version)
        return self._known[path][1]


def _recorded(path: Path, any_version: bool) -> Recorded:
    try:
        environment = json.loads(text_of(path / "environment.json"))
        if not isinstance(environment, dict):
            raise ValueError("environment.json holds no table")
        config = tomllib.loads(text_of(path / "config.toml"))
        check_extent(config)
        used = tuple(map(str, config.pop("use", [])))
    except UNREADABLE as error:
        raise Mistake(
            f"{path} cannot be read ({why(error)}): if it is damaged, delete it"
        ) from None
    if environment.get("results") != RESULTS and not any_version:
        maker = f"foltr {environment.get('foltr', 'of an unknown version')}"
        bits = (
            f"whose results have other bits (number {environment.get('results')}, here {RESULTS})"
        )
        raise Mistake(f"made by {maker}, {bits}: --any-version reads it")
    final = Folder(path).final()
    if final is None:
        raise Mistake(f"{path} has gone while it was read")
    return Recorded(path, config, final, environment, use=used)


def _named(runs: Sequence[Planned]) -> dict[str, Planned]:
    """By folder name. A run that two sweeps name differently has both names."""
    found: dict[str, Planned] = {}
    for run in runs:
        known = found.get(run.run, run)
        names = dict.fromkeys(name for name in (known.method, run.method) if name)
        sets = tuple(dict.fromkeys([*known.sets, *run.sets]))
        found[run.run] = run._replace(method=" / ".join(names) or None, sets=sets)
    return found


def _rank(value: Any) -> tuple[int, float, str]:
    """Sorts numbers by size, then the kinds of users from clear to noisy, then everything else as
    text."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    text = str(value)
    return 1, next((i for i, kind in enumerate(TABLES) if kind in text), len(TABLES)), text
