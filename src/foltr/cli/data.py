"""`foltr data`: list, describe and register data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import with_error_messages

app = typer.Typer(help="List, describe and register data sets.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set, e.g. MQ2008.")]


@app.command("list")
@with_error_messages
def data_list() -> None:
    """List all known data sets, and which of them are on this machine."""
    from rich.console import Console
    from rich.table import Table

    from foltr.data.catalogue import listing

    table = Table("name", "here", "queries", "documents", "features", "grades")
    for row in listing():
        counts = (
            f"{n:,}" if n is not None else ""
            for n in (row.queries, row.documents, row.features, row.grades)
        )
        table.add_row(row.name, "yes" if row.present else "no", *counts)
    Console().print(table)
    print("`foltr data info NAME` explains how to get a data set. Synthetic() needs none.")


@app.command("info")
@with_error_messages
def data_info(name: Name) -> None:
    """Describe a data set: its source, its terms of use, and where to put its files."""
    from foltr.data.catalogue import info

    print(info(name))


@app.command("add")
@with_error_messages
def data_add(
    name: Name, path: Annotated[Path, typer.Argument(help="The folder of its files.")]
) -> None:
    """Check the files of a data set on this machine, and register their folder."""
    from foltr.data.catalogue import add

    add(name, path, print)
