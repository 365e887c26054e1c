"""`foltr check`: whether a server, a node or a gateway is healthy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def check(
    file: Annotated[
        Path,
        typer.Argument(
            envvar="FOLTR_SETTINGS",
            help="The settings file of a server, a node or a gateway, such as server.toml.",
        ),
    ],
) -> None:
    """Check whether the server, node or gateway of a settings file runs here and is healthy.

    Prints one line. The exit code is 0 if the process is healthy, and 1 if it is not. Run the
    command on the machine of the process. It reads /healthz of a server or a gateway, and a file
    in the state folder of a node."""
    from foltr.serving.checking import check_process

    able, told = check_process(file)
    print(told, file=sys.stdout if able else sys.stderr)
    if not able:
        raise typer.Exit(1)
