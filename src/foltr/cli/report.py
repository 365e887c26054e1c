"""`foltr report` and `foltr watch`: finished runs as a page, a figure or a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr.cli.tools import typed_fields
from foltr.core.errors import Mistake

if TYPE_CHECKING:
    from foltr.report.results import Runs
    from foltr.report.study import Study

RunsPath = Annotated[
    Path, typer.Argument(help="A folder of runs, or a sweep's record (runs/NAME.sweep.json).")
]
Baseline = Annotated[
    str | None,
    typer.Option(help="The method that others are tested against, by its label or number."),
]
Columns = Annotated[str, typer.Option(help="Fields whose values make the columns.")]
Pairs = Annotated[
    str, typer.Option(help="Fields that identify a repetition. Tests pair runs with equal values.")
]
AnyVersion = Annotated[
    bool, typer.Option("--any-version", help="Also read runs of other versions of foltr.")
]
UseChapters = Annotated[
    list[Path] | None,
    typer.Option(
        help="A Python file with your own chapters or measures. Can be given more than once. No"
        " other code is loaded, even if a run names it."
    ),
]
COLUMNS, PAIRS = "users,data,attack,malicious,roaming", "data.fold,data.seed,seed"


def report(
    runs: RunsPath,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            help="A file to write. Its suffix sets the format: a page (.html), a figure (.pdf,"
            " .svg, .png), a table (.tex, .csv) or all runs (.parquet). Can be given more than"
            " once. Default: report.html",
            show_default=False,
        ),
    ] = None,
    baseline: Baseline = None,
    measure: Annotated[
        str, typer.Option(help="The measure of figures and tables. A page shows all.")
    ] = "ndcg@10",
    measures: Annotated[
        str,
        typer.Option(
            metavar="SPECS",
            help="More measures of whole runs, such as 'RoundsTo(level=0.4), Epsilon()'.",
        ),
    ] = "",
    columns: Columns = COLUMNS,
    pairs: Pairs = PAIRS,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Use only runs with this value."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Figures: use a logarithmic horizontal axis.")
    ] = False,
    band: Annotated[
        str,
        typer.Option(
            help="Figures: sd (standard deviation), ci (95 % interval of the mean), none, or auto:"
            " sd, as bars at the end of the curves if there are more than 6 methods."
        ),
    ] = "auto",
    smooth: Annotated[
        int, typer.Option(help="Figures: number of points in a moving average.")
    ] = 1,
    across: Annotated[
        str, typer.Option(help="Figures: horizontal axis, rounds or interactions.")
    ] = "rounds",
    use: UseChapters = None,
    any_version: AnyVersion = False,
) -> None:
    """Write finished runs as a page, a figure or a table."""
    from foltr.report.measures import unknown_measures
    from foltr.report.results import load_runs
    from foltr.report.study import study

    conditions, outs = typed_fields(where, "--where"), out or [Path("report.html")]
    _check_formats(outs)
    with _told_what_is_written(outs) as written:
        _load(use)
        found = load_runs(runs, any_version)
        print_left_out(found)
        for spec in dict.fromkeys(unknown_measures(found).values()):
            print(
                f"foltr: {spec} is not shown: load the file of the measure with --use",
                file=sys.stderr,
            )
        if measures:
            found = found.measuring(measures)
        chosen = found.where(**conditions)
        if conditions and not len(chosen):
            wanted = ", ".join(f"{name} = {value!r}" for name, value in conditions.items())
            raise Mistake(f"none of {len(found)} runs has {wanted}")
        compared = study(chosen, baseline, _names(pairs), _names(columns))
        curves = {"log": log, "band": band, "smooth": smooth, "across": across}
        for file in outs:
            _write(compared, file, measure, curves)
            written.append(file)
            print(f"{file}: {len(chosen)} runs")


@contextmanager
def _told_what_is_written(outs: list[Path]) -> Iterator[list[Path]]:
    """An interruption says which files are not written. Yields a list for those that are."""
    written: list[Path] = []
    try:
        yield written
    except KeyboardInterrupt:
        missing = " and ".join(str(file) for file in outs if file not in written)
        unwritten = f"{missing} {'is' if len(outs) - len(written) == 1 else 'are'} not written"
        raise KeyboardInterrupt(f"stopped: {unwritten}") from None


def watch(
    runs: RunsPath,
    port: Annotated[int, typer.Option(help="The port of the server. 0: any free port.")] = 8765,
    host: Annotated[
        str,
        typer.Option(help="The address of the server. By default only this machine can open it."),
    ] = "127.0.0.1",
    baseline: Baseline = None,
    columns: Columns = COLUMNS,
    pairs: Pairs = PAIRS,
    use: UseChapters = None,
    any_version: AnyVersion = False,
) -> None:
    """Serve the report as a web page that is updated while a sweep runs. It may be started before
    the sweep: the page then waits for it."""
    from foltr.report.page.live_page import serve
    from foltr.report.results import Loader, Runs
    from foltr.report.study import study
    from foltr.simulation.sweeps.state import Sweeps

    _load(use)
    sweeps, loader = Sweeps(runs), Loader(runs, any_version)
    if runs.exists():
        loader.load()  # a wrong path is an error before the server starts
    else:
        _check_awaited(runs)
        print(f"{runs} does not exist yet: the page waits for a sweep that makes it")

    def load() -> Runs:
        return loader.load() if runs.exists() else Runs(())

    def progress() -> dict[str, Any]:
        return sweeps.look().plain() if runs.exists() else {}

    def waits_for() -> str:
        return "" if runs.exists() else f"Waiting for a sweep: {runs} does not exist yet."

    def sort(found: Runs) -> Study:
        return study(found, baseline, _names(pairs), _names(columns))

    serve(load, progress, host, port, sort, waits_for=waits_for)


def _check_awaited(runs: Path) -> None:
    """A path that does not exist may be that of a sweep that will begin: a folder of runs, or a
    record."""
    from foltr.simulation.sweeps.state import SWEEP

    if runs.suffix in (".toml", ".json") and not runs.name.endswith(SWEEP):
        raise Mistake(f"no runs at {runs}: give a folder of runs, or a record (runs/NAME{SWEEP})")


def _load(files: list[Path] | None) -> None:
    """Load the user's files of chapters."""
    for file in files or ():
        from foltr.experiment.user_files import use

        use(file)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _check_formats(outs: list[Path]) -> None:
    from foltr.report.figures import FORMATS

    known = (".html", ".tex", ".csv", ".parquet", *FORMATS)
    for out in outs:
        if out.suffix not in known:
            raise Mistake(
                f"{out.name!r} has no known suffix: the name of the file must end in"
                f" {', '.join(known)}"
            )


def print_left_out(runs: Runs) -> None:
    """The runs that do not count, on standard error."""
    for skipped in runs.skipped:
        print(f"foltr: skipped {skipped.path.name}: {skipped.why}", file=sys.stderr)
    if runs.skipped or runs.unfinished:
        counts = (
            f"{len(runs)} runs read, {len(runs.skipped)} skipped, {len(runs.unfinished)}"
            " unfinished"
        )
        print(f"foltr: {counts}", file=sys.stderr)


def _write(compared: Study, out: Path, measure: str, curves: dict[str, Any]) -> None:
    from foltr.core.system.files import write_whole
    from foltr.report.figures import FORMATS, figure

    if out.suffix == ".html":
        from foltr.report.page.document import page

        write_whole(out, page(compared))
    elif out.suffix in FORMATS:
        figure(compared, measure, out, **curves)
    elif out.suffix == ".parquet":
        compared.runs.to_parquet(out)
    else:
        from foltr.report.matrix import matrix
        from foltr.report.tables.csv_table import csv_table
        from foltr.report.tables.latex_table import latex_tables

        table = latex_tables if out.suffix == ".tex" else csv_table
        write_whole(out, table(matrix(compared, measure)))
