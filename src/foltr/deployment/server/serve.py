"""`foltr serve`: the process of a federation's server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from foltr.core.errors import Mistake, require
from foltr.core.system.lock import only_one
from foltr.core.system.log import Event, Reloaded
from foltr.deployment.flower.session import Session
from foltr.deployment.flower.superlink import Doors, SuperLink, secret
from foltr.deployment.keys.keys import ServerFiles
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.monitoring import Monitor
from foltr.deployment.protocol.exchange import Interrupted
from foltr.deployment.protocol.messages import LinkDown
from foltr.deployment.server.board import Board
from foltr.deployment.server.continuing import check_after, resume
from foltr.deployment.server.federation import Federation
from foltr.deployment.server.health import (
    Certificate,
    ServerHealth,
    log_new_certificate,
    longest_round,
    watch_certificate,
)
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.rounds import Rounds, board_of
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.server.status_page import is_open_to_others, status_page
from foltr.deployment.settings import ServerTable, address_of, beside, read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.interruptions import on_signals

LOOK = 0.5  # seconds between two checks whether the SuperLink runs
LONGEST_PAUSE = 30.0  # most seconds between two attempts to start it


def serve(
    file: Path,
    code: Code,
    insecure: bool = False,
    rollback: int | None = None,
    forget: tuple[str, ...] = (),
    tell: Callable[[str], None] = print,
    continue_after: int | None = None,
) -> None:
    """Run a federation's server until all rounds are done, or until it is stopped."""
    agreed, table = read_server(file, code)
    roster_file, stopping = beside(file, table.roster), threading.Event()
    read_roster(roster_file)  # reports mistakes before anything is started
    board = board_of(agreed, table)
    noted = board.telling(tell)
    doors, pair = doors_of(file, table, insecure, noted)
    state = open_state(beside(file, table.state), noted)
    state.check_agreement(agreed)
    check_after(state, continue_after, agreed.rounds)
    watched = ServerHealth(
        board, state.folder, table.interval + longest_round(agreed, table.deadline), pair
    )
    with ExitStack() as stack:
        stack.enter_context(only_one(state.folder, "server"))
        stack.callback(state.close)
        stack.enter_context(on_signals(lambda signum, frame: stopping.set()))
        stack.enter_context(shown(board, table.status_address, tell, watched.monitor()))
        own = table.superlink is None
        link = SuperLink(doors).start() if own else SuperLink.joined(Path(doors.folder))
        stack.callback(link.stop)
        session = stack.enter_context(
            Session(
                link.private_url,
                secret(link.secret_file),
                state.folder,
                tell=noted,
                stopping=stopping.is_set,
            )
        )
        watched.session, watched.link = session, link if own else None
        pinned = None if table.device_keys is None else beside(file, table.device_keys)
        live = LiveRoster(roster_file, session, noted, pinned)
        state.check_roster(live())
        if own:
            stack.enter_context(supervised(link, live, noted, stopping, pair))
        engine = Federation(
            session, agreed, live, table, state, board, tell, stopping=stopping, link=link
        )
        rounds = Rounds(engine)
        for name in forget:
            live().seat(name)  # raises for an unknown name
            engine.ask_to_forget(name, by_node=False)
        engine.forget_again()
        if rollback is not None:
            rounds.roll_back(rollback)
        rounds.start()
        told = f"federation {agreed.id.hex()[:12]}: nodes connect to {link.public_address}"
        tell(Event(told, "started", federation=agreed.id.hex()))
        try:
            engine.wait_for_nodes()
            start = resume(engine, continue_after, f"foltr serve {file} --continue-after ")
            done = rounds.run(start)
            told = f"all {done.t:,} rounds are done: the model is {rounds.save_ranker()}"
            tell(Event(told, "done", round=done.t))
        except (Interrupted, LinkDown) as error:
            if isinstance(error, LinkDown) and not stopping.is_set():
                raise
            told = f"stopped: the same command continues. The model so far: {rounds.save_ranker()}"
            tell(Event(told, "stopped"))


def run_superlink(
    file: Path, code: Code, insecure: bool = False, tell: Callable[[str], None] = print
) -> None:
    """Run only the SuperLink, for a server whose settings have `superlink`."""
    _, table = read_server(file, code)
    need = f"{file}: [server] needs superlink, a folder for the SuperLink's state"
    require(table.superlink is not None, need)
    stopping = threading.Event()
    doors, pair = doors_of(file, table, insecure, tell)
    with on_signals(lambda signum, frame: stopping.set()):
        with SuperLink(doors) as link:
            tell(Event(f"nodes connect to {link.public_address}", "started"))
            while not stopping.wait(LOOK):
                require(link.alive, f"the SuperLink has ended: see its log, {link.log}")
                log_new_certificate(pair, tell)
    tell(Event("stopped: the same command continues", "stopped"))


@contextmanager
def shown(
    board: Board,
    where: tuple[str, int] | None,
    tell: Callable[[str], None],
    monitor: Monitor | None = None,
) -> Iterator[None]:
    """Serve the status page at the address `where`; None for no page."""
    if where is None:
        yield
        return
    with status_page(board, *where, monitor) as address:
        tell(f"status page: {address}")
        if is_open_to_others(where[0]):
            tell("anyone who can reach this machine can read the status page: it has no password")
        yield


def doors_of(
    file: Path, table: ServerTable, insecure: bool, tell: Callable[[str], None]
) -> tuple[Doors, Reloaded[Certificate] | None]:
    """The settings of the SuperLink, and the certificate of its public door, which is checked;
    None without TLS."""
    host, port = address_of(table.listen)
    folder = beside(file, table.superlink or f"{table.state}/superlink")
    database = str(folder / "messages.db") if table.database else None
    common = {"host": host, "port": port, "database": database, "largest": table.max_bytes}
    if insecure:
        tell("insecure: no TLS, and any node can connect; for tests on this machine only")
        return Doors(str(folder), insecure=True, **common), None  # type: ignore[arg-type]
    way_out = "the folder that `foltr keys server` makes (or give --insecure for a test)"
    require(table.keys is not None, f"{file}: [server] needs keys, {way_out}")
    files = ServerFiles(beside(file, table.keys or ""))
    pair = watch_certificate(files.folder, tell)
    for warning in pair.value.warnings:
        tell(Event(warning, "certificate", "warning"))
    names = {"certificate": str(files.certificate), "key": str(files.key)}
    return Doors(str(folder), **names, **common), pair  # type: ignore[arg-type]


@contextmanager
def supervised(
    link: SuperLink,
    live: LiveRoster,
    tell: Callable[[str], None],
    stopping: threading.Event,
    pair: Reloaded[Certificate] | None = None,
) -> Iterator[None]:
    """Restart the SuperLink whenever it ends, unless the server stops. Tell when the certificate
    was replaced."""
    over = threading.Event()

    def watch() -> None:
        pause = LOOK
        while not over.wait(pause):
            log_new_certificate(pair, tell)
            if link.alive or over.is_set() or stopping.is_set():
                continue
            tell(Event("the SuperLink has ended: starting it again", "superlink", "warning"))
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
