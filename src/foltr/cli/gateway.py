"""`foltr gateway`: run a gateway, to which devices connect by HTTPS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, LogForm, Use, logged


def gateway(
    file: Annotated[
        Path, typer.Argument(help="The gateway's settings file, such as gateway.toml.")
    ],
    insecure: Insecure = False,
    invite: Annotated[
        int | None,
        typer.Option(
            metavar="DEVICES",
            help="Print invitations for this many devices, one per line, and exit. Each is valid"
            " for one device, or for as many as --each says.",
        ),
    ] = None,
    each: Annotated[
        int, typer.Option(metavar="DEVICES", help="With --invite: devices per invitation.")
    ] = 1,
    days: Annotated[
        float, typer.Option(help="With --invite: days for which the invitations are valid.")
    ] = 7.0,
    withdraw: Annotated[
        str | None,
        typer.Option(
            metavar="INVITATION",
            help="Make an invitation invalid, or all of them (`--withdraw all`), and exit. Devices"
            " that have enrolled stay enrolled.",
        ),
    ] = None,
    revoke: Annotated[
        int | None,
        typer.Option(
            metavar="CLIENT",
            help="Exclude the device with this client number, permanently, and exit. A running"
            " gateway refuses it within a second.",
        ),
    ] = None,
    devices: Annotated[
        bool, typer.Option("--devices", help="Print the number of devices by state, and exit.")
    ] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Print the client numbers and public keys of the active devices, and exit. Write"
            " these lines to a file, and name it as `device_keys` in the settings of the server,"
            " of nodes and of simulated devices.",
        ),
    ] = False,
    log: LogForm = "text",
    use: Use = None,
) -> None:
    """Run a gateway: a node of a federation to which many devices connect by HTTPS.

    FILE is a TOML file with the agreement of the federation and a table named gateway. The page
    "Gateways" of the documentation explains every key and the devices' protocol.

    Stop the gateway with Ctrl-C at any time. The same command continues where it stopped."""
    from foltr.errors import require
    from foltr.federated import required
    from foltr.runs.user_files import Code

    chosen = [invite is not None, withdraw is not None, revoke is not None, devices, keys]
    require(sum(chosen) <= 1, "give one of --invite, --withdraw, --revoke, --devices and --keys")
    required("httptools")
    from foltr.serving import gateway_commands as commands

    code = Code(tuple(use or ()))
    if invite is not None:
        for token in commands.make_invitations(file, code, invite, each, days):
            print(token)
    elif withdraw is not None:
        places = commands.withdraw_invitation(file, code, withdraw)
        print(
            f"withdrawn: invitations for {places:,} more {'device' if places == 1 else 'devices'}"
        )
    elif revoke is not None:
        again = commands.revoke_device(file, code, revoke)
        print(f"revoked client {revoke}" + (f"; {again}" if again else ""))
    elif keys:
        print(commands.device_keys(file, code), end="")
    elif devices:
        found, (open_ones, places) = commands.count_devices(file, code)
        for standing, count in sorted(found.items()):
            print(f"{standing:>10} {count:,}")
        print(f"{open_ones:,} open invitations, for {places:,} devices")
    else:
        from foltr.serving.gateway import run_gateway

        with logged(log, "gateway") as tell:
            run_gateway(file, code, insecure, tell)
