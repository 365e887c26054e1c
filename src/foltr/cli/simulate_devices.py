"""`foltr simulate-devices`: simulated devices behind a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import LogForm, Use, logged


def simulate_devices(
    file: Annotated[
        Path, typer.Argument(help="The settings file of the devices, such as devices.toml.")
    ],
    log: LogForm = "text",
    use: Use = None,
) -> None:
    """Run simulated devices, to try a gateway.

    FILE is a TOML file with the agreement of the federation and a table named devices. Each device
    enrols and answers like a real one, but its documents and clicks are simulated. The devices are
    not stored: each time, the command enrols new devices and needs new invitations.

    Stop the command with Ctrl-C."""
    from foltr.federated import required
    from foltr.runs.user_files import Code

    required()
    from foltr.serving.simulated_devices import run

    with logged(log, "devices") as tell:
        run(file, Code(tuple(use or ())), tell)
