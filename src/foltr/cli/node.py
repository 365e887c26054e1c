"""`foltr node`: a node of a federation between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, Use, tell


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
    from foltr.serving.node import run_node

    run_node(file, Code(tuple(use or ())), insecure, forget_me, tell)
