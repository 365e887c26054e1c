"""`foltr serve`: the process of a federation's server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from foltr.core.errors import Mistake, require
from foltr.core.system.log import Event, Reloaded
from foltr.deployment.flower.session import Session
from foltr.deployment.flower.superlink import Doors, SuperLink, secret
from foltr.deployment.guarantee import only_one
from foltr.deployment.keys.device_keys import server_signers
from foltr.deployment.keys.keys import ServerFiles
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.monitoring import Monitor
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Interrupted
from foltr.deployment.protocol.messages import LinkDown
from foltr.deployment.server.backup import known_backups
from foltr.deployment.server.board import Board
from foltr.deployment.server.continuing import ask_last_rounds, check_mark, resume
from foltr.deployment.server.forgetting import ask_to_forget
from foltr.deployment.server.health import (
    Certificate,
    ServerHealth,
    log_new_certificate,
    longest_round,
    watch_certificate,
)
from foltr.deployment.server.live_roster import LiveRoster, wait_for_nodes
from foltr.deployment.server.rounds import Rounds, board_of, rolled_back
from foltr.deployment.server.state import ServerState
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
    state, stopping = ServerState(beside(file, table.state)), threading.Event()
    roster_file = beside(file, table.roster)
    read_roster(roster_file)  # reports mistakes before anything is started
    board = board_of(agreed, table)
    noted = board.telling(tell)
    doors, pair = doors_of(file, table, insecure, noted)
    mark = check_mark(state, continue_after, agreed.rounds)
    state.open(agreed)
    watched = ServerHealth(
        board, state.path, table.interval + longest_round(agreed, table.deadline), pair
    )
    with ExitStack() as stack:
        stack.enter_context(only_one(state.path, "server"))
        stack.enter_context(on_signals(lambda signum, frame: stopping.set()))
        stack.enter_context(shown(board, table.status_address, tell, watched.monitor()))
        own = table.superlink is None
        link = SuperLink(doors).start() if own else SuperLink.joined(Path(doors.folder))
        stack.callback(link.stop)
        session = stack.enter_context(
            Session(
                link.private_url,
                secret(link.secret_file),
                state.path,
                tell=noted,
                stopping=stopping.is_set,
            )
        )
        watched.session, watched.link = session, link if own else None
        live = LiveRoster(roster_file, session, noted)
        state.check_roster(live())
        if own:
            stack.enter_context(supervised(link, live, noted, stopping, pair))

        pinned = None if table.device_keys is None else beside(file, table.device_keys)
        parts = link, session, live, agreed, table, state, board, stopping, tell
        rounds = rounds_on(*parts, pinned)
        for name in forget:
            live().seat(name)  # raises for an unknown name
            ask_to_forget(rounds, name, by_node=False)
        forget_again(rounds)
        if rollback is not None:
            now = rolled_back(state, rounds.server, rollback)
            noted(f"rolled back: the model after round {rollback} is now that of round {now.t}")
        start = rounds.start()
        told = f"federation {agreed.id.hex()[:12]}: nodes connect to {link.public_address}"
        tell(Event(told, "started", federation=agreed.id.hex()))
        try:
            wait_for_nodes(live, table.wait, stopping, noted)
            if mark is not None:
                said = partial(ask_last_rounds, rounds.engine, live)
                command = f"foltr serve {file} --continue-after "
                start = resume(
                    state, start, mark, continue_after, agreed.rounds, said, command, noted
                )
            done = rounds.run(start)
            told = f"all {done.t:,} rounds are done: the model is {rounds.save_ranker()}"
            tell(Event(told, "done", round=done.t))
        except (Interrupted, LinkDown) as error:
            if isinstance(error, LinkDown) and not stopping.is_set():
                raise
            told = f"stopped: the same command continues. The model so far: {rounds.save_ranker()}"
            tell(Event(told, "stopped"))


def forget_again(rounds: Rounds) -> None:
    """Forget nodes that the roster marks as forgotten and the state does not: the state was
    restored from an older backup."""
    about = rounds.state.forgotten
    for seat in rounds.roster().seats:
        if seat.forgotten and seat.name not in (*about["nodes"], *about["pending"]):
            rounds.note(f"{seat.name} was forgotten before, and this state has not forgotten it")
            ask_to_forget(rounds, seat.name, by_node=False)


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
    device_keys: Path | None = None,
) -> Rounds:
    """The rounds of a server whose SuperLink runs. `device_keys`: the file of pinned keys."""
    noted = board.telling(tell)
    signers = None
    if device_keys is not None:
        signers = server_signers(live, live.path, device_keys, noted)
    engine = Flower(
        session,
        agreed,
        live.reachable,
        deadline=table.deadline,
        patience=table.deadline,
        pull=session.pull_messages,
        largest=table.max_norm,
        known=signers or live.known,
        filled=live.filled if signers is None else signers.filled,
        pinned=signers is not None,
        stopping=stopping.is_set,
    )
    run, told = [session.run.run_id], set[str]()

    def ready() -> None:
        """After a lost session, wait for the nodes to reconnect, as at the start."""
        if session.run.run_id != run[0]:
            run[0] = session.run.run_id
            wait_for_nodes(live, table.wait, stopping, noted)
        board.asking = time.monotonic()

    def erase_messages() -> None:
        """End the run, which deletes its messages. Nodes stay connected."""
        session.start_anew()
        run[0] = session.run.run_id
        if not link.erase_deleted():
            log = f"{link.doors.database}-wal"
            noted(f"{log} is in use, and may hold old messages until the server stops")
        for about in known_backups(state.path):
            if about["path"] not in told:
                told.add(about["path"])
                old = f"{about['path']} was made after round {about['round']}"
                noted(f"delete old backups and their copies, which hold what is forgotten: {old}")

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
