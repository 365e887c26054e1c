"""The server of a federation: it runs the rounds with nodes, and saves its state after each."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array, Cohort, Observed
from foltr.engines.flower import Flower
from foltr.errors import Mistake, require
from foltr.experiment import Experiment
from foltr.federated.agreement import Agreement
from foltr.federated.messages import NewSession
from foltr.federated.roster import Roster
from foltr.federation import Delivery, Server, State, federate
from foltr.seeds import SystemStream, stream
from foltr.serving.board import Board
from foltr.serving.forgetting import ask_to_forget, clients_of, next_plan, unlearned
from foltr.serving.guarantee import epsilon_of, experiment_of, spent
from foltr.serving.guarded import GuardedServer
from foltr.serving.settings import ServerTable
from foltr.serving.state import ServerState
from foltr.simulation.evaluation import Evaluator
from foltr.system.threads import Threads

MEASURE = "ndcg@10"


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
    _experiment: Experiment | None = None
    _before: Counter[str] = field(default_factory=Counter)
    _marks: tuple[int, int, float] = (0, 0, 0.0)

    def __post_init__(self, shown: Board | None) -> None:
        agreed = self.agreement
        self.engine.tell, self.seed = self.failed, self.state.seed(self.table.seed)
        self.engine.waiting = self._waiting
        few = f"asked = {agreed.asked} clients in a round, but the roster has only {self.clients}"
        enough = self.clients >= agreed.asked
        require(enough, f"{few}: add nodes (`foltr keys add`), or lower asked")
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
        """The clients to ask in round t: those of connected nodes, or a random part of them;
        nobody who was forgotten. Waits until enough are connected."""
        left = clients_of(self, tuple(self.state.forgotten["nodes"]))
        there, asked = np.setdiff1d(self.engine.there(), left), self.agreement.asked
        if len(there) <= asked:
            return there
        return there[stream(self.seed, "participation", t).sample(len(there), asked)]

    def run(self, state: State) -> State:
        """Run the remaining rounds, and unlearn nodes that ask for it."""
        self._marks = (self.engine.sent_bytes, self.engine.got_bytes, time.monotonic())
        self._before = self.engine.failures.copy()
        self._show(state.t)
        if self.until == self.agreement.rounds and self.agreement.history is not None:
            self.note("no budget is left for unlearning: set training_rounds below rounds")
        if next_plan(self, state.t + 1) is None:
            with suppress(NewSession):
                self.engine.agreeing()  # a node answers the HELLO with its request to be forgotten
        stopped = True  # clients may have answered the next round already, to a stopped server
        while True:
            back, self.came_back = self.came_back, set()
            for name in sorted(back):
                self.leave(name)
            if plan := next_plan(self, state.t + stopped):
                state = unlearned(self, state, plan)
            elif state.t < self.until:
                state = self.rounds(self.server, state, state.t + 1, self.choose)
            else:
                return state
            stopped = False

    @property
    def until(self) -> int:
        """The number of rounds of training. The rest of the budget is for unlearning."""
        return training_rounds(self.agreement, self.table)

    def rounds(
        self, server: Server, state: State, until: int, choose: Callable[[int], Array]
    ) -> State:
        """Run the rounds state.t .. until - 1."""
        agreed, delivery = self.agreement, Delivery(channel=self.agreement.channel)
        parts = server, self.engine, state, until, choose, self.seed
        return federate(*parts, self._record, delivery, n=agreed.asked)

    def _waiting(self, clients: int) -> None:
        need = f"a round needs {self.agreement.fewest:,}"
        self.note(f"{clients:,} clients are connected, {need}: waiting for nodes")

    def note(self, text: str) -> None:
        """Print a line, and add it to the notes of the status page."""
        self.board.telling(self.tell)(text)

    def failed(self, node: str, kind: str, text: str) -> None:
        """Report an answer that was left out. The engine calls this."""
        name = self.name_of(int(node))
        self.reasons[int(node)] = text
        self.note(f"{name}: {kind}: {text}")
        if kind == "forget":
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
        }
        seen = self.server.seen
        if "last" in seen:  # if too few clients answered, no model was measured
            refused = bool(seen["refused"])
            about |= {"ndcg": seen.pop("last"), "best": seen["best"], "refused": refused}
        every = self.agreement.history
        if every is not None and t % every == 0 and self.engine.model is None:
            self.state.add_participants(t, self.engine.took_part)
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
    return Board(agreed.id.hex()[:12], training_rounds(agreed, table), agreed.asked)


def training_rounds(agreed: Agreement, table: ServerTable) -> int:
    return min(agreed.rounds, table.training_rounds or agreed.rounds)


def line_of(about: Mapping[str, Any], agreed: Agreement) -> str:
    """A line of text about a round."""
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
    return text


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
