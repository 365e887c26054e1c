"""`foltr report` and `foltr watch`: from a path to a page, a figure or a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from foltr.errors import Mistake
from foltr.report.figures import FORMATS, figure
from foltr.report.study import Study, study
from foltr.results import Loader, Runs, load_runs
from foltr.sweeps.state import Sweeps
from foltr.system.files import write_whole

KINDS = (".html", ".tex", ".csv", ".parquet", *FORMATS)


def report_command(
    path: Path,
    outs: list[Path],
    baseline: str | None,
    measure: str,
    columns: tuple[str, ...],
    pairs: tuple[str, ...],
    where: dict[str, Any],
    curves: dict[str, Any],
    any_version: bool,
) -> None:
    for out in outs:
        if out.suffix not in KINDS:
            raise Mistake(
                f"cannot tell from {out.name!r} what to write: it may end in {', '.join(KINDS)}"
            )
    runs = load_runs(path, any_version)
    tell(runs)
    chosen = runs.where(**where)
    if where and not len(chosen):
        raise Mistake(
            f"no run of {len(runs)} has"
            f" {', '.join(f'{name} = {value!r}' for name, value in where.items())}"
        )
    found = study(chosen, baseline, pairs, columns)
    for out in outs:
        _write(found, out, measure, curves)
        print(f"{out}: {len(chosen)} runs")


def tell(runs: Runs) -> None:
    """Print the runs that are left out, on standard error."""
    for skipped in runs.skipped:
        print(f"foltr: skipped {skipped.path.name}: {skipped.why}", file=sys.stderr)
    if runs.skipped or runs.unfinished:
        counts = (
            f"{len(runs)} runs read, {len(runs.skipped)} skipped, {len(runs.unfinished)}"
            " unfinished"
        )
        print(f"foltr: {counts}", file=sys.stderr)


def _write(found: Study, out: Path, measure: str, curves: dict[str, Any]) -> None:
    if out.suffix == ".html":
        from foltr.report.page.document import page

        write_whole(out, page(found))
    elif out.suffix in FORMATS:
        figure(found, measure, out, **curves)
    elif out.suffix == ".parquet":
        found.runs.to_parquet(out)
    else:
        from foltr.report.matrix import matrix
        from foltr.report.tables.csv_table import csv_table
        from foltr.report.tables.latex_table import latex_tables

        table = latex_tables if out.suffix == ".tex" else csv_table
        write_whole(out, table(matrix(found, measure)))


def watch_command(
    path: Path,
    host: str,
    port: int,
    baseline: str | None,
    columns: tuple[str, ...],
    pairs: tuple[str, ...],
    any_version: bool,
) -> None:
    from foltr.report.page.watch_server import serve

    sweeps, loader = Sweeps(path), Loader(path, any_version)
    loader.load()  # a wrong path is an error before the server starts
    serve(loader.load, lambda: sweeps.look().plain(), host, port, baseline, pairs, columns)
