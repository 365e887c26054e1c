"""`foltr backup`: copy the state of a server, even while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Use


def backup(
    file: Annotated[Path, typer.Argument(help="The server's settings file, such as server.toml.")],
    out: Annotated[Path, typer.Argument(help="The backup file to write, or a folder for it.")],
    use: Use = None,
) -> None:
    """Back up the state of a federation's server, even while it runs.

    The backup is one file with the models, the checkpoint, the log of rounds and the roster. Only
    its owner can read it. It contains no private keys: keep a copy of the folder of keys, too.
    `foltr restore` restores it.

    A backup contains what every node contributed before it was made. Delete it if a node is
    forgotten later."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.runs.interruptions import on_signals
    from foltr.serving.backup import backup as make

    def stopped(signum: int, frame: object) -> None:
        message = KeyboardInterrupt("stopped: no backup was made")
        message.signum = signum  # type: ignore[attr-defined]
        raise message

    with on_signals(stopped):
        print(f"made {make(file, Code(tuple(use or ())), out)}")
