"""The processes of a federation between machines: `foltr serve`, `foltr node` and `foltr gateway`;
and `foltr simulate-devices`, to try a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import Insecure, LogForm, Use, logged, trusted_code
from foltr.core.errors import require
from foltr.core.system.tables import count


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
    from foltr.deployment import required

    required()
    from foltr.deployment.server.serve import run_superlink
    from foltr.deployment.server.serve import serve as run

    code = trusted_code(use)
    with logged(log, "superlink" if superlink_only else "server") as tell:
        if superlink_only:
            run_superlink(file, code, insecure, tell)
        else:
            run(file, code, insecure, rollback, tuple(forget or ()), tell, continue_after)


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
    from foltr.deployment import required

    required()
    from foltr.deployment.node.node import run_node

    with logged(log, "node") as tell:
        run_node(file, trusted_code(use), insecure, forget_me, tell)


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
    from foltr.deployment import required

    chosen = [invite is not None, withdraw is not None, revoke is not None, devices, keys]
    require(sum(chosen) <= 1, "give one of --invite, --withdraw, --revoke, --devices and --keys")
    required("httptools")
    from foltr.deployment.gateway import process

    code = trusted_code(use)
    if invite is not None:
        for token in process.make_invitations(file, code, invite, each, days):
            print(token)
    elif withdraw is not None:
        places = process.withdraw_invitation(file, code, withdraw)
        print(f"withdrawn: invitations for {count(places, 'more device')}")
    elif revoke is not None:
        again = process.revoke_device(file, code, revoke)
        print(f"revoked client {revoke}" + (f"; {again}" if again else ""))
    elif keys:
        print(process.device_keys(file, code), end="")
    elif devices:
        devices_by_state, (invitations, places) = process.count_devices(file, code)
        for state, number in sorted(devices_by_state.items()):
            print(f"{state:>10} {number:,}")
        print(f"{invitations:,} open invitations, for {places:,} devices")
    else:
        with logged(log, "gateway") as tell:
            process.run_gateway(file, code, insecure, tell)


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
    from foltr.deployment import required

    required()
    from foltr.deployment.gateway.simulated_devices import run

    with logged(log, "devices") as tell:
        run(file, trusted_code(use), tell)
