"""`foltr sweep`: a file's experiments, an overview while they are made, and what came of them."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foltr.cli.progress import duration
from foltr.errors import Mistake
from foltr.results import load_runs
from foltr.runs.interruptions import Stopped
from foltr.spec import brief
from foltr.sweeps.file import Sweep, read_sweep
from foltr.sweeps.pools import Pool
from foltr.sweeps.run import Swept, sweep
from foltr.sweeps.state import State

SHOWN = 8  # running or failed runs


def sweep_command(
    file: Path,
    given: dict[str, Any],
    used: list[Path],
    out: Path,
    pool: Pool,
    threads: int,
    engine: str,
    per_query: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    swept_file = read_sweep(file, given, used)
    if dry_run:
        print(listed(swept_file))
        return
    began = time.perf_counter()
    with SweepPanel(swept_file.title, quiet) as watched:
        made = sweep(
            swept_file.points,
            out,
            swept_file.name,
            swept_file.title,
            pool,
            threads,
            engine,
            per_query,
            watched,
        )
    print(summary(made, time.perf_counter() - began, pool))
    if made.full:
        raise Mistake(f"{made.full}: the sweep stopped; make room, and the same command goes on")
    if made.waiting:
        raise Stopped(
            f"stopped with {made.waiting} runs to go: the same command goes on from there",
            made.signum,
        )
    if made.failed:
        raise Mistake(
            f"{len(made.failed)} of {len(swept_file.points)} runs failed; the same command tries"
            " them again"
        )


def listed(swept: Sweep) -> str:
    lines = [f"{swept.title}: {len(swept.points)} experiments"]
    for point in swept.points:
        e = point.experiment
        learns = f"{e.clients:,} clients, {e.rounds:,} rounds, {brief(e.learner)}"
        lines.append(f"{point.label}   {learns if e.baseline is None else brief(e.baseline)}")
    return "\n".join(lines)


def summary(swept: Swept, seconds: float, pool: Pool) -> str:
    runs = load_runs(swept.record.path)
    made = [run.final for run in runs if run.name in set(swept.made)]
    lines = [
        f"{len(swept.made)} runs made in {duration(seconds)}, {len(swept.found)} found,"
        f" {len(swept.failed)} failed" + (f", {swept.waiting} to go" if swept.waiting else "")
    ]
    if made:
        interactions = sum(final["interactions"] for final in made)
        share = (
            ""
            if pool.dask
            else f"; {swept.kernel_seconds / (seconds * pool.jobs):.0%} of the time in kernels"
        )
        lines.append(
            f"{interactions:,} interactions, {interactions / seconds:,.0f} a second{share}"
        )
    labels = {run.run: run.label for run in swept.record.runs}
    lines += grouped([(labels.get(run) or run, error) for run, error in swept.failed.items()])
    if len(runs):
        record = shlex.quote(str(_relative(swept.record.path)))
        lines.append(f"`foltr report {record} -o report.html` makes a page of it")
    return "\n".join(lines)


def grouped(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Failures with equal errors in one line."""
    errors: dict[str, list[str]] = {}
    for what, error in failed:
        errors.setdefault(error, []).append(what)
    lines = []
    for error, whats in errors.items():
        more = f" and {len(whats) - 3} more" if len(whats) > 3 else ""
        lines.append(f"failed: {'; '.join(whats[:3])}{more}: {error}")
    return lines


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


class SweepPanel:
    """Shows how a sweep stands: a panel in a terminal, a line now and then elsewhere."""

    def __init__(self, title: str, quiet: bool) -> None:
        self.title, self.quiet = title, quiet
        self.console = Console(stderr=True)
        self.lively = self.console.is_terminal and not self.console.is_dumb_terminal and not quiet
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.shown, self.last = 0.0, ""

    def __enter__(self) -> SweepPanel:
        if not self.quiet:
            from foltr.kernels import COMPILING, nothing_compiled

            if nothing_compiled():
                print(COMPILING, file=sys.stderr, flush=True)
        if self.lively:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def __call__(self, state: State) -> None:
        if self.lively:
            self.live.update(self._panel(state), refresh=True)
        elif (
            not self.quiet
            and time.monotonic() - self.shown > 5.0
            and (line := told(state)) != self.last
        ):
            self.shown, self.last = time.monotonic(), line
            print(line, file=sys.stderr, flush=True)

    def _panel(self, state: State) -> Group:
        filled = round(40 * state.done / max(1, state.planned))
        table = Table.grid(padding=(0, 2))
        for part in state.running[:SHOWN]:
            at = (
                f"round {part.round:,} of {part.rounds:,}"
                if part.rounds
                else "starting (kernels may be compiled)"
            )
            table.add_row(Text("  " + part.label, style="dim"), Text(at))
        failed = [Text(f"  {line}", style="red") for line in grouped(state.failed)[:SHOWN]]
        bar = Text("━" * filled + "╌" * (40 - filled) + "  " + told(state))
        return Group(Text(self.title, style="bold"), bar, table, *failed)


def told(state: State) -> str:
    left = (
        ""
        if state.left is None or state.done == state.planned
        else f", {duration(state.left)} left"
    )
    return (
        f"{state.done} of {state.planned} done, {len(state.running)} running, {len(state.failed)}"
        f" failed{left}"
    )
