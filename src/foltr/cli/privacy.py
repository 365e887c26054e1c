"""The command that tells what a run guarantees: privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import GIVEN


def privacy(
    file: Annotated[
        Path, typer.Argument(help="An experiment's TOML file, or one with a sweep table.")
    ],
    delta: Annotated[
        float, typer.Option(help="The delta of (epsilon, delta)-differential privacy.")
    ] = 1e-5,
    colluding: Annotated[
        int, typer.Option(help="Clients of a round who tell the server their noise.")
    ] = 0,
    use: Annotated[list[Path] | None, typer.Option(help=GIVEN)] = None,
) -> None:
    """What a run will guarantee, for what, against whom, and who must be trusted. Nothing is run.

    Files that the TOML file names by `use` must be given by --use as well: only code that you name
    is loaded.

    The same block is in the summary of every run, and in its result.json.
    """
    from foltr.cli.privacy_command import privacy_command

    privacy_command(file, delta, colluding, use or [])
