"""`foltr serve`: the process of a federation's server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from foltr.engines.flower import Flower, Stopping
from foltr.errors import Mistake, require
from foltr.federated.keys import ServerFiles, check_server
from foltr.federated.roster_file import read_roster
from foltr.federated.session import Session
from foltr.federated.superlink import Doors, SuperLink, secret
from foltr.runs.interruptions import on_signals
from foltr.runs.user_files import Code
from foltr.serving.live_roster import LiveRoster, wait_for_nodes
from foltr.serving.only_one import only_one
from foltr.serving.server import Rounds, rolled_back
from foltr.serving.settings import ServerTable, address_of, beside, read_server
from foltr.serving.state import ServerState

LOOK = 0.5  # seconds between two looks at whether the SuperLink runs


def serve(
    file: Path,
    code: Code,
    insecure: bool = False,
    rollback: int | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Run a federation's server until its rounds are over, or until it is stopped."""
    agreed, table = read_server(file, code)
    state, stopping = ServerState(beside(file, table.state)), threading.Event()
    roster_file = beside(file, table.roster)
    read_roster(roster_file)  # its mistakes are told before anything is started
    doors = doors_of(file, table, insecure, tell)
    state.open(agreed)
    with ExitStack() as stack:
        stack.enter_context(only_one(state.path, "server"))
        stack.enter_context(on_signals(lambda signum, frame: stopping.set()))
        link = stack.enter_context(SuperLink(doors))
        session = stack.enter_context(
            Session(link.private_url, secret(link.secret_file), state.path, tell=tell)
        )
        live = LiveRoster(roster_file, session, tell)
        stack.enter_context(supervised(link, live, tell))

        def failed(node: str, kind: str, text: str) -> None:
            tell(f"{live.name_of(int(node))}: {kind}: {text}")

        engine = Flower(
            session,
            agreed,
            live.reachable,
            deadline=table.deadline,
            largest=table.largest,
            known=live.known,
            tell=failed,
            stopping=stopping.is_set,
        )
        rounds = Rounds(agreed, table, state, engine, live, tell)
        if rollback is not None:
            now = rolled_back(state, rounds.server, rollback)
            tell(f"the model of round {rollback} is now that of round {now.t}")
        start = rounds.start()
        tell(f"federation {agreed.id.hex()[:12]}: nodes connect to {link.public_address}")
        try:
            wait_for_nodes(live, table.wait, stopping, tell)
            done = rounds.run(start)
            tell(f"all {done.t:,} rounds are made; the model is in {state.path}")
        except Stopping:
            tell("stopped: the same command goes on from here")


def doors_of(file: Path, table: ServerTable, insecure: bool, tell: Callable[[str], None]) -> Doors:
    """The doors of the SuperLink, by the settings; certificates are checked."""
    host, port = address_of(table.listen)
    folder = beside(file, table.state) / "superlink"
    database = str(folder / "messages.db") if table.database else None
    common = {"host": host, "port": port, "database": database, "largest": table.largest_frame}
    if insecure:
        tell("insecure: no TLS, and any node may connect; for tests on this machine only")
        return Doors(str(folder), insecure=True, **common)  # type: ignore[arg-type]
    way_out = "`foltr keys server` makes them; or type --insecure for a test on this machine"
    require(table.keys is not None, f"{file}: [server] needs keys, the folder of keys: {way_out}")
    files = ServerFiles(beside(file, table.keys or ""))
    for warning in check_server(beside(file, table.keys or "")):
        tell(warning)
    pair = {"certificate": str(files.certificate), "key": str(files.key)}
    return Doors(str(folder), **pair, **common)  # type: ignore[arg-type]


@contextmanager
def supervised(link: SuperLink, live: LiveRoster, tell: Callable[[str], None]) -> Iterator[None]:
    """Starts the SuperLink again if it ends."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK):
            if link.alive or over.is_set():
                continue
            tell("the SuperLink has ended: starting it again")
            try:
                link.start()
                live.register_again()
            except Mistake as error:
                tell(str(error))

    thread = threading.Thread(target=watch, name="foltr-superlink", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5.0)
