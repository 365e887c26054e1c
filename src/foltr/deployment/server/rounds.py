"""The server of a federation: it runs the rounds with nodes, and saves its state after each."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array, Cohort, Observed
from foltr.core.compiled import using
from foltr.core.errors import Mistake, require
from foltr.core.federation import Delivery, Server, State, federate
from foltr.core.seeds import SystemStream, stream
from foltr.core.system.log import Event
from foltr.core.system.process import Threads
from foltr.deployment.guarantee import epsilon_of, experiment_of, spent
from foltr.deployment.keys.roster import Roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.server.board import Board
from foltr.deployment.server.forgetting import (
    GuardedServer,
    all_forgotten,
    ask_to_forget,
    clients_ask_to_forget,
    next_plan,
    unlearned,
)
from foltr.deployment.server.state import ServerState
from foltr.deployment.settings import ServerTable
from foltr.experiment import Experiment
from foltr.simulation.evaluation import Evaluator

MEASURE = "ndcg@10"
LOOK = 30.0  # seconds after which a server that pauses looks who wants to be forgotten
NOBODY = np.empty(0, np.int64)


@dataclass
class Rounds:
    """The rounds of a federation, from its saved state to the last agreed round.

    `roster` returns the current roster. It is called before every round, so that nodes can be
    added or revoked while the server runs."""

    agreement: Agreement
    table: ServerTable
    state: ServerState
    engine: Flower
    roster: Callable[[], Roster]
    tell: Callable[[str], None] = print
    name_of: Callable[[int], str] = str  # the name of a connected node
    shut_out: Callable[[str], None] = lambda name: None  # excludes a node that was unlearned
    erase_messages: Callable[[], None] = lambda: None  # deletes all messages that were sent
    shown: InitVar[Board | None] = None
    board: Board = field(init=False)
    reasons: dict[int, str] = field(default_factory=dict)  # node -> its last failure
    # nodes that were unlearned while disconnected, and have connected again
    came_back: set[str] = field(default_factory=set)
    clients_back: set[int] = field(default_factory=set)  # the same for clients of gateways
    _experiment: Experiment | None = None
    _before: Counter[str] = field(default_factory=Counter)
    _marks: tuple[int, int, float] = (0, 0, 0.0)
    _began: float = -math.inf  # when the last round began, by the monotonic clock

    def __post_init__(self, shown: Board | None) -> None:
        agreed = self.agreement
        self.engine.tell, self.seed = self.failed, self.state.seed(self.table.seed)
        self.engine.waiting = self._waiting
        self.engine.leaving = lambda node, clients: clients_ask_to_forget(self, clients)
        few = f"asked = {agreed.asked} clients in a round, but the roster has only {self.clients}"
        enough = self.clients >= agreed.asked
        require(enough, f"{few}: add nodes (`foltr keys add`), or lower asked")
        need = agreed.asked * (agreed.separation or 1)
        apart = (
            f"asked = {agreed.asked} and separation = {agreed.separation} need {need:,} clients"
        )
        more = f"but the roster has only {self.clients:,}: lower one of them, or add nodes"
        require(self.clients >= need, f"{apart}, {more}")
        above = f"training_rounds = {self.table.training_rounds} is more than the agreed rounds"
        fits = (self.table.training_rounds or 0) <= agreed.rounds
        require(fits, f"{above}, {agreed.rounds}: lower it, or leave it out")
        _ = self.experiment  # refuses parts that do not fit together
        measure = self._measure()
        self.server = GuardedServer(
            agreed.device_learner,
            self.table.aggregator,
            self.table.optimizer,
            agreed.privacy,
            None if agreed.noise == "address" else SystemStream(),
            measure,
            self.table.tolerance,
        )
        self.board = board_of(agreed, self.table) if shown is None else shown
        known = self.state.forgotten
        since = max(int(known["since"]), int(known.get("compared", 0)))
        for about in self.state.rounds():
            self.board.add_round(about)
            if isinstance(about.get("best"), float) and about["round"] >= since:
                self.server.seen["best"] = about["best"]

    @property
    def clients(self) -> int:
        """All clients of the roster, those of revoked nodes included."""
        return sum(seat.clients for seat in self.roster().seats)

    @property
    def experiment(self) -> Experiment:
        """The experiment that this federation is now: nodes may have been added."""
        clients = self.clients
        if self._experiment is None or self._experiment.clients != clients:
            rules = self.table.aggregator, self.table.optimizer
            self._experiment = experiment_of(self.agreement, clients, rules)
        return self._experiment

    def _measure(self) -> Callable[[Array], float] | None:
        """A function that returns a model's nDCG@10 on the held-out queries; None without
        `holdout`."""
        source = self.table.holdout
        if source is None:
            return None
        data = source.load("test")
        wide, agreed = data.width, len(self.agreement.features)
        differ = f"holdout has {wide} features, and the agreement has {agreed}"
        require(wide == agreed, f"{differ}: give data with {agreed} features")
        threads = Threads(1)
        evaluate = Evaluator(
            self.agreement.ranker, data, (), "skip", self.seed, threads, plain=False
        )

        def measure(params: Array) -> float:
            with threads.running():
                return float(evaluate(params)[MEASURE])

        return measure

    def start(self) -> State:
        """The saved state, or the state before the first round."""
        found = self.state.load()
        if found is not None:
            self.tell(f"continuing after round {found.t} of {self.agreement.rounds}")
            return found
        lost = f"{self.state.path} has rounds but no checkpoint.npz, and devices repeat no round"
        require(not self.state.rounds(), f"{lost}: restore it, or use another state folder")
        draws = stream(self.seed, "init")
        params = self.agreement.ranker.init(len(self.agreement.features), draws)
        state = self.server.init(params.astype(np.float64))
        self.state.save(state)
        self.state.keep_model(0, state.params, self.table.keep_models)
        return state

    def save_ranker(self) -> Path:
        """Save the model of the last round in the state folder. Returns the path of the file."""
        now = self.state.load()
        assert now is not None  # `start` saves a state
        return self.state.save_ranker(self.agreement, now.params)

    def choose(self, t: int) -> Array:
        """The clients to ask in round t: those that can be reached, or a random part of them;
        nobody who was forgotten, was asked in the last `separation` - 1 rounds, or cannot sign.
        Waits until enough can be reached. A server that was stopped in round t may ask the same
        clients again: they repeat their answers."""
        apart = (self.agreement.separation or 1) - 1
        recent = self.state.asked_between(t - apart, t) if apart else NOBODY
        out = np.union1d(recent, self._without_key())
        there = self.engine.there(lambda: np.union1d(all_forgotten(self), out))
        if len(there) > self.agreement.asked:
            draws = stream(self.seed, "participation", t)
            there = there[draws.sample(len(there), self.agreement.asked)]
        if apart:
            self.state.add_asked(t, there, t - apart)
        return there

    def _without_key(self) -> Array:
        """The clients that cannot take part in signed sums: devices whose key is not pinned."""
        protocol, known = self.agreement.protocol, self.engine.known
        if protocol is None or not protocol.consistency or known is None:
            return NOBODY
        everybody = self.roster().clients
        return np.setdiff1d(everybody, sorted(known(everybody)))

    def run(self, state: State) -> State:
        """Run the remaining rounds, and unlearn nodes that ask for it. Kernels compute them."""
        from foltr.simulation.engines.twins import KERNELS  # loads numba

        with using(KERNELS):
            return self._run(state)

    def _run(self, state: State) -> State:
        self._marks = (self.engine.sent_bytes, self.engine.got_bytes, time.monotonic())
        self._before = self.engine.failures.copy()
        self._show(state.t)
        if self.until == self.agreement.rounds and self.agreement.history is not None:
            self.note("no budget is left for unlearning: set training_rounds below rounds")
        stopped = True  # clients may have answered the next round already, to a stopped server
        while True:
            if next_plan(self, state.t + stopped) is None:
                self.engine.call_roll()  # who wants to be forgotten says so, also at the end
            back, self.came_back = self.came_back, set()
            for name in sorted(back):
                self.leave(name)
            if self.clients_back:
                again, self.clients_back = self.clients_back, set()
                told = again - set(self.leave_clients(sorted(again)))
                about = self.state.forgotten
                untold = [id for id in about["untold_clients"] if id not in told]
                self.state.set_forgotten({**about, "untold_clients": untold})
            if plan := next_plan(self, state.t + stopped):
                state = unlearned(self, state, plan)
            elif state.t < self.until:
                if self._early():
                    continue
                state = self.rounds(self.server, state, state.t + 1, self.choose)
            else:
                return state
            stopped = False

    def _early(self) -> bool:
        """Wait for some time if the next round is not due yet (`interval`). Meanwhile, the server
        looks now and then who wants to be forgotten."""
        left = self._began + self.table.interval - time.monotonic()
        if left <= 0.0:
            self._began = time.monotonic()
            return False
        self.engine.wait(min(LOOK, left))
        return True

    @property
    def until(self) -> int:
        """The round after which training ends. The rest of the budget is for unlearning: if the
        model had to start again, training has all its rounds again, as far as the budget goes."""
        since = int(self.state.forgotten.get("restarted", 0))
        return min(self.agreement.rounds, since + training_rounds(self.agreement, self.table))

    def rounds(
        self, server: Server, state: State, until: int, choose: Callable[[int], Array]
    ) -> State:
        """Run the rounds state.t .. until - 1."""
        agreed, delivery = self.agreement, Delivery(channel=self.agreement.channel)
        parts = server, self.engine, state, until, choose, self.seed
        return federate(*parts, self._record, delivery, n=agreed.asked)

    def _waiting(self, clients: int) -> None:
        need = f"a round needs {self.agreement.fewest:,}"
        told = f"{clients:,} clients are connected, {need}: waiting for nodes"
        if len(without := self._without_key()):
            told += f" ({len(without):,} clients have no key in device_keys or the roster)"
        self.note(Event(told, "waiting", clients=clients))

    def note(self, text: str) -> None:
        """Print a line, and add it to the notes of the status page."""
        self.board.telling(self.tell)(text)

    def failed(self, node: str, kind: str, text: str) -> None:
        """Report an answer that was left out. The engine calls this."""
        name = self.name_of(int(node))
        self.reasons[int(node)] = text
        self.note(Event(f"{name}: {kind}: {text}", "failure", "warning", node=name, failure=kind))
        welcome = self.engine.welcomes.get(int(node))
        rolls = welcome is not None and welcome.roll
        seats = {seat.name: seat for seat in self.roster().seats}
        single = rolls or (name in seats and seats[name].gateway)
        if kind == "forget" and not single:  # the devices of a gateway are forgotten one by one
            ask_to_forget(self, name, by_node=True)

    def leave(self, name: str) -> None:
        """Tell a node that it was unlearned, and exclude it. A node that asked for this and is not
        connected stays in the roster until it can be told; it does not learn any more."""
        roster = self.roster()
        own = roster.range_of(roster.seat(name))
        told: bool | None = None
        for node, clients in self.engine.reachable().items():
            if clients == own:
                told = self.engine.farewell(node, own)
        if told is None and name in self.state.forgotten.get("wished", ()):
            self.note(
                f"{name} does not answer: it is told that it is forgotten when it reconnects"
            )
            return
        if not told:
            self.note(f"{name} is excluded; it was not told that it is forgotten")
        self.shut_out(name)

    def leave_clients(self, clients: Iterable[int]) -> list[int]:
        """Tell gateways which of their clients were unlearned. Returns those that could not be
        told: a gateway names them again, and is told then."""
        untold = set(clients)
        for node, own in self.engine.reachable().items() if untold else ():
            here = sorted(untold & set(own))
            if here and self.engine.farewell(node, here):
                untold -= set(here)
        if untold:
            self.note(f"{len(untold):,} forgotten devices are told when their gateway reconnects")
        return sorted(untold)

    def _record(self, state: State, sent: Cohort, observed: Observed | None) -> None:
        t = state.t - 1
        sent_bytes, got_bytes, began = self._marks
        self._marks = (self.engine.sent_bytes, self.engine.got_bytes, time.monotonic())
        failures = self.engine.failures - self._before
        self._before = self.engine.failures.copy()
        about: dict[str, Any] = {
            "round": t,
            "asked": self.agreement.asked,
            "answered": len(self.engine.took_part),
            "withheld": state.withheld,
            "failures": dict(failures),
            "bytes": [self.engine.sent_bytes - sent_bytes, self.engine.got_bytes - got_bytes],
            "seconds": round(self._marks[2] - began, 3),
            "ended": round(datetime.now(UTC).timestamp(), 3),
        }
        seen = self.server.seen
        if "last" in seen:  # if too few clients answered, no model was measured
            refused = bool(seen["refused"])
            about |= {"ndcg": seen.pop("last"), "best": seen["best"], "refused": refused}
        every = self.agreement.history
        if every is not None and t % every == 0 and self.engine.model is None:
            self.state.add_participants(t, self.engine.took_part)
        self.state.add_contributors(self.engine.took_part)
        self.state.keep_model(state.t, state.params, self.table.keep_models)
        self.state.save(state)
        self.state.add_round(about)
        self.board.add_round(about)
        self._show(state.t)
        self.tell(line_of(about, self.agreement))

    def _show(self, t: int) -> None:
        ledger = spent(self.experiment, self.agreement, t)
        self.board.ledger, self.board.epsilon = ledger.lines(), epsilon_of(ledger)


def board_of(agreed: Agreement, table: ServerTable) -> Board:
    rounds, fewest = training_rounds(agreed, table), agreed.fewest
    return Board(agreed.id.hex()[:12], rounds, agreed.asked, fewest=fewest)


def training_rounds(agreed: Agreement, table: ServerTable) -> int:
    return min(agreed.rounds, table.training_rounds or agreed.rounds)


def line_of(about: Mapping[str, Any], agreed: Agreement) -> Event:
    """A line of the log about a round."""
    text = f"round {about['round'] + 1:,} of {agreed.rounds:,}: {about['answered']:,} of"
    text += f" {about['asked']:,} clients answered, {about['seconds']:.1f} s"
    if about["answered"] < agreed.fewest:
        text += f", fewer than {agreed.fewest:,}: the model stays as it is"
    if "ndcg" in about:
        text += f", held-out nDCG@10 {about['ndcg']:.4f}"
    if about.get("refused"):
        text += ", not adopted"
    if about["failures"]:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(about["failures"].items()))
        text += f" (failures: {kinds})"
    few = about["answered"] < agreed.fewest
    fields = {**about, "round": about["round"] + 1, "rounds": agreed.rounds}
    return Event(text, "round", "warning" if few else "info", **fields)


def rolled_back(state: ServerState, server: GuardedServer, t: int) -> State:
    """Go back to the model after t rounds. Returns the new state, which is saved. The count of
    rounds continues, because what clients have spent stays spent. The next round is skipped,
    because clients may have answered in it already. A model from before a node was unlearned
    cannot be restored."""
    now = state.load()
    if now is None:
        raise Mistake(f"{state.path} has no rounds yet: leave --rollback out")
    since = int(state.forgotten["since"])
    behind = f"round {t} is before round {since}, in which a node was forgotten"
    require(t >= since, f"{behind}: give --rollback {since} or later")
    require(t <= now.t, f"round {t} is not done yet: give --rollback {now.t} or earlier")
    fresh = server.init(state.model(t))
    went_back = State(fresh.params, fresh.aggregator, fresh.optimizer, now.t + 1, now.withheld)
    state.set_forgotten({**state.forgotten, "compared": now.t + 1})
    state.save(went_back)
    server.seen.pop("best", None)  # the guard starts again
    return went_back
