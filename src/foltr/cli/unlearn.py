"""The command that lets clients leave: unlearn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import GIVEN


def unlearn(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    clients: Annotated[
        str, typer.Option(help="Who leaves, together: as in 3,7, or malicious for all such.")
    ],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="How. Default: FedEraser(sessions=3).", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where run folders are kept. Default: beside the run.", show_default=False
        ),
    ] = None,
    retrainings: Annotated[
        int,
        typer.Option(
            help="Retrained rankers to compare with: 3 tell how far luck goes, 0 leaves it out."
        ),
    ] = 3,
    use: Annotated[list[Path] | None, typer.Option(help=GIVEN)] = None,
    engine: Annotated[
        str, typer.Option(help="local (compiled) or debug (plain definitions).")
    ] = "local",
    threads: Annotated[int, typer.Option(help="The results do not depend on it.")] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as one line of JSON.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Let clients leave a run: make a ranker that has forgotten them, and tell what it took and
    what is left of them.

    The run must have stored what devices sent (history = 10 in its file), unless the method is
    Retrain() or FineTune(). It stays as it is; the new ranker is a run of its own, from which
    others can leave in turn.

    Files that the run names by `use` must be given by --use: only code that you name is loaded.
    """
    from foltr.cli.unlearn_command import unlearn_command

    unlearn_command(
        run, clients, method, out, retrainings, use or [], engine, threads, json, quiet
    )
