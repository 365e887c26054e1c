"""The nodes of a running server: who is there, what is told of them, and who leaves.

What happens to nodes during a round (`Nodes.on_...`) is noted here. A node or a device that asks
to be forgotten is only recorded; `forgetting.py` unlearns it before the next round."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from foltr.core import Array
from foltr.core.system.log import Event, Tell
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import instruction
from foltr.deployment.server.board import Board
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.state import ServerState
from foltr.deployment.settings import ServerTable

if TYPE_CHECKING:
    from foltr.deployment.flower.session import Session
    from foltr.deployment.flower.superlink import SuperLink

NOBODY = np.empty(0, np.int64)
CONNECTING_PAUSE_SECONDS = 0.2
ERASING_MILLISECONDS = 10_000  # in which another process must stop to read the state


class Federation(Flower):
    """The engine of a running server.

    live: the roster, with the connected nodes
    link: the SuperLink to which `grid` is a `Session`; None on a stock SuperLink, which keeps its
        messages as its operator wants
    message: as in `Nodes`"""

    def __init__(
        self,
        grid: Grid,
        agreement: Agreement,
        live: LiveRoster,
        table: ServerTable,
        state: ServerState,
        board: Board,
        tell: Tell,
        *,
        stopping: threading.Event,
        link: SuperLink | None = None,
        message: Callable[..., Message] = instruction,
    ) -> None:
        super().__init__(
            grid,
            agreement,
            live,
            deadline=table.deadline,
            patience=table.deadline,
            message=message,
            pull=None if link is None else cast("Session", grid).pull_messages,
            stopping=stopping,
            largest=table.max_norm,
        )
        self.live, self.table, self.state, self.board = live, table, state, board
        self.tell, self.link = tell, link
        self.reasons: dict[int, str] = {}  # node -> its last failure
        # who was unlearned while it was disconnected, and has connected again
        self.came_back: set[str] = set()
        self.clients_back: set[int] = set()
        self._session_run = self._run()
        self._told_backups: set[str] = set()

    def _run(self) -> Any:
        """The run of the session, which changes when the SuperLink has lost it."""
        return None if self.link is None else self.grid.run.run_id

    def note(self, text: str) -> None:
        """Print a line, and add it to the notes of the status page."""
        self.board.telling(self.tell)(text)

    # --- what happens to nodes ---

    def reachable(self) -> Mapping[int, range]:
        nodes = self.live.reachable()
        self._show_nodes()
        return nodes

    def wait_for_nodes(self) -> None:
        """Wait until all nodes of the roster are connected, or for `wait` seconds."""
        seconds, told = self.table.wait, False
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.stopping.is_set():
            there, active = len(self.live.reachable(fresh=True)), len(self.live().active)
            self._show_nodes()
            if there >= active:
                return
            if not told:
                self.note(
                    f"{there} of {active} nodes are connected; waiting up to {seconds:g} s for all"
                )
                told = True
            self.stopping.wait(CONNECTING_PAUSE_SECONDS)

    def _show_nodes(self) -> None:
        refused = self.refused.keys() - self.greeted
        reasons = {node: self.reasons.get(node, "no reason") for node in refused}
        self.board.nodes = self.live.states(reasons)

    def on_round(self) -> None:
        if self._run() != self._session_run:  # the nodes reconnect, as at the start
            self._session_run = self._run()
            self.wait_for_nodes()
        self.board.asking = time.monotonic()

    def on_wait(self, clients: int) -> None:
        need = f"a round needs {self.agreement.fewest:,}"
        told = f"{clients:,} clients are connected, {need}: waiting for nodes"
        if len(without := self.without_key(self.agreement)):
            told += f" ({len(without):,} clients have no key in device_keys or the roster)"
        self.note(Event(told, "waiting", clients=clients))

    def on_failure(self, node: int, kind: str, text: str) -> None:
        name = self.live.name_of(node)
        self.reasons[node] = text
        self.note(Event(f"{name}: {kind}: {text}", "failure", "warning", node=name, failure=kind))
        seats = {seat.name: seat for seat in self.live().seats}
        single = self.rolls(node) or (name in seats and seats[name].gateway)
        if kind == "forget" and not single:  # the devices of a gateway are forgotten one by one
            self.ask_to_forget(name, by_node=True)

    def without_key(self, agreed: Agreement) -> Array:
        """The clients that cannot take part in signed sums: devices whose key is not pinned."""
        if agreed.protocol is None or not agreed.protocol.consistency:
            return NOBODY
        everybody = self.live().clients
        return np.setdiff1d(everybody, sorted(self.members.known(everybody)))

    # --- who asks to be forgotten ---

    def ask_to_forget(self, name: str, by_node: bool) -> None:
        """Record that a node is to be unlearned, at its own request (`by_node`) or the operator's.
        A node that was unlearned while it was disconnected, and asks again, is notified before the
        next round."""
        about, known = self.state.forgotten, {seat.name for seat in self.live().seats}
        if name in about.nodes:
            self.came_back.add(name)
            return
        new = name in known and name not in about.pending
        if new or (by_node and name in about.pending and name not in about.wished):
            pending = (*about.pending, name) if new else about.pending
            wished = (*about.wished, name) if by_node else about.wished
            self.state.set_forgotten(replace(about, pending=pending, wished=wished))
            self.note(f"{name} asks to be forgotten" if by_node else f"{name} will be forgotten")

    def forget_again(self) -> None:
        """Forget nodes that the roster marks as forgotten and the state does not: the state was
        restored from an older backup."""
        about = self.state.forgotten
        for seat in self.live().seats:
            if seat.forgotten and seat.name not in (*about.nodes, *about.pending):
                self.note(f"{seat.name} was forgotten before, and this state has not forgotten it")
                self.ask_to_forget(seat.name, by_node=False)

    def on_leaving(self, node: int, clients: Array) -> None:
        """Clients of a gateway ask to be unlearned, or were so before this server was restored
        from a backup. A gateway that could not be told of clients that were unlearned already is
        told before the next round."""
        about, asking = self.state.forgotten, set(clients.tolist())
        self.clients_back |= asking & set(about.untold_clients)
        new = sorted(asking - set(about.clients) - set(about.pending_clients))
        if not new:
            return
        self.note(f"devices behind gateways that ask to be forgotten: {len(new):,}")
        contributed = self.state.contributors()
        idle = () if contributed is None else sorted(set(new) - set(contributed.tolist()))
        if idle:  # nothing of them is in the model: they are told, and nothing is unlearned
            self.note(f"of these, have never contributed: {len(idle):,}")
            self.clients_back |= set(idle)
        waiting = (id for id in new if id not in idle)
        self.state.set_forgotten(
            replace(
                about,
                pending_clients=(*about.pending_clients, *waiting),
                clients=(*about.clients, *idle),
                untold_clients=(*about.untold_clients, *idle),
            )
        )

    def excluded(self) -> Array:
        """The clients that were unlearned, or wait for it behind a gateway."""
        about = self.state.forgotten
        single = np.array([*about.clients, *about.pending_clients], np.int64)
        return np.union1d(self.clients_of(about.nodes), single)

    def clients_of(self, nodes: Iterable[str]) -> Array:
        """The clients of these nodes."""
        roster = self.live()
        ids = [np.array(roster.range_of(roster.seat(name))) for name in nodes]
        return np.sort(np.concatenate([NOBODY, *ids]))

    # --- who was forgotten ---

    def leave(self, name: str) -> None:
        """Tell a node that it was unlearned, and exclude it. A node that asked for this and is not
        connected stays in the roster until it can be told; it does not learn any more."""
        roster = self.live()
        own = roster.range_of(roster.seat(name))
        told: bool | None = None
        for node, clients in self.reachable().items():
            if clients == own:
                told = self.farewell(node, own)
        if told is None and name in self.state.forgotten.wished:
            self.note(
                f"{name} does not answer: it is told that it is forgotten when it reconnects"
            )
            return
        if not told:
            self.note(f"{name} is excluded; it was not told that it is forgotten")
        self.live.shut_out(name)

    def leave_clients(self, clients: Iterable[int]) -> set[int]:
        """Tell gateways which of their clients were unlearned. Returns those that could not be
        told: a gateway names them again, and is told then."""
        untold = set(clients)
        for node, own in self.reachable().items() if untold else ():
            here = sorted(untold & set(own))
            if here and self.farewell(node, here):
                untold -= set(here)
        if untold:
            self.note(f"{len(untold):,} forgotten devices are told when their gateway reconnects")
        return untold

    def tell_who_came_back(self) -> None:
        """Tell those that were unlearned while they were disconnected."""
        back, self.came_back = self.came_back, set()
        for name in sorted(back):
            self.leave(name)
        if self.clients_back:
            again, self.clients_back = self.clients_back, set()
            told = again - self.leave_clients(again)
            about = self.state.forgotten
            untold = tuple(id for id in about.untold_clients if id not in told)
            self.state.set_forgotten(replace(about, untold_clients=untold))

    def erase_deleted(self) -> None:
        """Overwrite deleted models, and delete all messages: the run ends, and nodes stay
        connected."""
        logs = []
        if not self.state.truncate_log(ERASING_MILLISECONDS):
            logs.append(f"{self.state.path}-wal")
        if self.link is not None:
            cast("Session", self.grid).start_anew()
            self._session_run = self._run()
            if not self.link.erase_deleted():
                logs.append(f"{self.link.doors.database}-wal")
        for log in logs:
            self.note(f"{log} is in use, and may hold old messages until the server stops")
        for path, t in self.state.backups():
            if path not in self._told_backups:
                self._told_backups.add(path)
                old = f"{path} was made after round {t}"
                self.note(
                    f"delete old backups and their copies, which hold what is forgotten: {old}"
                )
