"""`foltr serve`: run the server of a federation between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, LogForm, Use, logged


def serve(
    file: Annotated[Path, typer.Argument(help="The server's settings file, such as server.toml.")],
    insecure: Insecure = False,
    rollback: Annotated[
        int | None,
        typer.Option(
            metavar="ROUND",
            help="Go back to the model after this round, then continue. The privacy budget that"
            " was spent since then stays spent.",
        ),
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE",
            help="Remove what this node contributed from the model (unlearning), and revoke its"
            " key. NODE is its name in the roster. Can be given more than once.",
        ),
    ] = None,
    continue_after: Annotated[
        int | None,
        typer.Option(
            metavar="ROUND",
            help="For a state that `foltr restore` made: continue after this round, the last one"
            " that a node has answered. The server asks the nodes, and says which it is.",
        ),
    ] = None,
    superlink_only: Annotated[
        bool,
        typer.Option(
            "--superlink-only",
            help="Run only the SuperLink, the process that nodes connect to. A server whose"
            " settings name the same `superlink` folder then uses it.",
        ),
    ] = False,
    log: LogForm = "text",
    use: Use = None,
) -> None:
    """Run the server of a federation. Nodes connect to it; it combines their updates into a model.

    FILE is a TOML file with the agreement of the federation and a table named server. The page
    "Deploy a federation" of the documentation explains every key.

    Stop the server with Ctrl-C at any time. The same command continues where it stopped."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.serving.serve import run_superlink
    from foltr.serving.serve import serve as run

    with logged(log, "superlink" if superlink_only else "server") as tell:
        if superlink_only:
            run_superlink(file, Code(tuple(use or ())), insecure, tell)
            return
        given = rollback, tuple(forget or ())
        run(file, Code(tuple(use or ())), insecure, *given, tell, continue_after)
