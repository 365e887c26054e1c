"""`foltr serve` and `foltr node`: a federation between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Use

Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="No TLS and no node authentication: on this machine only."),
]


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


def node(
    file: Annotated[Path, typer.Argument(help="The settings of the node (TOML).")],
    insecure: Insecure = False,
    forget_me: Annotated[
        bool, typer.Option("--forget-me", help="Leave, and have the server unlearn this node.")
    ] = False,
    use: Use = None,
) -> None:
    """Run a node of a federation: its clients learn from their own data, and send only updates.

    Stop it with Ctrl-C at any time: the same command continues."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.serving.join import join

    join(file, Code(tuple(use or ())), insecure, forget_me, tell)


def tell(text: str) -> None:
    from datetime import datetime

    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)
