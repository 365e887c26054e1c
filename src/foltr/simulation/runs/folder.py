"""A run on disk: config, metrics per round, checkpoints, environment. Atomic, resumable, plain
files.

config.toml       every field; `foltr run` takes it
environment.json  identity, versions, machine, commit
checkpoint.npz    while it runs: all that the rest of the run depends on
metrics.csv       one row per round, empty where a round was not evaluated
params.npy        final parameters, float64, as the server holds them
queries.csv       when asked: the final ranker on each held-out query
measures.json     measures that were asked for after the run was finished
failed.json       why the last attempt failed, until the next one
result.json       final measures, and sums of the files; written last: a folder with it is whole
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, shown
from foltr.core.federation import State
from foltr.core.system.files import (
    check_extent,
    content_of,
    is_plain_name,
    regular,
    text_of,
    write_whole,
    writing,
)
from foltr.core.system.tables import Tidy
from foltr.simulation.runs.columns import Metrics

CONFIG, ENVIRONMENT, CHECKPOINT = "config.toml", "environment.json", "checkpoint.npz"
METRICS, PARAMS, QUERIES = "metrics.csv", "params.npy", "queries.csv"
FAILED, RESULT, MEASURED = "failed.json", "result.json", "measures.json"

# raised whenever a change alters the bits of results, so that old runs are not taken for new ones
RESULTS = 1
SUMS = "sums"  # in result.json: of the files that belong to it
SUMMED = {PARAMS, METRICS, CONFIG, ENVIRONMENT, "result"}  # at least
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    BadZipFile,
    zlib.error,
    csv.Error,
)


class Damaged(Mistake):
    """A folder of a run whose files cannot be read, or are not as they were written."""

    def __init__(self, what: Path, error: BaseException, way_out: str = "") -> None:
        self.what, self.why = what, why(error)
        # Whether it may be made again in its place, because the content itself is wrong. What
        # cannot be opened may be whole, and a Mistake has another reason.
        cannot_open = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        self.heals = not cannot_open and not isinstance(error, Mistake)
        again = "the command that made it makes it again, `foltr clean --damaged` deletes it"
        way_out = way_out or (again if self.heals else "if it is damaged, delete it")
        super().__init__(f"{what} cannot be read ({self.why}): {way_out}")


@dataclass(frozen=True)
class Folder:
    """One run's folder."""

    path: Path

    def create(self) -> None:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULT).exists()

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / CHECKPOINT).exists()

    def open(self, files: dict[str, str]) -> None:
        (self.path / FAILED).unlink(missing_ok=True)
        for name, content in files.items():
            write_whole(self.path / name, content)

    def checkpoint(
        self, state: State, memory: Array, metrics: Metrics, seconds: tuple[float, float]
    ) -> None:
        arrays = {
            "params": state.params,
            "t": np.array(state.t),
            "withheld": np.array(state.withheld),
            "seconds": np.array(seconds),
            "memory": memory,
            "evaluated": np.array(metrics.evaluated, np.int64),
            **{f"aggregator.{i}": part for i, part in enumerate(state.aggregator)},
            **{f"optimizer.{i}": part for i, part in enumerate(state.optimizer)},
            **{f"online.{name}": np.array(values) for name, values in metrics.online.items()},
            **{f"offline.{name}": np.array(values) for name, values in metrics.offline.items()},
        }
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_whole(self.path / CHECKPOINT, buffer.getvalue())

    def resume(self) -> tuple[State, Array, Metrics, tuple[float, float]] | None:
        """What `checkpoint` wrote, or None if there is nothing."""
        file = self.path / CHECKPOINT
        if not file.exists():
            return None
        try:
            with regular(file) as opened, np.load(opened, allow_pickle=False) as stored:
                return _resumed(dict(stored))
        except UNREADABLE as error:
            raise Damaged(file, error, "delete it to start this run again") from None

    def finish(self, params: Array, metrics: Metrics, final: dict[str, Any]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, params, allow_pickle=False)
        files = {PARAMS: buffer.getvalue(), METRICS: metrics.csv().encode()}
        for name, content in files.items():
            write_whole(self.path / name, content)
        files |= {name: (self.path / name).read_bytes() for name in (CONFIG, ENVIRONMENT)}
        files["result"] = _canonical(final)
        sums = {name: _sum(content) for name, content in files.items()}
        self._write_json(RESULT, {**final, SUMS: sums})
        (self.path / CHECKPOINT).unlink(missing_ok=True)

    def final(self) -> dict[str, Any] | None:
        """The final measures, every file checked to be as it was written; None if the run is not
        finished."""
        file = self.path / RESULT
        if not file.exists():
            return None
        with self._readable():
            final = json.loads(text_of(file))
            if SUMS not in final and "seconds" in final:
                raise Mistake(
                    f"{self.path} was made by an earlier foltr, which kept no sums of its files"
                )
            sums = dict(final.pop(SUMS, {}))
            if not set(sums) >= SUMMED:
                raise ValueError("sums are missing")
            if other := [name for name in sums if not is_plain_name(name)]:
                raise ValueError(f"{shown(other[0])} is no name of a file in the folder")
            for name, written in sums.items():
                content = _canonical(final) if name == "result" else content_of(self.path / name)
                if _sum(content) != written:
                    raise ValueError(f"{name} is not as it was written")
            check_extent(final)
            float(final["seconds"]), int(final["rounds"])
        return dict(final)

    def finished(self) -> tuple[Array, Metrics, dict[str, Any]] | None:
        """What `finish` wrote, or None if the run is not whole."""
        final = self.final()
        if final is None:
            return None
        with self._readable():
            return self.params(), self.metrics(), final

    def params(self) -> Array:
        with regular(self.path / PARAMS) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def environment(self) -> dict[str, Any]:
        with self._readable():
            return dict(json.loads(text_of(self.path / ENVIRONMENT)))

    def metrics(self, by_kernel: bool = False) -> Metrics:
        """What was measured in every round. `by_kernel`: as arrays, which is faster where many
        runs are read."""
        with self._readable():
            content = content_of(self.path / METRICS)
            return Metrics.from_bytes(content) if by_kernel else Metrics.from_csv(content.decode())

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except Damaged:
            raise
        except UNREADABLE as error:
            raise Damaged(self.path, error) from None

    def fail(self, error: str, details: str) -> None:
        """Record why the last attempt failed; the next attempt deletes the record."""
        self.create()
        self._write_json(FAILED, {"error": error, "details": details})

    def failure(self) -> str | None:
        try:
            return str(json.loads(text_of(self.path / FAILED))["error"])
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            return f"{FAILED} cannot be read ({why(error)})"

    def keep_queries(self, ids: list[str], names: tuple[str, ...], values: Array) -> None:
        """The final ranker on each held-out query, values (q, measures); empty where a measure is
        undefined."""
        columns: dict[str, list[Any]] = {"query": ids}
        for name, column in zip(names, values.T.tolist(), strict=True):
            columns[name] = [None if np.isnan(value) else value for value in column]
        write_whole(self.path / QUERIES, Tidy(columns).csv())

    def keep_measures(self, found: dict[str, tuple[str, float | None, str]]) -> None:
        """Store measures of the final parameters, by name: the spec of each, its value, and the
        hash of the user's file that defines it (nothing for foltr's own)."""
        stored = {**self._kept(), **{name: list(each) for name, each in found.items()}}
        params = _sum(content_of(self.path / PARAMS))
        self._write_json(MEASURED, {"params": params, "measures": stored})

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        write_whole(self.path / name, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def kept_measures(self) -> dict[str, Any]:
        """What `keep_measures` stored, as numbers of result.json: the values, and under `measures`
        and `measure_files` the specs and codes of all measures that were asked for."""
        kept = self._kept()
        if not kept:
            return {}
        specs = {name: spec for name, (spec, _, _) in kept.items()}
        codes = {name: code for name, (_, _, code) in kept.items() if code}
        with self._readable():
            before = json.loads(text_of(self.path / RESULT))
        asked = before.get("measures", {})  # of others, result.json is right
        return {
            **{n: value for n, (_, value, _) in kept.items() if n in asked or n not in before},
            "measures": before.get("measures", {}) | specs,
            "measure_files": before.get("measure_files", {}) | codes,
        }

    def _kept(self) -> dict[str, Any]:
        file = self.path / MEASURED
        if not file.exists():
            return {}
        try:
            table = json.loads(text_of(file))
            check_extent(table)
            if table["params"] != _sum(content_of(self.path / PARAMS)):
                return {}  # of another run that was in this folder
            return {
                str(name): (str(spec), None if value is None else float(value), str(code))
                for name, (spec, value, code) in table["measures"].items()
            }
        except UNREADABLE as error:
            raise Damaged(file, error, "delete it") from None

    def queries(self) -> list[dict[str, Any]]:
        """What `keep_queries` wrote, a row per query; nothing if it was not asked for."""
        file = self.path / QUERIES
        if not file.exists():
            return []
        try:
            names, *rows = csv.reader(io.StringIO(text_of(file), newline=""))
            table: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
            for row in table:
                for name in row.keys() - {"query"}:
                    row[name] = float(row[name]) if row[name] else None
            return table
        except UNREADABLE as error:
            raise Damaged(file, error, "delete it and ask for it again") from None

    def heal(self) -> str:
        """Delete what is damaged, so that it is made again; only for who holds the run's lock.
        Returns what was damaged, or "". Raises a Mistake where making it again could lose
        something: files that are there and cannot be opened, and runs of an earlier foltr."""
        parts = (
            (self.finished, (RESULT, PARAMS, METRICS, QUERIES, MEASURED)),
            (self._kept, (MEASURED,)),
            (self.queries, (QUERIES,)),
            (self.resume, (CHECKPOINT,)),
        )
        healed = []
        for read, files in parts:
            try:
                read()
            except Damaged as damage:
                if not damage.heals:
                    raise
                with writing(self.path):
                    for name in files:
                        (self.path / name).unlink(missing_ok=True)
                file = "" if damage.what == self.path else f"{damage.what.name}: "
                healed.append(f"{file}{damage.why}")
        return "; ".join(healed)


def _canonical(final: dict[str, Any]) -> bytes:
    return json.dumps(final, sort_keys=True).encode()


def _sum(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


def why(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | Path):
        return f"{Path(error.filename).name} is missing"
    return f"{type(error).__name__}: {error}"


def _resumed(arrays: dict[str, Array]) -> tuple[State, Array, Metrics, tuple[float, float]]:
    """What `Folder.checkpoint` put into its arrays."""

    families: dict[str, dict[str, Array]] = defaultdict(dict)
    for key, part in arrays.items():
        family, _, name = key.partition(".")
        families[family][name] = part

    def memory_of(name: str) -> tuple[Array, ...]:
        return tuple(families[name][str(i)] for i in range(len(families[name])))

    rounds = int(arrays["t"]), int(arrays.get("withheld", 0))
    state = State(arrays["params"], memory_of("aggregator"), memory_of("optimizer"), *rounds)
    online = {name: part.tolist() for name, part in families["online"].items()}
    offline = {name: part.tolist() for name, part in families["offline"].items()}
    metrics = Metrics(online, arrays["evaluated"].tolist(), offline)
    made, busy = arrays["seconds"].tolist()
    return state, arrays["memory"], metrics, (made, busy)
