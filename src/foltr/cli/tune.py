"""`foltr tune`: runs a sweep, and chooses its settings by the validation queries."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.sweep import pool_of, quoted, raise_if_incomplete, read_with_notes, summary
from foltr.cli.tools import (
    Dask,
    Engine,
    Jobs,
    Measures,
    Only,
    Out,
    Quiet,
    RunThreads,
    Set,
    Use,
    typed_fields,
)

if TYPE_CHECKING:
    from foltr.report.tuning import Tuned


def tune(
    file: Annotated[Path, typer.Argument(help="A TOML file with a sweep table.")],
    by: Annotated[
        str, typer.Option(help="The measure whose mean on the validation queries decides.")
    ] = "ndcg@10",
    over: Annotated[
        str,
        typer.Option(
            metavar="FIELDS",
            help="The fields to choose, as in 'learner.lr, clients'. Default: all that the sweep"
            " varies, except data, users, attacks, seeds, and what a named method sets.",
            show_default=False,
        ),
    ] = "",
    jobs: Jobs = None,
    out: Out = Path("runs"),
    dask: Dask = None,
    set_: Set = None,
    only: Only = None,
    use: Use = None,
    engine: Engine = "local",
    threads: RunThreads = 1,
    measures: Measures = "",
    quiet: Quiet = False,
) -> None:
    """Run a sweep, and choose the best settings by the validation queries.

    Each data set, fold, kind of user and attack has a choice of its own, by the mean over seeds.
    The test queries are reported for the chosen settings only. The same command continues after
    Ctrl-C."""
    from foltr.report.results import load_runs
    from foltr.report.tuning import SUFFIX, check_tuning, tuned
    from foltr.simulation.runs.execution import RunOptions
    from foltr.simulation.sweeps.run import sweep as run_sweep
    from foltr.simulation.sweeps.state import SweepPanel

    pool = pool_of(jobs, dask)
    given = {"evaluate_on": "validation", **typed_fields(set_, "--set")}
    read = read_with_notes(file, given, only, use)
    fields = [name.strip() for name in over.split(",") if name.strip()]
    check_tuning(read.points, by, fields, measures)
    options = RunOptions(threads, engine, measures=measures)
    began = time.perf_counter()
    with SweepPanel(read.title, quiet, engine) as show:
        name = f"{read.name}.tuning"
        swept = run_sweep(read.points, out, name, read.title, options, pool=pool, show=show)
    print(summary(swept, time.perf_counter() - began, pool, report=False))
    raise_if_incomplete(swept, len(read.points))
    found = tuned(load_runs(swept.record.path), by, fields)
    kept = swept.record.path.with_name(f"{read.name}{SUFFIX}")
    found.keep(kept)
    print(chosen_text(found))
    print(f"`foltr report {quoted(kept)} -o report.html` reports the chosen settings")


def chosen_text(found: Tuned) -> str:
    """A table of the choices, and what a reader must know of them."""
    from textwrap import fill

    from foltr.cli.run import measure
    from foltr.simulation.runs.columns import VALIDATION

    table = found.table()
    measured = found.by, f"{VALIDATION}{found.by}"
    cells = [list(table.columns)]
    for row in table.rows():
        cells.append([measure(v) if name in measured else str(v) for name, v in row.items()])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(["", *(line.rstrip() for line in lines), "", fill(found.statement, 80)])
