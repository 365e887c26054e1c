"""Finished runs as data: one tidy table, a row per run, from a folder of run folders or from a sweep's record.

    runs = foltr.load_runs("runs")
    runs["ndcg@10"]                       # a column, in the order of the rows
    runs.where(users="Cascade(kind='perfect')")
    runs.to_csv("runs.csv"); runs.to_pandas(); runs.to_parquet("runs.parquet")

Columns are the fields of the experiment (`data`, `clients`, ...), those of its components (`data.fold`,
`learner.sessions`), and the final measures. What cannot be read is named in `skipped`, what is not finished in
`unfinished`; neither is ever counted as a result.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from foltr.errors import Mistake, did_you_mean
from foltr.files import write_whole
from foltr.overview import SWEEP, Record
from foltr.record import UNREADABLE, Curve, Folder, Metrics, why
from foltr.spec import opened
from foltr.tidy import Tidy

KINDS = ("perfect", "navigational", "informational")


class Skipped(NamedTuple):
    path: Path
    why: str


@dataclass(frozen=True)
class Recorded:
    """One finished run, as its folder tells it. Its components need not be known here: a spec is only text."""

    path: Path
    config: dict[str, Any]  # as in config.toml
    final: dict[str, Any]  # as in result.json
    environment: dict[str, Any]
    metrics: Metrics
    method: str | None = None  # what its sweep calls it
    use: tuple[str, ...] = ()  # files of a user's own that it was made with

    def curve(self, name: str) -> Curve:
        return self.metrics.curve(name)

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The config, and every field of a component by its dotted name."""
        found: dict[str, Any] = {}
        for name, value in self.config.items():
            found[name] = value
            found.update({f"{name}.{inner}": part for inner, part in opened(value).fields.items()})
        return found

    @property
    def row(self) -> dict[str, Any]:
        told = {name: value for name, value in self.final.items() if not isinstance(value, list | dict)}
        clash = {"rounds", "empty"}  # in both, and equal
        about = {"run": self.name, "method": self.method, **self.fields}
        return {**about, **{name: value for name, value in told.items() if name not in clash}}


@dataclass(frozen=True)
class Runs:
    """Finished runs, and what was not counted among them."""

    recorded: tuple[Recorded, ...]
    skipped: tuple[Skipped, ...] = ()
    unfinished: tuple[Path, ...] = ()
    title: str = ""
    planned: int | None = None  # runs that the sweep asks for
    _cache: dict[str, Tidy] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.recorded)

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.recorded)

    def __repr__(self) -> str:
        more = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"<{len(self)} finished runs{more}, {len(self.unfinished)} unfinished>"

    @property
    def table(self) -> Tidy:
        """A row per run."""
        if "table" not in self._cache:
            self._cache["table"] = Tidy.of([run.row for run in self])
        return self._cache["table"]

    def __getitem__(self, column: str) -> list[Any]:
        return self.table[column]

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_csv(self, path: str | Path) -> None:
        write_whole(Path(path), self.table.csv())

    def to_parquet(self, path: str | Path) -> None:
        write_whole(Path(path), self.table.parquet())

    def where(self, test: Callable[[Recorded], bool] | None = None, **fields: Any) -> Runs:
        """Those runs only: `where(clients=100)`, `where(**{"data.fold": 1})`, or any test of a run."""
        known = {name for run in self for name in run.fields}
        for name in fields:
            if name not in known:
                raise Mistake(f"no run has a field {name!r}: {did_you_mean(name, known)}")

        def kept(run: Recorded) -> bool:
            return all(run.fields.get(name) == value for name, value in fields.items()) and (not test or test(run))

        chosen = tuple(run for run in self if kept(run))
        return replace(self, recorded=chosen, planned=None, _cache={})  # what is planned is not of the chosen alone

    def rounds(self, *measures: str) -> Tidy:
        """A row per run and round of the curves that are asked for; empty where a round was not evaluated."""
        rows = []
        for run in self:
            curves = {name: dict(zip(*map(list, run.curve(name)), strict=True)) for name in measures or ("ndcg@10",)}
            for t in sorted({t for curve in curves.values() for t in curve}):
                values = {name: curve.get(t) for name, curve in curves.items()}
                rows.append({"run": run.name, "round": int(t), **values})
        return Tidy.of(rows)

    def queries(self) -> Tidy:
        """A row per run and held-out query, of the runs that kept them (`--per-query`)."""
        rows = []
        for run in self:
            rows += [{"run": run.name, **row} for row in Folder(run.path).queries()]
        return Tidy.of(rows)


Known = dict[Path, tuple[int, Recorded]]  # finished runs that were read before, and when their result was written


def load_runs(path: str | Path, any_version: bool = False, known: Known | None = None) -> Runs:
    """All finished runs below a folder, or those of a sweep's record (runs/NAME.sweep.json).

    Runs of a foltr whose results have other bits are skipped, and named, unless `any_version`. A dictionary `known`
    spares who loads again and again to read again what is finished."""
    path, known = Path(path), {} if known is None else known
    if path.is_file() and path.name.endswith(SWEEP):
        return _of_sweep(path, any_version, known)
    if not path.is_dir():
        raise Mistake(f"no runs at {path}: give a folder of runs, or a sweep's record (runs/NAME{SWEEP})")
    marks = ("config.toml", "result.json")  # either says that a folder is a run's
    below = {file.parent for mark in marks for file in path.glob(f"*/{mark}")}
    folders = [path] if any((path / mark).exists() for mark in marks) else sorted(below)
    names: dict[str, str | None] = {}
    for record in sorted(path.glob(f"*{SWEEP}")):
        names |= {run.run: run.method for run in Record.read(record).runs if run.method or run.run not in names}
    runs = _read(folders, names, any_version, known)
    order = {name: i for i, name in enumerate(names)}  # as the sweeps have it, then by field

    def place(run: Recorded) -> tuple[int, list[tuple[int, float, str]]]:
        return order.get(run.name, len(order)), [_rank(value) for value in run.fields.values()]

    return replace(runs, recorded=tuple(sorted(runs.recorded, key=place)))


def _rank(value: Any) -> tuple[int, float, str]:
    """Sorts numbers by size, then the kinds of users from clear to noisy, then everything else as text."""
    if isinstance(value, int | float):
        return 0, float(value), ""
    text = str(value)
    return 1, next((i for i, kind in enumerate(KINDS) if kind in text), len(KINDS)), text


def _of_sweep(path: Path, any_version: bool, known: Known) -> Runs:
    record = Record.read(path)
    names = {run.run: run.method for run in record.runs}
    folders = [path.parent / name for name in names]
    runs = _read([folder for folder in folders if folder.exists()], names, any_version, known)
    return replace(runs, title=record.title, planned=len(names))


def _read(folders: list[Path], names: dict[str, str | None], any_version: bool, known: Known) -> Runs:
    recorded, skipped, unfinished = [], [], []
    for folder in folders:
        try:
            run = _known(folder, names.get(folder.name), known)
        except Mistake as mistake:
            skipped.append(Skipped(folder, str(mistake)))
            continue
        if run is None:
            unfinished.append(folder)
        elif (other := _other_version(run)) and not any_version:
            skipped.append(Skipped(folder, other))
        else:
            recorded.append(run)
    return Runs(tuple(recorded), tuple(skipped), tuple(unfinished))


def _known(path: Path, method: str | None, known: Known) -> Recorded | None:
    try:
        written = (path / "result.json").stat().st_mtime_ns
    except OSError:
        return None
    if known.get(path, (0, None))[0] != written:
        run = _recorded(path, method)
        if run is None:
            return None
        known[path] = written, run
    return replace(known[path][1], method=method)


def _recorded(path: Path, method: str | None) -> Recorded | None:
    """A finished run, None if it is not finished, or a Mistake that says what is wrong with its files."""
    done = Folder(path).finished()
    if done is None:
        return None
    try:
        config = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
        environment = json.loads((path / "environment.json").read_text(encoding="utf-8"))
        if not isinstance(environment, dict):
            raise ValueError("environment.json holds no table")
    except UNREADABLE as error:
        raise Mistake(f"{path} cannot be read ({why(error)}): if it is damaged, delete it") from None
    used = config.pop("use", [])
    return Recorded(path, config, done[2], environment, done[1], method, tuple(map(str, used)))


def _other_version(run: Recorded) -> str:
    from foltr.running import RESULTS

    theirs = run.environment.get("results")
    if theirs == RESULTS:
        return ""
    maker = f"foltr {run.environment.get('foltr', 'of an unknown version')}"
    return f"made by {maker}, whose results have other bits (number {theirs}, here {RESULTS}): --any-version reads it"
