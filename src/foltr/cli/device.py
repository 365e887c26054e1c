"""`foltr device`: a private search engine over the documents of this machine's user."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from foltr.cli.tools import Json, with_error_messages
from foltr.core.errors import Mistake, require
from foltr.core.system.terminal import LivePanel, duration, progress_bar

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
        "--home",
        metavar="FOLDER",
        help="Folder of the device: its index, its keys, its place in a federation. Default:"
        " FOLTR_DEVICE, or foltr/device in your data folder.",
    ),
]
Everything = Annotated[
    bool | None,
    typer.Option(
        "--everything/--no-everything",
        help="Also read hidden files and files that .gitignore names. Default: as before; at"
        " first no.",
        show_default=False,
    ),
]


def home_of(folder: Path | None) -> Home:
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
    everything: Everything = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="A folder that is not to be indexed any more. Can be repeated."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="START",
            help="What the ranker starts from: bm25 (plain word matching), or manuals (trained on"
            " public manuals). Only before the first search. Default: as before; at first bm25.",
        ),
    ] = None,
) -> None:
    """Index folders, or bring the index up to date.

    Text, Markdown, HTML, source code, the text of PDF files, and mail (mbox, Maildir, .eml) are
    read. Hidden files, files that hold keys, and what .gitignore or .ignore names are left out.
    Nothing leaves this device."""
    from foltr.device.indexing import absolute, reads_everything, set_everything, update
    from foltr.device.learning import choose_start

    home = home_of(folder)
    new = absolute(paths or ())
    if start is not None:
        with home.without_page():
            home.index().close()  # refuses a file that is no index
            choose_start(home.log(), start)
    with home.alone("indexing"):
        index = home.index()
        gone = {Path(path).expanduser().resolve() for path in remove or ()}
        unknown = gone - set(index.roots())
        known = ", ".join(map(str, index.roots())) or "none"
        named = ", ".join(map(str, unknown))
        require(not unknown, f"{named} is not an indexed folder. Indexed folders: {known}")
        roots = [root for root in dict.fromkeys([*index.roots(), *new]) if root not in gone]
        require(bool(roots or gone), "say which folder to index: foltr device index FOLDER")
        index.set_roots(roots)
        if everything is not None:
            set_everything(index, everything)
        try:
            with IndexingProgress() as progress:
                work = update(index, roots, reads_everything(index), progress)
        except KeyboardInterrupt:
            made = index.statistics().documents
            raise KeyboardInterrupt(
                f"stopped: {made:,} documents are indexed so far; foltr device index goes on"
            ) from None
        _report(work, index.statistics().documents, home, folder)


def _report(work: Work, documents: int, home: Home, folder: Path | None) -> None:
    print(
        f"{documents:,} document{'' if documents == 1 else 's'} in {home.index_file}:"
        f" {work.documents:,} written,"
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
    if documents:
        print(f"next: foltr device search{'' if folder is None else f' --home {folder}'}")


@app.command("search")
@with_error_messages
def search_(
    folder: Folder = None,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for any free one.")] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and do not open a browser.")
    ] = False,
    update_every: Annotated[
        float,
        typer.Option(metavar="MINUTES", help="Time between two updates of the index; 0 for none."),
    ] = 15.0,
    soon: Annotated[
        float,
        typer.Option(
            help="Seconds between two requests for a new model in the minutes after a message.",
            hidden=True,  # for demonstrations
        ),
    ] = 60.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update the index as soon as a file changes.")
    ] = False,
    no_guard: Annotated[
        bool,
        typer.Option("--no-guard", help="Always show the learned order, even if it is worse."),
    ] = False,
    explore: Annotated[
        bool,
        typer.Option(
            "--explore",
            help="Draw lists at random, better documents first more often. Lists are worse at"
            " first (docs/device.md has figures). In a federation, its agreement decides.",
        ),
    ] = False,
) -> None:
    """Open the search page in your browser.

    Its address holds a token, and works on this machine only. If the page runs already, it is
    opened again."""
    from foltr.device.guard import Guard
    from foltr.device.home import Busy
    from foltr.device.running import serve

    home = home_of(folder)

    def ready(address: str) -> None:
        print(f"search: {address}", flush=True)
        print("stop: Ctrl-C", flush=True)
        if not no_open:
            webbrowser.open(address)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        serve(
            home,
            port,
            tell,
            ready,
            every=60.0 * update_every if update_every > 0 else None,
            watch=watch,
            guard=Guard(on=not no_guard),
            explore=explore,
            soon=soon,
        )
    except Busy:
        address = home.page
        if address is None:
            raise
        print(f"it runs already, with the options of that time: {address}")
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
    from foltr.device.running import Running

    running = Running(home_of(folder), read_only=True)
    found = running.service.search(" ".join(words))
    if json_:
        print(json.dumps(found))
        return
    for number, result in enumerate(found["results"], 1):
        print(f"{number:2}. {_joined(result['title'])}")
        print(f"    {''.join(c if c.isprintable() else '?' for c in result['path'])}")
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
    from foltr.device.running import Running

    home = home_of(folder)
    found = Running(home, read_only=True).status()
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
        if found["messages"]:
            print(f"{found['messages']} messages were sent to federations that it has left")
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
    """Write all your searches and clicks to a JSON file."""
    from foltr.core.system.private import replace_private
    from foltr.device.service import exported

    home = home_of(folder)
    require(home.index_file.exists(), "there is nothing to export: nothing was indexed yet")
    replace_private(out, exported(home.log(), home.existing()).encode())
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
    from foltr.core.system.state_file import Damaged
    from foltr.device.home import NOT_INDEXED
    from foltr.device.running import Running

    home = home_of(folder)
    require(home.index_file.exists(), NOT_INDEXED)
    with home.without_page(), home.alone("indexing"):
        try:
            running = Running(home)
            running.index.check()
        except Damaged as damaged:
            if not index:
                raise
            print(damaged)
            asked = "Delete it, with searches, clicks, and the record of what was sent?"
            if not yes and not typer.confirm(asked):
                raise Mistake("nothing was deleted") from None
            home.delete_index()
            print("deleted")
            return
        asked = "Delete all searches, clicks, and what was learned from them?"
        if index:
            asked = "Delete all searches, clicks, what was learned, and the index of documents?"
        if not yes and not typer.confirm(asked):
            raise Mistake("nothing was deleted")
        sent = len(running.log.messages())
        running.clear(index)
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
    from foltr.core.system.private import replace_private
    from foltr.deployment.keys.device_keys import trusting
    from foltr.device import joining
    from foltr.device.budget import DAY, epsilon_elsewhere
    from foltr.device.home import CA, Terms
    from foltr.device.running import Running

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


@app.command("at-login")
@with_error_messages
def at_login_(
    folder: Folder = None,
    off: Annotated[bool, typer.Option("--off", help="Do not start it at login any more.")] = False,
) -> None:
    """Start the search page when you log in, without opening a browser.

    `foltr device search` then opens its page."""
    from foltr.device.running import start_at_login, stop_at_login

    if off:
        print("it is not started at login any more" if stop_at_login() else "it was not started")
        return
    print(f"written: {start_at_login(home_of(folder).folder)}")
    print("to take it back: foltr device at-login --off")


# The progress of `foltr device index`: in place in a terminal, plain lines elsewhere.


class IndexingProgress(LivePanel):
    """Called while the index is brought up to date."""

    def __init__(self) -> None:
        super().__init__(quiet=False, panel_seconds=0.1, line_seconds=3.0)
        self.began = 0.0

    def __call__(self, work: Work) -> None:
        if work.total and not self.began:
            self.began = time.monotonic()
        if self.due():
            line = self._line(work)
            bar = progress_bar(work.read, work.total, 30) if work.total else ""
            self.show(lambda: Text(f"{bar} {line}".strip()), lambda: line)

    def _line(self, work: Work) -> str:
        if not work.total:
            return f"looking at files: {work.files:,}"
        passed, done = time.monotonic() - self.began, f"{work.read:,} of {work.total:,} files"
        if passed < 1.0 or not work.read:
            return done
        rate = work.read / passed
        return f"{done}, {rate:.0f} a second, {duration((work.total - work.read) / rate)} left"
