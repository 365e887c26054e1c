"""`foltr serve`: the server of a federation between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, Use, tell


def serve(
    file: Annotated[Path, typer.Argument(help="The settings of the server (TOML).")],
    insecure: Insecure = False,
    rollback: Annotated[
        int | None,
        typer.Option(help="Go back to the model after this round. It refunds no epsilon."),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(help="Unlearn this node of the roster. Can be given more than once."),
    ] = None,
    superlink_only: Annotated[
        bool,
        typer.Option("--superlink-only", help="Run only the SuperLink, for a server to join."),
    ] = False,
    use: Use = None,
) -> None:
    """Run the server of a federation. Nodes connect to it and learn; it updates the model.

    Stop it with Ctrl-C at any time: the same command continues."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.serving.serve import run_superlink
    from foltr.serving.serve import serve as run

    if superlink_only:
        run_superlink(file, Code(tuple(use or ())), insecure, tell)
        return
    run(file, Code(tuple(use or ())), insecure, rollback, tuple(forget or ()), tell)
