"""The server of a federation: it runs the rounds with nodes, and saves its state after each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.server.board import Board
from foltr.deployment.server.federation import Federation
from foltr.deployment.server.forgetting import GuardedServer, next_plan, unlearned
from foltr.deployment.settings import ServerTable
from foltr.experiment import Experiment
from foltr.simulation.evaluation import Evaluator

MEASURE = "ndcg@10"
LOOK = 30.0  # seconds after which a server that pauses looks who wants to be forgotten


class Rounds:
    """The rounds of a federation, from its saved state to the last agreed round."""

    def __init__(self, engine: Federation) -> None:
        self.engine, self.agreement = engine, engine.agreement
        self.table, self.state, self.board = engine.table, engine.state, engine.board
        self.seed = self.state.seed(self.table.seed)
        self._experiment: Experiment | None = None
        self._began = -math.inf  # when the last round began, by the monotonic clock
        self._check()
        agreed, table = self.agreement, self.table
        self.server = GuardedServer(
            agreed.device_learner,
            table.aggregator,
            table.optimizer,
            agreed.privacy,
            None if agreed.noise == "address" else SystemStream(),
            self._measure(),
            table.tolerance,
        )
        forgotten = self.state.forgotten
        since = max(forgotten.since, forgotten.compared)
        for about in self.state.rounds():
            self.board.add_round(about)
            if isinstance(about.get("best"), float) and about["round"] >= since:
                self.server.seen["best"] = about["best"]

    def _check(self) -> None:
        """Refuse numbers and parts that do not fit together."""
        agreed, clients = self.agreement, self.clients
        require(
            clients >= agreed.asked,
            f"asked = {agreed.asked} clients in a round, but the roster has only {clients}: add"
            " nodes (`foltr keys add`), or lower asked",
        )
        need = agreed.asked * (agreed.separation or 1)
        require(
            clients >= need,
            f"asked = {agreed.asked} and separation = {agreed.separation} need {need:,} clients,"
            f" but the roster has only {clients:,}: lower one of them, or add nodes",
        )
        require(
            (self.table.training_rounds or 0) <= agreed.rounds,
            f"training_rounds = {self.table.training_rounds} is more than the agreed rounds,"
            f" {agreed.rounds}: lower it, or leave it out",
        )
        _ = self.experiment

    @property
    def clients(self) -> int:
        """All clients of the roster, those of revoked nodes included."""
        return sum(seat.clients for seat in self.engine.live().seats)

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
            self.engine.tell(f"continuing after round {found.t} of {self.agreement.rounds}")
            return found
        require(
            not self.state.rounds(),
            f"{self.state.path} has rounds but no model, and devices repeat no round: restore it,"
            " or use another state folder",
        )
        draws = stream(self.seed, "init")
        params = self.agreement.ranker.init(len(self.agreement.features), draws)
        state = self.server.init(params.astype(np.float64))
        with self.state.together():
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
        recent = self.state.asked_between(t - apart, t)
        there = self.engine.there(np.union1d(recent, self.engine.without_key(self.agreement)))
        if len(there) > self.agreement.asked:
            draws = stream(self.seed, "participation", t)
            there = there[draws.sample(len(there), self.agreement.asked)]
        if apart:
            self.state.add_asked(t, there, t - apart)
        return there

    def run(self, state: State) -> State:
        """Run the remaining rounds, and unlearn nodes that ask for it. Kernels compute them."""
        from foltr.simulation.engines.twins import KERNELS  # loads numba

        with using(KERNELS):
            return self._run(state)

    def _run(self, state: State) -> State:
        self._mark()
        self._show(state.t)
        if self.until == self.agreement.rounds and self.agreement.history is not None:
            self.engine.note("no budget is left for unlearning: set training_rounds below rounds")
        stopped = True  # clients may have answered the next round already, to a stopped server
        while True:
            if next_plan(self, state.t + stopped) is None:
                self.engine.call_roll()  # who wants to be forgotten says so, also at the end
            self.engine.tell_who_came_back()
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
        rounds = training_rounds(self.agreement, self.table)
        return min(self.agreement.rounds, self.state.forgotten.restarted + rounds)

    def rounds(
        self, server: Server, state: State, until: int, choose: Callable[[int], Array]
    ) -> State:
        """Run the rounds state.t .. until - 1."""
        agreed, delivery = self.agreement, Delivery(channel=self.agreement.channel)
        parts = server, self.engine, state, until, choose, self.seed
        return federate(*parts, self._record, delivery, n=agreed.asked)

    def _mark(self) -> None:
        """Begin to count what a round sends, what it leaves out, and how long it takes."""
        self._before = self.engine.failures.copy()
        self._sent, self._got = self.engine.sent_bytes, self.engine.got_bytes
        self._since = time.monotonic()

    def _record(self, state: State, sent: Cohort, observed: Observed | None) -> None:
        """Store a round that was made: all of it, or nothing."""
        t, engine = state.t - 1, self.engine
        about: dict[str, Any] = {
            "round": t,
            "asked": self.agreement.asked,
            "answered": len(engine.took_part),
            "withheld": state.withheld,
            "failures": dict(engine.failures - self._before),
            "bytes": [engine.sent_bytes - self._sent, engine.got_bytes - self._got],
            "seconds": round(time.monotonic() - self._since, 3),
            "ended": round(datetime.now(UTC).timestamp(), 3),
        }
        self._mark()
        seen = self.server.seen
        if "last" in seen:  # if too few clients answered, no model was measured
            refused = bool(seen["refused"])
            about |= {"ndcg": seen.pop("last"), "best": seen["best"], "refused": refused}
        every = self.agreement.history
        with self.state.together():
            if every is not None and t % every == 0 and engine.model is None:
                self.state.add_participants(t, engine.took_part)
            self.state.add_contributors(engine.took_part)
            self.state.keep_model(state.t, state.params, self.table.keep_models)
            self.state.save(state)
            self.state.add_round(about)
        self.board.add_round(about)
        self._show(state.t)
        engine.tell(line_of(about, self.agreement))

    def _show(self, t: int) -> None:
        ledger = spent(self.experiment, self.agreement, t)
        self.board.ledger, self.board.epsilon = ledger.lines(), epsilon_of(ledger)

    def roll_back(self, t: int) -> None:
        """Go back to the model after t rounds. The count of rounds continues, because what clients
        have spent stays spent. The next round is skipped, because clients may have answered in it
        already. A model from before a node was unlearned cannot be restored."""
        now, forgotten = self.state.load(), self.state.forgotten
        if now is None:
            raise Mistake(f"{self.state.folder} has no rounds yet: leave --rollback out")
        since = forgotten.since
        behind = f"round {t} is before round {since}, in which a node was forgotten"
        require(t >= since, f"{behind}: give --rollback {since} or later")
        require(t <= now.t, f"round {t} is not done yet: give --rollback {now.t} or earlier")
        fresh = self.server.init(self.state.model(t))
        with self.state.together():
            self.state.set_forgotten(replace(forgotten, compared=now.t + 1))
            self.state.save(replace(fresh, t=now.t + 1, withheld=now.withheld))
        self.server.seen.pop("best", None)  # the guard starts again
        self.engine.note(
            f"rolled back: the model after round {t} is now that of round {now.t + 1}"
        )


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
