"""`foltr keys`: the keys and the roster of a federation of real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import with_error_messages

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from foltr.federated.roster import Roster

app = typer.Typer(
    help="Make the keys of a federation of real nodes, and keep its roster.", no_args_is_help=True
)
RosterFile = Annotated[Path, typer.Option("--roster", help="The roster, a TOML file.")]
Days = Annotated[int, typer.Option(help="Days for which the server's certificate is valid.")]
Federation = Annotated[
    Path, typer.Option(help="The folder of the federation. The keys are in its folder server.")
]


@app.command("server")
@with_error_messages
def keys_server(
    host: Annotated[
        list[str],
        typer.Option(
            help="A host name or IP address by which nodes reach the server. Can be given more"
            " than once; localhost is always included."
        ),
    ],
    out: Federation = Path("federation"),
    days: Days = 365,
) -> None:
    """Make the server's certificate, and the authority that signs it."""
    from foltr.federated.keys import CA, CA_KEY, make_server

    folder = out / "server"
    certificate = make_server(folder, host, days)
    print(f"made {folder}")
    _tell_certificate(certificate)
    print(f"next: send {folder / CA} to every node: it is public. All other files stay here.")
    print(f"      {folder / CA_KEY} signs certificates: best kept on another disk until a renewal")
    print(f"      nodes join by their cards: foltr keys add CARD --roster {out / 'roster.toml'}")


@app.command("renew")
@with_error_messages
def keys_renew(
    out: Federation = Path("federation"),
    days: Days = 365,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name or IP address of the new certificate. Can be given more than once."
            " Default: those of the present certificate."
        ),
    ] = None,
) -> None:
    """Replace the server's certificate by a new one of the same authority."""
    from foltr.federated.keys import SERVER, renew_server

    certificate = renew_server(out / "server", days, host or ())
    print(f"renewed {out / 'server' / SERVER}")
    _tell_certificate(certificate)
    print("next: start the server again, so that it uses the new certificate; nodes need nothing")


def _tell_certificate(certificate: Certificate) -> None:
    from foltr.federated.keys import hosts_of

    end = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
    print(f"the certificate is for {', '.join(hosts_of(certificate))}, until {end}")


@app.command("node")
@with_error_messages
def keys_node(
    name: Annotated[str, typer.Argument(help="The node's name, e.g. clinic-a.")],
    clients: Annotated[int, typer.Option(help="Number of devices behind the node.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder in which the node's folder is made.")] = Path(
        "."
    ),
) -> None:
    """Make the keys of a node, on the machine where it will run, and its public card."""
    from foltr.federated.keys import NODE_KEY, SIGN_KEY, make_node
    from foltr.federated.roster import check_name

    check_name(name)  # before it becomes a path
    seat, card = make_node(out / name, name, clients)
    print(f"made {out / name}: {NODE_KEY} and {SIGN_KEY} are private and stay on this machine")
    print(f"fingerprint {seat.fingerprint}")
    print(f"next: send {card} to the operator of the server, who adds it to the roster")
    print("      and confirm the fingerprint on another way, such as the telephone")


@app.command("add")
@with_error_messages
def keys_add(
    card: Annotated[Path, typer.Argument(help="The card of a node, NAME.node.toml.")],
    roster: RosterFile,
) -> None:
    """Add a node to the roster by its card. A running server reads the roster again."""
    from foltr.federated.roster_file import add_node, read_card

    seat = read_card(card)
    after = add_node(roster, seat)
    numbers = after.range_of(seat)
    print(f"added {seat.name} to {roster}: clients {numbers.start} to {numbers.stop - 1}")
    print(f"fingerprint {seat.fingerprint}")
    print("next: compare the fingerprint with the one that the node's operator sees")
    print(f"      if it differs: foltr keys revoke {seat.name} --roster {roster}")


@app.command("revoke")
@with_error_messages
def keys_revoke(
    name: Annotated[str, typer.Argument(help="The node's name.")], roster: RosterFile
) -> None:
    """Exclude a node from the federation, for ever. Its clients' numbers are not given again."""
    from foltr.federated.roster_file import revoke_node

    after = revoke_node(roster, name)
    print(f"revoked {name}")
    print(_taking_part(after))
    print("a running server reads the roster again")
    print("to come back, the node needs new keys and another name (foltr keys node)")


@app.command("list")
@with_error_messages
def keys_list(roster: RosterFile) -> None:
    """List the nodes of the roster."""
    from rich.console import Console
    from rich.table import Column, Table

    from foltr.federated.roster_file import read_roster

    found = read_roster(roster)
    others = (Column(name, no_wrap=True) for name in ("clients", "fingerprint", "revoked"))
    table = Table(Column("name", overflow="fold"), *others, box=None)  # fits 80 columns
    for seat in found.seats:
        revoked = "yes" if seat.revoked else ""
        table.add_row(seat.name, f"{seat.clients:,}", seat.fingerprint, revoked)
    Console().print(table)
    print(_taking_part(found))


def _taking_part(roster: Roster) -> str:
    return f"taking part: nodes {len(roster.active)}, clients {roster.n:,}"
