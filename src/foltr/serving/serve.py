"""`foltr serve`: the process of a federation's server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from foltr.engines.flower import Flower
from foltr.errors import Mistake, require
from foltr.federated.agreement import Agreement
from foltr.federated.exchange import Interrupted
from foltr.federated.keys import ServerFiles, check_server
from foltr.federated.roster_file import read_roster
from foltr.federated.session import Session
from foltr.federated.superlink import Doors, SuperLink, secret
from foltr.runs.interruptions import on_signals
from foltr.runs.user_files import Code
from foltr.serving.board import Board
from foltr.serving.forgetting import ask_to_forget
from foltr.serving.live_roster import LiveRoster, wait_for_nodes
from foltr.serving.only_one import only_one
from foltr.serving.server import Rounds, board_of, rolled_back
from foltr.serving.settings import ServerTable, address_of, beside, read_server
from foltr.serving.state import ServerState
from foltr.serving.status_page import is_open_to_others, status_page

LOOK = 0.5  # seconds between two checks whether the SuperLink runs
LONGEST_PAUSE = 30.0  # most seconds between two attempts to start it


def serve(
    file: Path,
    code: Code,
    insecure: bool = False,
    rollback: int | None = None,
    forget: tuple[str, ...] = (),
    tell: Callable[[str], None] = print,
) -> None:
    """Run a federation's server until all rounds are done, or until it is stopped."""
    agreed, table = read_server(file, code)
    state, stopping = ServerState(beside(file, table.state)), threading.Event()
    roster_file = beside(file, table.roster)
    read_roster(roster_file)  # reports mistakes before anything is started
    board = board_of(agreed, table)
    noted = board.telling(tell)
    doors = doors_of(file, table, insecure, noted)
    state.open(agreed)
    with ExitStack() as stack:
        stack.enter_context(only_one(state.path, "server"))
        stack.enter_context(on_signals(lambda signum, frame: stopping.set()))
        stack.enter_context(shown(board, table.status_address, tell))
        own = table.superlink is None
        link = SuperLink(doors).start() if own else SuperLink.joined(Path(doors.folder))
        stack.callback(link.stop)
        session = stack.enter_context(
            Session(link.private_url, secret(link.secret_file), state.path, tell=noted)
        )
        live = LiveRoster(roster_file, session, noted)
        state.check_roster(live())
        if own:
            stack.enter_context(supervised(link, live, noted))

        rounds = rounds_on(link, session, live, agreed, table, state, board, stopping, tell)
        for name in forget:
            live().seat(name)  # raises for an unknown name
            ask_to_forget(rounds, name, by_node=False)
        if rollback is not None:
            now = rolled_back(state, rounds.server, rollback)
            noted(f"rolled back: the model after round {rollback} is now that of round {now.t}")
        start = rounds.start()
        tell(f"federation {agreed.id.hex()[:12]}: nodes connect to {link.public_address}")
        try:
            wait_for_nodes(live, table.wait, stopping, noted)
            done = rounds.run(start)
            tell(f"all {done.t:,} rounds are done: the model is {rounds.save_ranker()}")
        except Interrupted:
            tell(f"stopped: the same command continues. The model so far: {rounds.save_ranker()}")


def rounds_on(
    link: SuperLink,
    session: Session,
    live: LiveRoster,
    agreed: Agreement,
    table: ServerTable,
    state: ServerState,
    board: Board,
    stopping: threading.Event,
    tell: Callable[[str], None],
) -> Rounds:
    """The rounds of a server whose SuperLink runs."""
    noted = board.telling(tell)
    engine = Flower(
        session,
        agreed,
        live.reachable,
        deadline=table.deadline,
        patience=table.deadline,
        pull=session.pull_messages,
        largest=table.max_norm,
        known=live.known,
        filled=live.filled,
        stopping=stopping.is_set,
    )
    run = [session.run.run_id]

    def ready() -> None:
        """After a lost session, wait for the nodes to reconnect, as at the start."""
        if session.run.run_id != run[0]:
            run[0] = session.run.run_id
            wait_for_nodes(live, table.wait, stopping, noted)

    def erase_messages() -> None:
        """End the run, which deletes its messages. Nodes stay connected."""
        session.start_anew()
        run[0] = session.run.run_id
        if not link.erase_deleted():
            log = f"{link.doors.database}-wal"
            noted(f"{log} is in use, and may hold old messages until the server stops")

    rounds = Rounds(
        agreed, table, state, engine, live, tell, live.name_of, live.shut_out,
        erase_messages, board,
    )  # fmt: skip

    def looked() -> None:
        out = engine.refused.keys() - engine.greeted
        reasons = {node: rounds.reasons.get(node, "no reason") for node in out}
        board.nodes = live.states(reasons)

    engine.ready, live.looked = ready, looked
    return rounds


def run_superlink(
    file: Path, code: Code, insecure: bool = False, tell: Callable[[str], None] = print
) -> None:
    """Run only the SuperLink, for a server whose settings have `superlink`."""
    _, table = read_server(file, code)
    need = f"{file}: [server] needs superlink, a folder for the SuperLink's state"
    require(table.superlink is not None, need)
    stopping = threading.Event()
    with on_signals(lambda signum, frame: stopping.set()):
        with SuperLink(doors_of(file, table, insecure, tell)) as link:
            tell(f"nodes connect to {link.public_address}")
            while not stopping.wait(LOOK):
                require(link.alive, f"the SuperLink has ended: see its log, {link.log}")


@contextmanager
def shown(
    board: Board, where: tuple[str, int] | None, tell: Callable[[str], None]
) -> Iterator[None]:
    """Serve the status page at the address `where`; None for no page."""
    if where is None:
        yield
        return
    with status_page(board, *where) as address:
        tell(f"status page: {address}")
        if is_open_to_others(where[0]):
            tell("anyone who can reach this machine can read the status page: it has no password")
        yield


def doors_of(file: Path, table: ServerTable, insecure: bool, tell: Callable[[str], None]) -> Doors:
    """The settings of the SuperLink. Checks the certificates."""
    host, port = address_of(table.listen)
    folder = beside(file, table.superlink or f"{table.state}/superlink")
    database = str(folder / "messages.db") if table.database else None
    common = {"host": host, "port": port, "database": database, "largest": table.max_bytes}
    if insecure:
        tell("insecure: no TLS, and any node can connect; for tests on this machine only")
        return Doors(str(folder), insecure=True, **common)  # type: ignore[arg-type]
    way_out = "the folder that `foltr keys server` makes (or give --insecure for a test)"
    require(table.keys is not None, f"{file}: [server] needs keys, {way_out}")
    files = ServerFiles(beside(file, table.keys or ""))
    for warning in check_server(beside(file, table.keys or "")):
        tell(warning)
    pair = {"certificate": str(files.certificate), "key": str(files.key)}
    return Doors(str(folder), **pair, **common)  # type: ignore[arg-type]


@contextmanager
def supervised(link: SuperLink, live: LiveRoster, tell: Callable[[str], None]) -> Iterator[None]:
    """Restart the SuperLink whenever it ends."""
    over = threading.Event()

    def watch() -> None:
        pause = LOOK
        while not over.wait(pause):
            if link.alive or over.is_set():
                continue
            tell("the SuperLink has ended: starting it again")
            try:
                link.start()
                live.register_again()
                pause = LOOK
            except (Mistake, OSError, ValueError) as error:  # a full disk, for example
                tell(str(error))
                pause = min(2 * pause, LONGEST_PAUSE)

    thread = threading.Thread(target=watch, name="foltr-superlink", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5.0)
