"""`foltr backup`: copy the state of a server, even while it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    from foltr.deployment import required
    from foltr.experiment.user_files import Code

    required()
    from foltr.deployment.server.backup import backup as make

    with _stopped_by_signals("no backup was made"):
        print(f"made {make(file, Code(tuple(use or ())), out)}")


@contextmanager
def _stopped_by_signals(outcome: str) -> Iterator[None]:
    """A context that Ctrl-C and SIGTERM end, with a message about the outcome."""
    from foltr.simulation.runs.interruptions import Stopped, on_signals

    def stop(signum: int, frame: object) -> None:
        raise Stopped(f"stopped: {outcome}", signum)

    with on_signals(stop):
        yield


# `foltr restore`: restore the state of a server from a backup.


def restore(
    backup: Annotated[Path, typer.Argument(help="A file that `foltr backup` made.")],
    file: Annotated[Path, typer.Argument(help="The server's settings file, such as server.toml.")],
    use: Use = None,
) -> None:
    """Restore the state of a federation's server from a backup, into an empty state folder.

    The backup is checked before anything is written. If the roster file exists, it is kept. Then
    start the server. It asks the nodes which rounds they have answered since the backup was
    made."""
    from foltr.deployment import required
    from foltr.experiment.user_files import Code

    required()
    from foltr.deployment.server.backup import restore as put_back

    with _stopped_by_signals("nothing was restored"):
        about = put_back(backup, file, Code(tuple(use or ())))
    print(f"restored the state after round {about.round}, backed up at {about.made}")
    print(f"next: foltr serve {file}")


# `foltr check`: whether a server, a node or a gateway is healthy.


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
    from foltr.deployment.monitoring import check_process

    able, told = check_process(file)
    print(told, file=sys.stdout if able else sys.stderr)
    if not able:
        raise typer.Exit(1)
