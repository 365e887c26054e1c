"""The command that attacks a run: audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import GIVEN


def audit(
    path: Annotated[
        Path, typer.Argument(help="The folder of a finished run, or an experiment's TOML file.")
    ],
    users: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Who clicks, if not the run's own users.")
    ] = None,
    use: Annotated[list[Path] | None, typer.Option(help=GIVEN)] = None,
    out: Annotated[
        Path, typer.Option(help="Where run folders are kept; a file is run first.")
    ] = Path("runs"),
    delta: Annotated[
        float, typer.Option(help="The delta of (epsilon, delta)-differential privacy.")
    ] = 1e-5,
    queries: Annotated[int, typer.Option(help="At most so many queries are attacked.")] = 500,
    games: Annotated[
        int, typer.Option(help="Rounds of each distinguishing game, at most, for either input.")
    ] = 20_000,
    threads: Annotated[int, typer.Option(help="The results do not depend on it.")] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as one line of JSON.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Attack a run as its server could: guess clicks, tell inputs apart, look for a client; beside
    what is promised.

    Files that the run or the TOML file names by `use` must be given by --use: only code that you
    name is loaded.

    Exit code 1: an attack achieves more than the stated epsilon allows.
    """
    from foltr.audits.audit import Effort
    from foltr.cli.audit_command import audit_command

    if not audit_command(
        path,
        users,
        use or [],
        out,
        delta,
        Effort(queries, games, min(games, Effort.trials), threads),
        json,
        quiet,
    ):
        raise typer.Exit(1)
