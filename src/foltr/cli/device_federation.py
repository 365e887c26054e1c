"""`foltr device join`, `leave` and `at-login`: a device in a federation."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import with_error_messages
from foltr.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.device.home import Home

Folder = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        help="Folder of the device: its index, its keys, its place in a federation. Default:"
        " FOLTR_DEVICE, or foltr/device in your data folder.",
    ),
]


def home_of(folder: Path | None) -> Home:
    from foltr.device.home import Home, default_folder

    return Home(folder or default_folder())


@with_error_messages
def join_(
    url: Annotated[str, typer.Argument(help="The gateway's address, https://HOST:PORT.")],
    folder: Folder = None,
    invitation: Annotated[
        str | None, typer.Option(help="The invitation, if the gateway needs one.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate of the gateway's own authority (ca.pem)."),
    ] = None,
    searches: Annotated[
        int | None, typer.Option(help="Send after this many searches. Default: as agreed.")
    ] = None,
    days: Annotated[
        float, typer.Option(help="Send after this many days, even if there are fewer searches.")
    ] = 7.0,
    epsilon: Annotated[
        float, typer.Option(help="Privacy budget (epsilon, at delta 1e-5) of a period.")
    ] = 1.0,
    period: Annotated[float, typer.Option(help="Days of the budget's period.")] = 365.0,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the terms without asking.")] = False,
) -> None:
    """Take part in a federation through its gateway.

    The terms are shown first, and pinned: if the federation changes them, this device sends
    nothing more."""
    from foltr.device import joining
    from foltr.device.budget import DAY, epsilon_elsewhere
    from foltr.device.home import CA, Terms
    from foltr.device.running import Running
    from foltr.federated.credentials import trusting
    from foltr.system.private import replace_private

    home = home_of(folder)
    with home.without_page():
        running = Running(home)
        known = running.membership
        here = "" if known is None else f"client {known.client} at {known.terms.gateway}"
        require(known is None, f"this device has joined already: {here}. See foltr device leave")
        agreed, sees = joining.offered(url, trusting(ca))
        often = agreed.sessions if searches is None else searches
        most = f"--searches {often}: the agreement allows at most {agreed.sessions} in a message"
        require(often <= agreed.sessions, most)
        terms = Terms(url, often, days, None if agreed.privacy is None else epsilon, period)
        print(f"The federation at {url}:")
        since = time.time() - period * DAY
        elsewhere = epsilon_elsewhere(running.log, since, agreed.id)
        for line in joining.terms_text(agreed, sees, terms, elsewhere):
            print(f"  {line}")
        if not yes and not typer.confirm("Join?"):
            raise Mistake("not joined")
        (home.folder / CA).unlink(missing_ok=True)  # of another gateway
        if ca is not None:
            replace_private(home.folder / CA, ca.read_bytes())
        client = joining.join(home, running.service.ranker, agreed, terms, invitation)
    print(f"joined: this device is client {client}")
    print("next: foltr device search (messages are sent while it runs)")


@with_error_messages
def leave_(
    folder: Folder = None,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Ask the federation to unlearn what this device taught."),
    ] = False,
    wait: Annotated[
        float, typer.Option(help="With --forget: seconds to wait for the confirmation.")
    ] = 30.0,
) -> None:
    """Leave the federation. Search and local learning go on.

    With --forget the server unlearns this device; its key is deleted once that is confirmed. In a
    terminal you are asked whether to delete your searches and your index as well; otherwise they
    stay, see foltr device clear."""
    from foltr.device.running import Running

    home = home_of(folder)
    with home.without_page():
        running = Running(home)
        print(running.leave(forget))
        if forget and running.membership is not None and not running.wait_forgotten(wait):
            print("not confirmed yet: run the search page, or this command again, to go on asking")
        elif forget:
            print("the server has forgotten this device; its key is deleted")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            print("your searches, clicks and index stay: foltr device clear [--index]")
        elif typer.confirm("Delete your searches and clicks, and what was learned, as well?"):
            whole = typer.confirm("Delete the index of your documents as well?")
            running.clear(whole)
            print("deleted" if whole else "deleted; the index stays")


@with_error_messages
def at_login_(
    folder: Folder = None,
    off: Annotated[bool, typer.Option("--off", help="Do not start it at login any more.")] = False,
) -> None:
    """Start the search page when you log in, without opening a browser.

    `foltr device search` then opens its page."""
    from foltr.device.login import start_at_login, stop_at_login

    if off:
        print("it is not started at login any more" if stop_at_login() else "it was not started")
        return
    print(f"written: {start_at_login(home_of(folder).folder)}")
    print("to take it back: foltr device at-login --off")
