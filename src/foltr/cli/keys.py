"""`foltr keys`: make the keys of a federation between machines, and edit its roster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import with_error_messages
from foltr.core.errors import require

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from foltr.deployment.keys.roster import Roster

app = typer.Typer(
    help="Make the keys of a federation between machines, and edit its roster: the list of nodes"
    " that may connect to the server.",
    no_args_is_help=True,
)
RosterFile = Annotated[
    Path,
    typer.Option(
        "--roster",
        metavar="FILE",
        help="The roster: a TOML file that lists the nodes of the federation and their public"
        " keys, such as roster.toml.",
    ),
]
Days = Annotated[
    int, typer.Option(help="Number of days for which the server's certificate is valid.")
]
Federation = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the federation. The server's keys are in its subfolder `server`.",
    ),
]
NodeName = Annotated[
    str,
    typer.Argument(
        help="The node's name, such as clinic-a: 1 to 40 lowercase letters, digits and hyphens."
    ),
]


@app.command("server")
@with_error_messages
def keys_server(
    host: Annotated[
        list[str],
        typer.Option(
            help="Host name or IP address by which nodes, or the devices of a gateway, reach this"
            " machine. Can be given more than once. localhost and 127.0.0.1 are always included."
        ),
    ],
    out: Federation = Path("federation"),
    days: Days = 365,
) -> None:
    """Make a TLS certificate for a server or a gateway, and the certificate authority that signs
    it."""
    from foltr.deployment.keys.keys import CA, CA_KEY, make_server

    folder = out / "server"
    certificate = make_server(folder, host, days)
    print(f"made {folder}")
    _tell_certificate(certificate)
    print(
        f"next: send {folder / CA} to every node, or to every device of a gateway. It is public;"
    )
    print("      keep all other files here.")
    print(f"      {folder / CA_KEY} is needed only to renew the certificate: keep it offline")
    print("      at a server, add each node by its card: foltr keys add CARD --roster roster.toml")


@app.command("renew")
@with_error_messages
def keys_renew(
    out: Federation = Path("federation"),
    days: Days = 365,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name or IP address for the new certificate. Can be given more than once."
            " Default: those of the current certificate."
        ),
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Also make a new private key for the server.")
    ] = False,
) -> None:
    """Renew the server's TLS certificate, signed by the same certificate authority.

    A running server uses it for new connections, without a restart. Nothing changes on the
    nodes."""
    from foltr.deployment.keys.keys import SERVER, renew_server

    certificate = renew_server(out / "server", days, host or (), new_key=new_key)
    print(f"renewed {out / 'server' / SERVER}")
    _tell_certificate(certificate)
    print("a running server uses it for new connections. Nothing changes on the nodes.")


@app.command("authority")
@with_error_messages
def keys_authority(
    begin: Annotated[
        bool, typer.Option("--begin", help="Step 1: make a new authority, and add it to ca.pem.")
    ] = False,
    switch: Annotated[
        bool,
        typer.Option(
            "--switch", help="Step 2: sign the server's certificate with the new authority."
        ),
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Step 3: remove the earlier authority from ca.pem.")
    ] = False,
    out: Federation = Path("federation"),
    days: Days = 365,
) -> None:
    """Replace the certificate authority of a federation, in three steps.

    After steps 1 and 3, send ca.pem to every node. A running node reads the changed file by
    itself. Nodes stay connected if every node has the file of step 1 before step 2."""
    from foltr.deployment.keys import keys as new_authority
    from foltr.deployment.keys.keys import CA, CA_KEY

    steps = begin, switch, finish
    require(sum(steps) == 1, "choose one step: --begin, --switch or --finish")
    folder = out / "server"
    if begin:
        made = new_authority.begin(folder)
        print(f"made a new authority, valid until {made.not_valid_after_utc:%Y-%m-%d}")
        print(f"next: send {folder / CA} to every node: it has both authorities now")
        print("      when every node has it: foltr keys authority --switch")
    elif switch:
        _tell_certificate(new_authority.switch(folder, days))
        print("a running server uses it for new connections")
        print("next: when every node is connected: foltr keys authority --finish")
        print(f"      keep the new {folder / CA_KEY} offline: it replaces the earlier authority's")
    else:
        new_authority.finish(folder)
        print(f"{folder / CA} has only the new authority now")
        print(f"next: send {folder / CA} to every node")


def _tell_certificate(certificate: Certificate) -> None:
    from foltr.deployment.keys.keys import hosts_of

    end = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    print(f"the certificate is valid for {', '.join(hosts_of(certificate))}, until {end}")


@app.command("node")
@with_error_messages
def keys_node(
    name: NodeName,
    clients: Annotated[
        int, typer.Option(help="Number of clients (devices) that the node holds.")
    ] = 1,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder in which the node's own folder, NAME, is made."
        ),
    ] = Path("."),
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway", help="The node is a gateway: its clients are devices with their own keys."
        ),
    ] = False,
) -> None:
    """Make the keys and the card of a node. Run this on the machine where the node will run.

    NAME is the node's name, such as clinic-a. The private keys stay in the folder NAME. The card,
    NAME.node.toml, has the public keys: send it to the operator of the server."""
    from foltr.deployment.keys.keys import NODE_KEY, SIGN_KEY, make_node
    from foltr.deployment.keys.roster import check_name

    check_name(name)  # before it becomes a path
    seat, card = make_node(out / name, name, clients, gateway)
    print(f"made {out / name}: {NODE_KEY} and {SIGN_KEY} are private and stay on this machine")
    print(f"fingerprint {seat.fingerprint}")
    print(f"next: send {card} to the operator of the server, who adds it to the roster")
    print("      and confirm the fingerprint by another channel, such as the telephone")


@app.command("add")
@with_error_messages
def keys_add(
    card: Annotated[
        Path,
        typer.Argument(help="The node's card: the file NAME.node.toml of `foltr keys node NAME`."),
    ],
    roster: RosterFile,
) -> None:
    """Add a node to the roster. The roster file is made if it does not exist.

    CARD is the file NAME.node.toml that `foltr keys node NAME` made on the node's machine. A
    running server reads the changed roster by itself."""
    from foltr.deployment.keys.roster_file import add_node, read_card

    seat = read_card(card)
    after = add_node(roster, seat)
    numbers = after.range_of(seat)
    print(f"added {seat.name} to {roster}: clients {numbers.start} to {numbers.stop - 1}")
    print(f"fingerprint {seat.fingerprint}")
    print("next: ask the node's operator for the fingerprint that `foltr keys node` printed")
    print(f"      if it differs: foltr keys revoke {seat.name} --roster {roster}")


@app.command("rotate")
@with_error_messages
def keys_rotate(
    folder: Annotated[
        Path, typer.Argument(help="The folder of the node's keys, made by `foltr keys node`.")
    ],
) -> None:
    """Make new keys for a node, to replace its current ones. Run this on the node's machine.

    FOLDER is the folder of the node's keys. The new keys and their card are made in its subfolder
    `next`. Send the card to the operator of the server. The current key signs the card, so you
    need not compare fingerprints. A running node uses the new keys as soon as the server knows
    them."""
    from foltr.deployment.keys.rotation import rotate_node

    seat, card = rotate_node(folder)
    print(f"made {card.parent}: its keys are private and stay on this machine")
    print(f"fingerprint {seat.fingerprint}")
    print(f"next: send {card} to the operator of the server: foltr keys replace")
    print("      a running node then changes to the new keys by itself")


@app.command("replace")
@with_error_messages
def keys_replace(
    card: Annotated[
        Path, typer.Argument(help="The card NAME.replace.toml that `foltr keys rotate` made.")
    ],
    roster: RosterFile,
    drop_old: Annotated[
        bool,
        typer.Option(
            "--drop-old",
            help="Make the old key invalid at once. Otherwise it is valid until the node has"
            " connected with the new one.",
        ),
    ] = False,
    lost_key: Annotated[
        bool,
        typer.Option(
            "--lost-key",
            help="The old key is lost or stolen. CARD is then a card that `foltr keys node` made"
            " under the same name, and the old key becomes invalid at once.",
        ),
    ] = False,
) -> None:
    """Replace the keys of a node in the roster. Its clients keep their numbers.

    CARD is the file NAME.replace.toml that `foltr keys rotate` made on the node's machine. It is
    accepted only if the node's current key has signed it. A running server reads the changed
    roster by itself."""
    from foltr.deployment.keys.roster import fingerprint
    from foltr.deployment.keys.rotation import replace_node

    seat = replace_node(roster, card, lost_key, drop_old)
    new = seat.key if seat.next_key is None else seat.next_key
    print(f"{seat.name} has a new key in {roster}")
    print(f"fingerprint {fingerprint(new)}")
    if lost_key:
        print("next: ask the node's operator for the fingerprint that `foltr keys node` printed")
        print(f"      if it differs: foltr keys revoke {seat.name} --roster {roster}")
    if seat.next_key is None:
        print("the old key is not valid any more")
    else:
        print("the old key is valid until the node has connected with the new one")


@app.command("revoke")
@with_error_messages
def keys_revoke(
    name: Annotated[str, typer.Argument(help="The node's name in the roster.")], roster: RosterFile
) -> None:
    """Exclude a node from the federation, permanently.

    NAME is the node's name in the roster. The node stays in the file, marked as revoked, because
    the numbers of its clients are never reused. A running server reads the changed roster by
    itself."""
    from foltr.deployment.keys.roster_file import revoke_node

    after = revoke_node(roster, name)
    print(f"revoked {name}")
    print(_taking_part(after))
    print("a running server reads the changed roster by itself")
    print("to come back, the node needs new keys under another name: foltr keys node NAME")


@app.command("list")
@with_error_messages
def keys_list(roster: RosterFile) -> None:
    """List the nodes of the roster, with their fingerprints."""
    from rich.console import Console
    from rich.table import Column, Table

    from foltr.deployment.keys.roster import fingerprint
    from foltr.deployment.keys.roster_file import read_roster

    found = read_roster(roster)
    others = (Column(name, no_wrap=True) for name in ("clients", "fingerprint", "revoked"))
    table = Table(Column("name", overflow="fold"), *others, box=None)  # fits 80 columns
    for seat in found.seats:
        revoked = "forgotten" if seat.forgotten else "yes" if seat.revoked else ""
        table.add_row(seat.name, f"{seat.clients:,}", seat.fingerprint, revoked)
        if seat.next_key is not None:
            table.add_row("", "", fingerprint(seat.next_key), "new key")
    Console().print(table)
    print(_taking_part(found))


def _taking_part(roster: Roster) -> str:
    return f"taking part: nodes {len(roster.active)}, clients {roster.n:,}"
