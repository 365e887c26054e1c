"""The progress of a sweep, read from its folders: for the sweep itself, `foltr status` and `foltr
watch`; and how it is shown on a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from foltr.core.errors import Mistake
from foltr.core.system.files import is_plain_name, text_of
from foltr.core.system.lock import claimed
from foltr.core.system.terminal import LivePanel, duration, progress_bar
from foltr.simulation.runs.execution import compiling_notice
from foltr.simulation.runs.folder import UNREADABLE, Damaged, Folder, why

SWEEP = ".sweep.json"  # the end of a record's file name
SHOWN = 8  # running or failed runs
WIDTH, LEAST = 40, 10  # of the bar beside its text, most and least
LINE_SECONDS = 5.0


class Planned(NamedTuple):
    """One run of a sweep."""

    run: str  # name of its folder
    method: str | None  # the sweep's name for its method
    work: float = 0.0  # interactions
    kind: str = ""  # runs of one kind take the same time per interaction
    sets: Sequence[str] = ()  # fields that its method sets
    label: str = ""  # shown to users
    chosen: Sequence[str] = ()  # fields whose values were chosen by tuning


@dataclass(frozen=True)
class Record:
    """A sweep on disk: NAME.sweep.json, next to its run folders."""

    path: Path
    title: str
    runs: tuple[Planned, ...]
    note: str = ""  # what a reader of its results must know
    tuned_by: str = ""  # the measure by which its runs were chosen

    @property
    def tuned(self) -> bool:
        """Whether it holds runs of another sweep that were chosen by tuning."""
        return any(run.chosen for run in self.runs)

    @classmethod
    def read(cls, path: Path) -> Record:
        try:
            content = json.loads(text_of(path))
            runs = (
                Planned(**{name: run[name] for name in Planned._fields if name in run})
                for run in content["runs"]
            )
            checked = tuple(_checked(run) for run in runs)
            more = str(content.get("note", "")), str(content.get("tuned_by", ""))
            return cls(path, str(content["title"]), checked, *more)
        except UNREADABLE as error:
            raise Mistake(
                f"{path} cannot be read ({why(error)}): the same command writes it again"
            ) from None

    def written(self) -> str:
        runs = ",\n  ".join(json.dumps(run._asdict()) for run in self.runs)
        note = f'\n "note": {json.dumps(self.note)},' if self.note else ""
        note += f'\n "tuned_by": {json.dumps(self.tuned_by)},' if self.tuned_by else ""
        return f'{{\n "title": {json.dumps(self.title)},{note}\n "runs": [\n  {runs}\n ]\n}}\n'


def _checked(run: Planned) -> Planned:
    """A record may come from somebody else: it may name only folders next to it."""
    if not is_plain_name(run.run):
        raise ValueError(f"{run.run!r} is not the name of a run folder")
    method = None if run.method is None else str(run.method)
    sets, chosen = tuple(map(str, run.sets)), tuple(map(str, run.chosen))
    return Planned(run.run, method, float(run.work), str(run.kind), sets, str(run.label), chosen)


@dataclass(frozen=True)
class Running:
    run: str
    label: str
    round: int
    rounds: int


@dataclass(frozen=True)
class SweepState:
    """The progress of a sweep at one moment."""

    planned: int
    done: int
    running: tuple[Running, ...]
    failed: tuple[tuple[str, str], ...]  # run, error
    left: float | None  # seconds
    damaged: tuple[tuple[str, str], ...] = ()  # run, what is damaged; not done, not failed

    def plain(self) -> dict[str, Any]:
        running = [{"run": r.label, "round": r.round, "rounds": r.rounds} for r in self.running]
        wrong = [*self.failed, *((run, f"damaged: {why}") for run, why in self.damaged)]
        failed = [{"run": run, "error": error} for run, error in wrong]
        counts = {"planned": self.planned, "done": self.done}
        return {**counts, "running": running, "failed": failed, "left": self.left}


@dataclass
class Overview:
    """Observes a sweep, and remembers which runs are done."""

    record: Record
    jobs: int = 1  # runs at a time, as far as known
    _seconds: dict[str, float] = field(default_factory=dict)  # of done runs

    def look(self) -> SweepState:
        running, failed, damaged, out = [], {}, {}, self.record.path.parent
        begun = set(os.listdir(out))  # one system call for all runs that have not begun
        for planned in self.record.runs:
            folder = out / planned.run
            if planned.run in self._seconds or planned.run not in begun:
                continue
            try:
                final = Folder(folder).final()
                Folder(folder).kept_measures()
            except Damaged as damage:
                final, damaged[planned.run] = None, damage.why
            if final is not None:
                self._seconds[planned.run] = float(final["seconds"])
            elif (about := claimed(folder)) is not None:
                at = int(about.get("round", 0)), int(about.get("rounds", 0))
                running.append(Running(planned.run, planned.label or planned.run, *at))
                damaged.pop(planned.run, None)  # it is being made again
            elif planned.run not in damaged and (error := Folder(folder).failure()) is not None:
                failed[planned.run] = error
        self.jobs = max(self.jobs, len(running))
        labels = {planned.run: planned.label or planned.run for planned in self.record.runs}
        return SweepState(
            len(self.record.runs),
            len(self._seconds),
            tuple(running),
            tuple((labels[run], error) for run, error in failed.items()),
            self._left(running, set(failed)),
            tuple((labels[run], what) for run, what in damaged.items()),
        )

    def _left(self, running: list[Running], failed: set[str]) -> float | None:
        """Estimated by the time per interaction of done runs of the same kind, else of all."""
        spent: dict[str, list[float]] = {}
        for planned in self.record.runs:
            if planned.run in self._seconds:
                for kind in ("", planned.kind):
                    total = spent.setdefault(kind, [0.0, 0.0])
                    total[0] += self._seconds[planned.run]
                    total[1] += planned.work
        if not spent or not spent[""][1]:
            return None
        part = {run.run: run.round / run.rounds for run in running if run.rounds}
        over = self._seconds.keys() | failed
        waiting = [run for run in self.record.runs if run.run not in over]
        rates = {kind: seconds / work for kind, (seconds, work) in spent.items() if work}
        left = sum(
            run.work * (1.0 - part.get(run.run, 0.0)) * rates.get(run.kind, rates[""])
            for run in waiting
        )
        return left / max(1, min(self.jobs, len(waiting)))


@dataclass
class Sweeps:
    """All sweeps of a folder, or one given by its record. New sweeps and changed records are
    noticed."""

    path: Path
    _known: dict[Path, tuple[int, Overview]] = field(default_factory=dict)

    def overviews(self) -> list[Overview]:
        if self.path.name.endswith(SWEEP):
            return [self._overview(self.path)]
        found = []
        for record in sorted(self.path.glob(f"*{SWEEP}")):
            with suppress(Mistake):  # `load_runs` reports it
                overview = self._overview(record)
                if not overview.record.tuned:
                    found.append(overview)
        return found

    def _overview(self, record: Path) -> Overview:
        try:
            changed = record.stat().st_mtime_ns
        except OSError as error:
            raise Mistake(f"cannot read {record}: {error.strerror}") from None
        if self._known.get(record, (0, None))[0] != changed:
            self._known[record] = changed, Overview(Record.read(record))
        return self._known[record][1]

    def look(self) -> SweepState:
        """All sweeps together; a run that two sweeps share counts twice."""
        states = [overview.look() for overview in self.overviews()]
        left = [state.left for state in states if state.left is not None]
        return SweepState(
            sum(state.planned for state in states),
            sum(state.done for state in states),
            tuple(run for state in states for run in state.running),
            tuple(run for state in states for run in state.failed),
            max(left) if left else None,
            tuple(run for state in states for run in state.damaged),
        )


class SweepPanel(LivePanel):
    """A panel redrawn in place, or a line now and then. Called with the state of a sweep, about
    twice a second."""

    def __init__(self, title: str, quiet: bool, engine: str = "local") -> None:
        super().__init__(quiet, 0.0, LINE_SECONDS, partial(compiling_notice, engine))
        self.title, self.last = title, ""

    def __call__(self, state: SweepState) -> None:
        line = state_line(state)
        views = (lambda: self._panel(state, line), lambda: line)
        if self.due() and (self.in_place or self.notebook is not None or line != self.last):
            self.last = line
            self.show(*views)
        else:
            self.keep(*views)

    def _panel(self, state: SweepState, line: str) -> Group:
        table = Table.grid(padding=(0, 2))
        for run in state.running[:SHOWN]:
            progress = "starting (may compile kernels)"
            if run.rounds:
                progress = f"round {run.round:,} of {run.rounds:,}"
            table.add_row(Text(f"  {run.label}", style="dim"), Text(progress))
        wrong = failure_lines(state.failed) + failure_lines(state.damaged, "damaged")
        failed = [Text(f"  {each}", style="red") for each in wrong[:SHOWN]]
        room = min(WIDTH, self.console.width - len(line) - 2)
        width = room if room >= LEAST else min(WIDTH, self.console.width)
        bar = Text(progress_bar(state.done, state.planned, width))
        parts = [Text.assemble(bar, "  ", line)] if room >= LEAST else [bar, Text(line)]
        return Group(Text(self.title, style="bold"), *parts, table, *failed)


def state_line(state: SweepState) -> str:
    parts = [f"{state.done} of {state.planned} done", f"{len(state.running)} running"]
    parts.append(f"{len(state.failed)} failed")
    if state.damaged:
        parts.append(f"{len(state.damaged)} damaged")
    if left := time_left(state):
        parts.append(f"{left} left")
    return ", ".join(parts)


def time_left(state: SweepState) -> str:
    """Empty where it is unknown, or nothing is left."""
    if state.left is None or state.done == state.planned:
        return ""
    return duration(state.left)


def failure_lines(failed: Iterable[tuple[str, str]], word: str = "failed") -> list[str]:
    """Pairs of a run and its error; runs with equal errors share one line."""
    errors: dict[str, list[str]] = {}
    for run, error in failed:
        errors.setdefault(error, []).append(run)
    lines = []
    for error, runs in errors.items():
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        lines.append(f"{word}: {'; '.join(runs[:3])}{more}: {error}")
    return lines
