"""`foltr sweep`: all experiments of a file, with their progress and a summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr.cli.tools import (
    Dask,
    Engine,
    Jobs,
    Logs,
    Measures,
    Only,
    Out,
    PerQuery,
    Quiet,
    RunThreads,
    Set,
    Use,
    trusted_code,
    typed_choices,
    typed_fields,
)
from foltr.core.errors import Mistake

if TYPE_CHECKING:
    from foltr.simulation.sweeps.estimate import Part
    from foltr.simulation.sweeps.file import Point, Sweep
    from foltr.simulation.sweeps.pools import Pool
    from foltr.simulation.sweeps.run import Swept


def sweep(
    file: Annotated[Path, typer.Argument(help="A TOML file with a sweep table.")],
    jobs: Jobs = None,
    out: Out = Path("runs"),
    dask: Dask = None,
    set_: Set = None,
    only: Only = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/COUNT",
            help="Make only a part of the runs, such as 3/10: for tasks of a job array.",
        ),
    ] = None,
    use: Use = None,
    engine: Engine = "local",
    threads: RunThreads = 1,
    per_query: PerQuery = False,
    measures: Measures = "",
    log: Logs = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="List the experiments and run none. Estimate the time from finished runs.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run all experiments of a TOML file with a sweep table.

    The same command continues a sweep that was stopped or killed. Finished runs are kept, and
    shared with other sweeps in the same folder. A run that fails does not stop the others."""
    from foltr.experiment.user_files import files_behind
    from foltr.simulation.runs.columns import parse_measures
    from foltr.simulation.runs.execution import RunOptions
    from foltr.simulation.sweeps.estimate import Part
    from foltr.simulation.sweeps.run import sweep as run_sweep
    from foltr.simulation.sweeps.state import SweepPanel

    pool = pool_of(jobs, dask)
    share = None if part is None else Part.of_text(part)
    read = read_with_notes(file, typed_fields(set_, "--set"), only, use)
    if dry_run:
        print(listing(read, share))
        print(outlook(mine(read, share), out, pool, engine))
        return
    options = RunOptions(threads, engine, per_query, measures, log or ())
    began = time.perf_counter()
    with SweepPanel(read.title, quiet, engine) as show:
        swept = run_sweep(
            read.points, out, read.name, read.title, options, pool=pool, show=show, part=share
        )
    files = sorted(files_behind(parse_measures(measures)))
    print(summary(swept, time.perf_counter() - began, pool, use=files))
    raise_if_incomplete(swept, len(mine(read, share)))


def pool_of(jobs: int | None, dask: str | None) -> Pool:
    from foltr.simulation.sweeps.pools import Pool, most_jobs

    return Pool(jobs if jobs is not None else most_jobs(), dask)


def read_with_notes(
    file: Path, fields: dict[str, Any], only: list[str] | None, use: list[Path] | None
) -> Sweep:
    """The sweep in a file; its notes are printed."""
    from foltr.simulation.sweeps.file import read_sweep

    read = read_sweep(file, fields, trusted_code(use), typed_choices(only, "--only"))
    for note in read.notes:
        print(f"foltr: {note}", file=sys.stderr)
    return read


def mine(read: Sweep, share: Part | None) -> tuple[Point, ...]:
    """The experiments that this command makes."""
    if share is None:
        return read.points
    chosen = set(share.chosen([point.experiment for point in read.points]))
    return tuple(point for point in read.points if point.experiment in chosen)


def listing(read: Sweep, share: Part | None = None) -> str:
    from foltr.core.spec import brief

    points = mine(read, share)
    whole = "" if share is None else f" of {len(read.points)} (part {share})"
    lines = [f"{read.title}: {len(points)}{whole} experiments"]
    for point in points:
        e = point.experiment
        training = f"{e.clients:,} clients, {e.rounds:,} rounds, {brief(e.learner)}"
        lines.append(f"{point.label}   {training if e.baseline is None else brief(e.baseline)}")
    return "\n".join(lines)


def outlook(points: Sequence[Point], out: Path, pool: Pool, engine: str) -> str:
    """How many runs are left to make, and how long that will take."""
    from foltr.core.system.terminal import duration
    from foltr.simulation.sweeps.estimate import estimate, finished_in

    jobs = 1 if pool.dask else pool.jobs
    found = estimate([p.experiment for p in points], finished_in(out), jobs, engine)
    left = f"{found.left} to make, {found.finished} finished in {out}"
    if not found.left:
        return left
    if found.seconds is None:
        return f"{left}\ntime unknown: no run like these is finished in {out}"
    at_a_time = "one after another" if jobs == 1 else f"{jobs} at a time"
    lacks = f", without {found.unknown} that are like no finished run" if found.unknown else ""
    where = ", some of them made by another kind of processor" if found.elsewhere else ""
    return (
        f"{left}\nabout {duration(max(1.0, found.seconds))}, {at_a_time}{lacks}: estimated from"
        f" {found.based_on} finished run{'s' if found.based_on > 1 else ''}{where}"
    )


def summary(
    swept: Swept, seconds: float, pool: Pool, report: bool = True, use: Sequence[str] = ()
) -> str:
    """What was made, found and failed; with the command that reports it, which needs the files of
    measures in `use`."""
    from foltr.core.system.terminal import duration
    from foltr.report.results import load_runs
    from foltr.simulation.sweeps.state import failure_lines

    runs = load_runs(swept.record.path)
    made = [run.final for run in runs if run.name in set(swept.made)]
    lines = [
        f"{len(swept.made)} runs made in {duration(seconds)}, {len(swept.found)} found,"
        f" {len(swept.failed)} failed"
        + (f", {len(swept.damaged)} damaged" if swept.damaged else "")
        + (f", {swept.waiting} left" if swept.waiting else "")
    ]
    for name, number in swept.not_recorded.items():
        runs_of = f"{number} finished run{'s' if number > 1 else ''}"
        lines.append(f"{name} was not recorded in {runs_of}: delete their folders to record it")
    for different, number in swept.other_code.items():
        lines.append(
            f"note: {number} of the runs that were found were made by other code ({different}):"
            " their last bits may differ, and what follows from them"
        )
    if made:
        interactions = sum(final["interactions"] for final in made)
        kernels = swept.kernel_seconds / (seconds * pool.jobs)
        share = "" if pool.dask else f"; {kernels:.0%} of the time in kernels"
        lines.append(
            f"{interactions:,} interactions, {interactions / seconds:,.0f} per second{share}"
        )
    labels = {run.run: run.label for run in swept.record.runs}
    for why, runs_with in (
        ("failed", swept.failed),
        ("damaged", swept.damaged),
        ("was damaged, made again", swept.healed),
    ):
        lines += failure_lines([(labels.get(run) or run, e) for run, e in runs_with.items()], why)
    if len(runs) and report:
        loads = "".join(f" --use {quoted(Path(file))}" for file in use)
        command = f"foltr report {quoted(swept.record.path)}{loads} -o report.html"
        lines.append(f"`{command}` writes a report")
    return "\n".join(lines)


def quoted(path: Path) -> str:
    """As a word of a shell command, relative to the working folder if it lies below."""
    import shlex

    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def raise_if_incomplete(swept: Swept, experiments: int) -> None:
    from foltr.simulation.runs.interruptions import Stopped

    if swept.full:
        raise Mistake(
            f"{swept.full}: the sweep stopped. Free some space; the same command continues"
        )
    if swept.waiting:
        raise Stopped(
            f"stopped with {swept.waiting} runs left: the same command continues from there",
            swept.signum,
        )
    wrong = []
    if swept.failed:
        wrong.append(
            f"{len(swept.failed)} of {experiments} runs failed; the same command tries them again"
        )
    if swept.damaged:
        wrong.append(
            f"{len(swept.damaged)} of {experiments} runs are damaged, and not made again because"
            " their files may be whole: `foltr clean --damaged"
            f" {quoted(swept.record.path.parent)}` deletes them"
        )
    if wrong:
        raise Mistake(". ".join(wrong))
