"""`foltr node`: run a node of a federation between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, LogForm, Use, logged


def node(
    file: Annotated[Path, typer.Argument(help="The node's settings file, such as node.toml.")],
    insecure: Insecure = False,
    forget_me: Annotated[
        bool,
        typer.Option(
            "--forget-me",
            help="Leave the federation. The server removes what this node contributed from the"
            " model (unlearning), then this node deletes its records and stops.",
        ),
    ] = False,
    log: LogForm = "text",
    use: Use = None,
) -> None:
    """Run a node of a federation. Its clients learn from their own data and send only updates.

    FILE is a TOML file with the agreement of the federation and a table named node. The page
    "Deploy a federation" of the documentation explains every key.

    Stop the node with Ctrl-C at any time. The same command continues where it stopped."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.serving.node import run_node

    with logged(log, "node") as tell:
        run_node(file, Code(tuple(use or ())), insecure, forget_me, tell)
