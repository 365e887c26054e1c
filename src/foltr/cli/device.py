"""`foltr device`: a private search engine over the documents of this machine's user."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr.cli.tools import Json, with_error_messages
from foltr.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.device.home import Home
    from foltr.device.indexing import Work

app = typer.Typer(
    help="Search your own documents with a ranker that learns from your clicks, on this device.",
    no_args_is_help=True,
)
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="Folder of the device: its index, its keys, its place in a federation. Default:"
        " FOLTR_DEVICE, or foltr/device in your data folder.",
    ),
]
Everything = Annotated[
    bool,
    typer.Option("--everything", help="Also read hidden files and files that .gitignore names."),
]


def _home(folder: Path | None) -> Home:
    from foltr.device.home import Home, default_folder

    return Home(folder or default_folder())


@app.command("index")
@with_error_messages
def index_(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Folders or files to index. None: those that were indexed before."),
    ] = None,
    folder: Folder = None,
    everything: Everything = False,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="A folder that is not to be indexed any more. Can be repeated."),
    ] = None,
) -> None:
    """Index folders, or bring the index up to date.

    Text, Markdown, HTML, source code, PDF and mail (mbox, Maildir) are read. Hidden files, keys
    and what .gitignore names are left out. Nothing leaves this device."""
    from foltr.cli.indexing_progress import IndexingProgress
    from foltr.device.indexing import absolute, update

    home = _home(folder)
    new = absolute(paths or ())
    with home.alone("indexing"):
        index = home.index()
        gone = {Path(path).expanduser().resolve() for path in remove or ()}
        unknown = gone - set(index.roots())
        known = ", ".join(map(str, index.roots())) or "none"
        require(not unknown, f"{', '.join(map(str, unknown))} is not indexed: {known} are")
        roots = [root for root in dict.fromkeys([*index.roots(), *new]) if root not in gone]
        require(bool(roots or gone), "say which folder to index: foltr device index FOLDER")
        index.set_roots(roots)
        with IndexingProgress() as progress:
            work = update(index, roots, everything, progress)
        _report(work, index.statistics().documents, home)


def _report(work: Work, documents: int, home: Home) -> None:
    print(
        f"{documents:,} documents in {home.index_file}: {work.documents:,} written,"
        f" {work.unchanged:,} files unchanged, {work.removed:,} files gone"
    )
    for what, counts in (("not read", work.unread), ("left out", work.left_out)):
        if counts:
            parts = ", ".join(f"{reason} {count:,}" for reason, count in counts.most_common())
            print(f"{what}: {parts}")
    for root in work.missing:
        print(f"not there now, its documents stay: {root}")
    for inner in work.closed:
        print(f"may not be read now, its documents stay: {inner}")
    print("next: foltr device search")


@app.command("search")
@with_error_messages
def search_(
    folder: Folder = None,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for any free one.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and do not open a browser.")
    ] = False,
    update_every: Annotated[
        float, typer.Option(help="Minutes between two updates of the index; 0 for none.")
    ] = 15.0,
    soon: Annotated[
        float,
        typer.Option(
            help="Seconds between two looks for a new model in the minutes after a message."
        ),
    ] = 60.0,
    no_guard: Annotated[
        bool,
        typer.Option("--no-guard", help="Always show the learned order, even if it is worse."),
    ] = False,
) -> None:
    """Open the search page. Only this machine's browser can use it, with a token.

    If it runs already, its page is opened."""
    from foltr.device.guard import Guard
    from foltr.device.home import Busy
    from foltr.device.running import serve

    home = _home(folder)

    def ready(address: str) -> None:
        print(f"search: {address}", flush=True)
        print("stop: Ctrl-C", flush=True)
        if not no_open:
            webbrowser.open(address)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    every = 60.0 * update_every if update_every > 0 else None
    try:
        serve(home, port, every, Guard(on=not no_guard), tell, ready, soon)
    except Busy:
        address = home.page
        if address is None:
            raise
        print(f"it runs already: {address}")
        if not no_open:
            webbrowser.open(address)


@app.command("find")
@with_error_messages
def find_(
    words: Annotated[list[str], typer.Argument(help="What to look for.")],
    folder: Folder = None,
    json_: Json = False,
) -> None:
    """Search in the terminal. Nothing is logged or learned."""
    import json

    from foltr.device.running import Running

    running = Running(_home(folder), looking=True)
    found = running.service.search(" ".join(words))
    if json_:
        print(json.dumps(found))
        return
    for number, result in enumerate(found["results"], 1):
        print(f"{number:2}. {_joined(result['title'])}")
        print(f"    {result['path']}")
        print(f"    {_joined(result['snippet'])}")
    if found["note"]:
        print(found["note"])
    if not found["results"]:
        print(_nothing(found["empty"]))


def _joined(pieces: list[Any]) -> str:
    return "".join(text for text, _ in pieces)


def _nothing(empty: dict[str, Any] | None) -> str:
    if empty is None:
        return "nothing to look for"
    told = "nothing found"
    if empty["unknown"]:
        told += f"; no document has {', '.join(empty['unknown'])}"
    for word, other in empty["similar"].items():
        told += f"; did you mean {other} instead of {word}?"
    if empty["without_filters"]:
        told += f"; {empty['without_filters']} documents without the filters"
    return told


@app.command("status")
@with_error_messages
def status_(folder: Folder = None, json_: Json = False) -> None:
    """Show what is indexed, what was learned, and what was sent."""
    import json

    from foltr.device.running import Running

    home = _home(folder)
    found = Running(home, looking=True).status()
    if json_:
        print(json.dumps(found))
        return
    print(
        f"{found['documents']:,} documents, {found['megabytes']:g} MB ({home.index_file})"
        + ("; learning is paused" if found["paused"] else "")
    )
    model = found["model"]
    print(f"{model['searches']:,} searches, {model['clicks']:,} with clicks")
    print(found["guard"]["text"])
    federation = found["federation"]
    if federation is None:
        print("in no federation: foltr device join URL")
        return
    print(f"client {federation['client']} at {federation['gateway']}: {federation['privacy']}")
    print(f"next message: {federation['next']['searches']} of {federation['next']['of']} searches")
    print(f"privacy budget: {federation['budget']['text']}")
    if federation["pending"]:
        print(federation["pending"])


@app.command("export")
@with_error_messages
def export_(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")], folder: Folder = None
) -> None:
    """Write all your searches and clicks to a file."""
    from foltr.system.private import replace_private

    home = _home(folder)
    require(home.index_file.exists(), "there is nothing to export: nothing was indexed yet")
    replace_private(out, home.log().exported().encode())
    print(f"written: {out}")


@app.command("clear")
@with_error_messages
def clear_(
    folder: Folder = None,
    index: Annotated[
        bool, typer.Option("--index", help="Delete the index of documents as well.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all searches and clicks, and what was learned from them on this device."""
    from foltr.device.running import Running

    home = _home(folder)
    with home.without_page(), home.alone("indexing"):
        running = Running(home)
        asked = "Delete all searches, clicks, and what was learned from them?"
        if index:
            asked = "Delete all searches, clicks, what was learned, and the index of documents?"
        if not yes and not typer.confirm(asked):
            raise Mistake("nothing was deleted")
        sent = len(running.log.messages())
        running.service.forget(None)
        if index:
            with running.index.batch():
                for path in running.index.files():
                    running.index.remove(path)
            running.index.set_roots([])
            running.index.shrink()
    print("deleted")
    if sent:
        print(f"{sent} messages were sent before: what they say cannot be taken back here.")
        print("To be forgotten by the federation: foltr device leave --forget")


@app.command("join")
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
    from foltr.device.home import CA, Terms
    from foltr.device.running import Running
    from foltr.federated.credentials import trusting
    from foltr.system.private import replace_private

    home = _home(folder)
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
        for line in joining.terms_text(agreed, sees, terms):
            print(f"  {line}")
        if not yes and not typer.confirm("Join?"):
            raise Mistake("not joined")
        (home.folder / CA).unlink(missing_ok=True)  # of another gateway
        if ca is not None:
            replace_private(home.folder / CA, ca.read_bytes())
        client = joining.join(home, running.service.ranker, agreed, terms, invitation)
    print(f"joined: this device is client {client}")
    print("next: foltr device search (messages are sent while it runs)")


@app.command("leave")
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

    With --forget the server unlearns this device; its key is deleted once that is confirmed. Your
    searches, clicks and index stay: see foltr device clear."""
    from foltr.device.running import Running

    home = _home(folder)
    with home.without_page():
        running = Running(home)
        print(running.leave(forget))
        if forget and running.membership is not None and not running.wait_forgotten(wait):
            print("not confirmed yet: run the search page, or this command again, to go on asking")
        elif forget:
            print("the server has forgotten this device; its key is deleted")
    print("your searches, clicks and index stay: foltr device clear [--index]")


@app.command("at-login")
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
    print(f"written: {start_at_login(_home(folder).folder)}")
    print("to take it back: foltr device at-login --off")
