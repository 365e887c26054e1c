"""`foltr restore`: restore the state of a server from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Use


def restore(
    backup: Annotated[Path, typer.Argument(help="A file that `foltr backup` made.")],
    file: Annotated[Path, typer.Argument(help="The server's settings file, such as server.toml.")],
    use: Use = None,
) -> None:
    """Restore the state of a federation's server from a backup, into an empty state folder.

    The backup is checked before anything is written. If the roster file exists, it is kept. Then
    start the server. It asks the nodes which rounds they have answered since the backup was
    made."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.runs.interruptions import on_signals
    from foltr.serving.restore import restore as put_back

    def stopped(signum: int, frame: object) -> None:
        message = KeyboardInterrupt("stopped: nothing was restored")
        message.signum = signum  # type: ignore[attr-defined]
        raise message

    with on_signals(stopped):
        about = put_back(backup, file, Code(tuple(use or ())))
    print(f"restored the state after round {about.round}, backed up at {about.made}")
    print(f"next: foltr serve {file}")
