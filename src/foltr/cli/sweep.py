"""`foltr sweep`: all experiments of a file, with their progress and a summary."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Engine, Measures, Out, PerQuery, Quiet, Use, trusted_code, typed_fields
from foltr.errors import Mistake

if TYPE_CHECKING:
    from foltr.sweeps.file import Sweep
    from foltr.sweeps.pools import Pool
    from foltr.sweeps.run import Swept


def sweep(
    file: Annotated[Path, typer.Argument(help="A TOML file with a sweep table.")],
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of runs at a time. Default: one per core.", show_default=False),
    ] = None,
    out: Out = Path("runs"),
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="A dask scheduler whose workers can see the folder of --out."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Override a field that the sweep does not vary."
        ),
    ] = None,
    use: Use = None,
    engine: Engine = "local",
    threads: Annotated[
        int, typer.Option(help="Number of threads of each run. Results do not depend on it.")
    ] = 1,
    per_query: PerQuery = False,
    measures: Measures = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the experiments and run none.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run all experiments of a TOML file with a sweep table.

    The same command continues a sweep that was stopped or killed. Finished runs are kept, and
    shared with other sweeps in the same folder. A run that fails does not stop the others."""
    from foltr.sweeps.file import read_sweep
    from foltr.sweeps.panel import SweepPanel
    from foltr.sweeps.pools import Pool, most_jobs
    from foltr.sweeps.run import sweep as run_sweep

    pool = Pool(jobs if jobs is not None else most_jobs(), dask)
    read = read_sweep(file, typed_fields(set_, "--set"), trusted_code(use))
    if dry_run:
        print(listing(read))
        return
    began = time.perf_counter()
    with SweepPanel(read.title, quiet) as show:
        swept = run_sweep(
            read.points, out, read.name, read.title, pool, threads, engine, per_query, show,
            measures,
        )  # fmt: skip
    print(summary(swept, time.perf_counter() - began, pool))
    _raise_if_incomplete(swept, len(read.points))


def listing(read: Sweep) -> str:
    from foltr.spec import brief

    lines = [f"{read.title}: {len(read.points)} experiments"]
    for point in read.points:
        e = point.experiment
        training = f"{e.clients:,} clients, {e.rounds:,} rounds, {brief(e.learner)}"
        lines.append(f"{point.label}   {training if e.baseline is None else brief(e.baseline)}")
    return "\n".join(lines)


def summary(swept: Swept, seconds: float, pool: Pool) -> str:
    from foltr.results import load_runs
    from foltr.sweeps.panel import failure_lines
    from foltr.system.terminal import duration

    runs = load_runs(swept.record.path)
    made = [run.final for run in runs if run.name in set(swept.made)]
    lines = [
        f"{len(swept.made)} runs made in {duration(seconds)}, {len(swept.found)} found,"
        f" {len(swept.failed)} failed" + (f", {swept.waiting} left" if swept.waiting else "")
    ]
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
    failed = [(labels.get(run) or run, error) for run, error in swept.failed.items()]
    lines += failure_lines(failed)
    if len(runs):
        lines.append(f"`foltr report {_quoted(swept.record.path)} -o report.html` writes a report")
    return "\n".join(lines)


def _quoted(path: Path) -> str:
    """As a word of a shell command, relative to the working folder if it lies below."""
    import shlex

    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _raise_if_incomplete(swept: Swept, experiments: int) -> None:
    from foltr.runs.interruptions import Stopped

    if swept.full:
        raise Mistake(
            f"{swept.full}: the sweep stopped. Free some space; the same command continues"
        )
    if swept.waiting:
        raise Stopped(
            f"stopped with {swept.waiting} runs left: the same command continues from there",
            swept.signum,
        )
    if swept.failed:
        raise Mistake(
            f"{len(swept.failed)} of {experiments} runs failed; the same command tries them again"
        )
