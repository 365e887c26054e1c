"""Commands from runs to evidence: sweep, status, report, watch, clean."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import typer

from foltr.errors import Mistake

RunsPath = Annotated[
    Path, typer.Argument(help="A folder of runs, or a sweep's record (runs/NAME.sweep.json).")
]
WRITTEN = (
    "By its suffix: a page (.html), a figure (.pdf, .svg, .png), a table (.tex, .csv), all runs"
    " (.parquet). May be given more than once."
)
Baseline = Annotated[
    str | None, typer.Option(help="The method to compare with, by label or number.")
]
Columns = Annotated[str, typer.Option(help="Fields that make the columns.")]
Pairs = Annotated[str, typer.Option(help="Fields that tell repetitions apart.")]
AnyVersion = Annotated[
    bool, typer.Option("--any-version", help="Read runs of other versions of foltr as well.")
]


def sweep(
    file: Annotated[Path, typer.Argument(help="A TOML file with a sweep table.")],
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time. Default: one per core.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Where run folders are kept.")] = Path("runs"),
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A dask scheduler; it must share --out.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="As if in the file.")
    ] = None,
    use: Annotated[
        list[Path] | None, typer.Option(help="A Python file with components of your own.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local (compiled) or debug (plain definitions).")
    ] = "local",
    threads: Annotated[
        int, typer.Option(help="For each run. The results do not depend on it.")
    ] = 1,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Keep the measures of each held-out query.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the experiments.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Run all experiments of a file with a sweep table. Killed or stopped, the same command goes
    on from there.

    What is done stays done, and is shared with other sweeps in the same folder. A run that fails
    does not stop the rest."""
    from foltr.cli.sweep_command import sweep_command
    from foltr.sweeps.pools import Pool, most_jobs

    pool = Pool(jobs if jobs is not None else most_jobs(), dask)
    sweep_command(
        file,
        _given(set_, "--set"),
        use or [],
        out,
        pool,
        threads,
        engine,
        per_query,
        dry_run,
        quiet,
    )


def _given(words: list[str] | None, option: str) -> dict[str, Any]:
    """--set rounds=10 --set learner.sessions=2"""
    found: dict[str, Any] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Mistake(f"{option} wants FIELD=VALUE, got {word!r}")
        found[name.strip()] = _literal(value.strip())
    return found


def _literal(text: str) -> Any:
    """A number, a truth value, a tuple; else text, such as a spec."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def status(runs: Annotated[Path, typer.Argument(help="A folder of runs.")] = Path("runs")) -> None:
    """What is done, running, interrupted and failed, by sweep."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foltr.cli.housekeeping import status as look
    from foltr.cli.progress import duration
    from foltr.cli.sweep_command import grouped

    now = look(runs)
    table = Table("sweep", "runs", "done", "running", "failed", "time left")
    for overview in now.sweeps:
        state = overview.look()
        left = "" if state.left is None or state.done == state.planned else duration(state.left)
        counts = (state.planned, state.done, len(state.running), len(state.failed))
        table.add_row(Text(overview.record.title), *map(str, counts), left)
    if now.sweeps:
        Console().print(table)
    print(
        f"{len(now.runs)} finished runs, {len(now.running)} running, {len(now.interrupted)}"
        f" interrupted, {len(now.failed)} failed, {len(now.unread)} that cannot be read"
    )
    for line in grouped([(path.name, error) for path, error in now.failed]):
        print(line)
    for path, why in now.unread:
        print(f"skipped: {path.name}: {why}")


def clean(
    runs: Annotated[Path, typer.Argument(help="A folder of runs.")],
    interrupted: Annotated[
        bool, typer.Option("--interrupted", help="Also runs that could be gone on with.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Also finished results, and records of sweeps.")
    ] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also finished runs whose files are damaged.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove them; without it they are only listed.")
    ] = False,
) -> None:
    """List, and with --yes remove, what is of no more use: failed runs, runs without a checkpoint,
    half-written files.

    Finished results go only with --finished, interrupted runs only with --interrupted; never one
    that is being made."""
    from foltr.cli.housekeeping import removals, remove

    found, count = list(removals(runs, interrupted, finished, damaged)), 0
    for removal in remove(runs, found) if yes else found:
        print(f"{'removed' if yes else 'would remove'}: {removal.path} ({removal.why})")
        count += 1
    print(
        "nothing to remove"
        if not found
        else f"{count} in all" + ("" if yes else ": add --yes to remove them")
    )


def report(
    runs: RunsPath,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help=f"{WRITTEN} Default: report.html", show_default=False),
    ] = None,
    baseline: Baseline = None,
    measure: Annotated[
        str, typer.Option(help="Of figures and tables; a page has them all.")
    ] = "ndcg@10",
    columns: Columns = "users,data",
    pairs: Pairs = "data.fold,data.seed,seed",
    where: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=VALUE", help="Only these runs.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Figures: a logarithmic axis.")] = False,
    band: Annotated[str, typer.Option(help="Figures: sd, ci (95 % of the mean) or none.")] = "sd",
    smooth: Annotated[int, typer.Option(help="Figures: points to average over.")] = 1,
    across: Annotated[str, typer.Option(help="Figures: rounds or interactions.")] = "rounds",
    any_version: AnyVersion = False,
) -> None:
    """Turn finished runs into one page that can be sent to a colleague, or into figures and tables
    of a paper."""
    from foltr.cli.report_command import report_command

    only, fields = _given(where, "--where"), (tuple(columns.split(",")), tuple(pairs.split(",")))
    curves = {"log": log, "band": band, "smooth": smooth, "across": across}
    report_command(
        runs, out or [Path("report.html")], baseline, measure, *fields, only, curves, any_version
    )


def watch(
    runs: RunsPath,
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Only this machine can see it by default.")
    ] = "127.0.0.1",
    baseline: Baseline = None,
    columns: Columns = "users,data",
    pairs: Pairs = "data.fold,data.seed,seed",
    any_version: AnyVersion = False,
) -> None:
    """Serve the report as a page that follows a sweep while it runs."""
    from foltr.cli.report_command import watch_command

    watch_command(
        runs, host, port, baseline, tuple(columns.split(",")), tuple(pairs.split(",")), any_version
    )
