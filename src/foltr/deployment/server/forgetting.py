"""Unlearning between machines: a node, or a device behind a gateway, leaves. The server removes
its contribution from the model.

If devices stored norms and the noise allows it, the server uses FedEraser. For each stored round,
the remaining clients of that round learn again, with few searches, and rescale their updates to
the norms that they stored. Otherwise the model restarts from its initial parameters, and training
continues without the node. In both cases the rounds count: unlearning refunds no privacy budget.

When unlearning begins, the server deletes all earlier models, checkpoints and messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np

from foltr.components.unlearners.fed_eraser import FedEraser
from foltr.core import Array, Cohort
from foltr.core.errors import Mistake, require
from foltr.core.federation import Server, State
from foltr.core.seeds import Stream, stream
from foltr.deployment.keys.roster import Roster
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.frames import Model
from foltr.deployment.server.state import ServerState
from foltr.deployment.settings import ServerTable
from foltr.experiment import Experiment


class Rounds(Protocol):
    """The part of the running server (`server.Rounds`) that unlearning needs."""

    agreement: Agreement
    table: ServerTable
    state: ServerState
    engine: Flower
    server: GuardedServer
    seed: int
    came_back: set[str]
    clients_back: set[int]

    @property
    def experiment(self) -> Experiment: ...

    @property
    def erase_messages(self) -> Callable[[], None]: ...

    @property
    def roster(self) -> Callable[[], Roster]: ...

    def rounds(
        self, server: Server, state: State, until: int, choose: Callable[[int], Array]
    ) -> State: ...

    def leave(self, name: str) -> None: ...
    def leave_clients(self, clients: Iterable[int]) -> list[int]: ...
    def note(self, text: str) -> None: ...


@dataclass(frozen=True)
class Plan:
    """How to unlearn some nodes, and some clients of gateways."""

    nodes: tuple[str, ...]  # names
    first: int  # first round of unlearning
    stored: tuple[int, ...]  # stored rounds that are repeated
    sessions: int  # searches of each client in these rounds
    erased: bool = False  # whether the earlier models are deleted
    clients: tuple[int, ...] = ()  # clients of gateways

    @property
    def whom(self) -> str:
        many = len(self.clients)
        devices = [f"{many:,} device{'s' if many > 1 else ''}"] if many else []
        return ", ".join([*self.nodes, *devices])


def ask_to_forget(rounds: Rounds, name: str, by_node: bool) -> None:
    """Record that a node is to be unlearned, at its own request (`by_node`) or the operator's. The
    server does this before the next round. A node that was unlearned while it was disconnected,
    and asks again, is notified before the next round."""
    about, known = rounds.state.forgotten, {seat.name for seat in rounds.roster().seats}
    if name in about["nodes"]:
        rounds.came_back.add(name)
        return
    pending, wished = about["pending"], about.get("wished", [])
    new = name in known and name not in pending
    if new or (by_node and name in pending and name not in wished):
        pending = [*pending, name] if new else pending
        wished = [*wished, name] if by_node else wished
        rounds.state.set_forgotten({**about, "pending": pending, "wished": wished})
        rounds.note(f"{name} asks to be forgotten" if by_node else f"{name} will be forgotten")


def clients_ask_to_forget(rounds: Rounds, clients: Array) -> None:
    """Record that clients of a gateway want to be unlearned, or were so before this server was
    restored from a backup. The server does this before the next round. A gateway that could not be
    told of clients that were unlearned already is told now."""
    about = rounds.state.forgotten
    pending, done = about.get("pending_clients", []), set(about.get("clients", ()))
    asking = set(clients.tolist())
    rounds.clients_back |= asking & set(about.get("untold_clients", ()))
    if new := sorted(asking - done - set(pending)):
        rounds.note(f"devices behind gateways that ask to be forgotten: {len(new):,}")
        contributed = rounds.state.contributors()
        idle = [] if contributed is None else sorted(set(new) - set(contributed.tolist()))
        if idle:  # nothing of them is in the model: they are told, and nothing is unlearned
            rounds.note(f"of these, have never contributed: {len(idle):,}")
            rounds.clients_back |= set(idle)
        lists = {
            "pending_clients": [*pending, *(id for id in new if id not in idle)],
            "clients": [*about.get("clients", ()), *idle],
            "untold_clients": [*about.get("untold_clients", ()), *idle],
        }
        rounds.state.set_forgotten({**about, **lists})


def next_plan(rounds: Rounds, t: int) -> Plan | None:
    """The plan to carry out now, if someone is to be unlearned. A new plan begins with round t,
    and is saved."""
    about = rounds.state.forgotten
    if plan := about.get("plan"):
        lists = {name: tuple(plan.get(name, ())) for name in ("nodes", "stored", "clients")}
        return Plan(**{**plan, **lists})
    nodes, clients = tuple(about["pending"]), tuple(about.get("pending_clients", ()))
    return _plan(rounds, t, nodes, clients) if nodes or clients else None


def unlearned(rounds: Rounds, state: State, plan: Plan) -> State:
    """Carry out a plan, or continue it after an interruption. Returns the state without the plan's
    nodes."""
    if not plan.erased:
        state = _erased(rounds, state, plan)
    left = np.union1d(clients_of(rounds, plan.nodes), np.array(plan.clients, np.int64))
    took_part = rounds.state.participants()
    unguarded = replace(rounds.server, tolerance=math.inf)  # unlearning may lower the quality
    try:
        for t in range(state.t, plan.first + len(plan.stored)):
            stored = plan.stored[t - plan.first]
            remaining = _remaining(rounds, took_part[stored], left)
            rounds.engine.model = Model(np.empty(0, np.float32), plan.sessions, stored)
            before = state.withheld
            state = rounds.rounds(unguarded, state, t + 1, lambda t, who=remaining: who)  # type: ignore[misc]
            if state.withheld > before:
                rounds.note(f"too few clients answered: stored round {stored + 1} is left out")
    finally:
        rounds.engine.model = None
    rounds.server.seen.pop("best", None)  # the guard starts again
    _finished(rounds, state, plan, left)
    return state


def _plan(rounds: Rounds, first: int, nodes: tuple[str, ...], clients: tuple[int, ...]) -> Plan:
    """Plan how to unlearn these nodes and clients. The plan is saved before anything is
    deleted."""
    left = np.union1d(clients_of(rounds, nodes), np.array(clients, np.int64))
    stored, sessions = _stored_rounds(rounds, first, left), 0
    if stored:
        sessions = min(FedEraser().sessions, rounds.agreement.learner.sessions)
    plan = Plan(nodes, first, stored, sessions, clients=clients)
    rounds.state.set_forgotten({**rounds.state.forgotten, "since": first, "plan": asdict(plan)})
    how = f"{len(stored)} stored rounds are repeated" if stored else "the model starts again"
    rounds.note(f"forgetting {plan.whom}: {how} without them")
    return plan


def _erased(rounds: Rounds, state: State, plan: Plan) -> State:
    """Replace the model by its initial parameters, and delete the earlier ones. Safe to repeat
    after an interruption."""
    draws = stream(rounds.seed, "init")
    first = rounds.agreement.ranker.init(len(rounds.agreement.features), draws)
    fresh = rounds.server.init(first.astype(np.float64))
    anew = replace(fresh, t=plan.first, withheld=state.withheld)
    rounds.state.erase_models()
    rounds.state.save(anew)
    rounds.erase_messages()
    done = {**rounds.state.forgotten, "plan": asdict(replace(plan, erased=True))}
    if not plan.stored:
        rounds.state.set_participants({})
        rounds.state.set_contributors(np.empty(0, np.int64))
        done["restarted"] = plan.first
    rounds.server.seen.pop("best", None)
    rounds.state.set_forgotten(done)
    return anew


def _stored_rounds(rounds: Rounds, t: int, left: Array) -> tuple[int, ...]:
    """The stored rounds that FedEraser repeats: those with enough remaining clients, as many as
    the budget of rounds allows. None if FedEraser cannot be used in this federation."""
    e, agreed = rounds.experiment, rounds.agreement
    if (agreed.separation or 1) > 1:
        rounds.note(f"FedEraser cannot be used here: separation = {agreed.separation}")
        return ()
    try:
        replace(
            e, unlearning=FedEraser(min(3, e.learner.sessions)), leaving=(tuple(left.tolist()),)
        )
    except Mistake as reason:
        rounds.note(f"FedEraser cannot be used here: {reason}")
        return ()
    found = [
        s
        for s, clients in rounds.state.participants().items()
        if len(_remaining(rounds, clients, left)) >= agreed.fewest
    ]
    room = max(0, agreed.rounds - t)
    if len(found) > room:
        rounds.note(f"the budget is enough to repeat {room} of {len(found)} stored rounds")
        places = np.linspace(0, len(found) - 1, room).round().astype(int)
        found = [found[i] for i in sorted(set(places.tolist()))]
    return tuple(found)


def _remaining(rounds: Rounds, took_part: Array, left: Array) -> Array:
    """The clients of a round that remain in the federation."""
    there: Array = np.intersect1d(np.setdiff1d(took_part, left), rounds.roster().clients)
    return there


def _finished(rounds: Rounds, state: State, plan: Plan, left: Array) -> None:
    kept = {t: np.setdiff1d(who, left) for t, who in rounds.state.participants().items()}
    rounds.state.set_participants(kept)
    if (contributed := rounds.state.contributors()) is not None:
        rounds.state.set_contributors(np.setdiff1d(contributed, left))
    for name in plan.nodes:
        rounds.leave(name)
    untold = rounds.leave_clients(plan.clients)
    known = rounds.state.forgotten
    known.pop("plan", None)
    pending = [name for name in known["pending"] if name not in plan.nodes]
    done = {"nodes": [*known["nodes"], *plan.nodes], "pending": pending, "since": state.t}
    if plan.clients:
        waiting = [id for id in known["pending_clients"] if id not in plan.clients]
        gone = [*known.get("clients", ()), *plan.clients]
        untold = [*known.get("untold_clients", ()), *untold]
        done |= {"clients": gone, "pending_clients": waiting, "untold_clients": untold}
    rounds.state.erase_models()  # those made during unlearning
    rounds.erase_messages()
    rounds.state.keep_model(state.t, state.params, rounds.table.keep_models)
    rounds.state.set_forgotten({**known, **done})
    rounds.note(f"{plan.whom} forgotten after round {state.t}")


def all_forgotten(rounds: Rounds) -> Array:
    """The numbers of all clients that were unlearned, or wait for it behind a gateway."""
    about = rounds.state.forgotten
    single = [*about.get("clients", ()), *about.get("pending_clients", ())]
    return np.union1d(clients_of(rounds, tuple(about["nodes"])), np.array(single, np.int64))


def clients_of(rounds: Rounds, nodes: tuple[str, ...]) -> Array:
    """The numbers of the clients of these nodes."""
    roster = rounds.roster()
    ids = [np.array(roster.range_of(roster.seat(name))) for name in nodes]
    return np.sort(np.concatenate([np.empty(0, np.int64), *ids]))


# A server with a rollback guard: it does not adopt a model that is worse on held-out queries.


@dataclass(frozen=True)
class GuardedServer(Server):
    """A server that adopts a new model only if its nDCG@10 on held-out queries (`measure`) is at
    most `tolerance` below the best one so far. Otherwise it keeps its parameters and the state of
    its aggregator and optimizer. It compares with the best model, not with the last one, so that
    small losses do not add up."""

    measure: Callable[[Array], float] | None = None
    tolerance: float = 0.02
    seen: dict[str, float] = field(default_factory=dict)  # "best" so far, "last" measured

    def step(self, state: State, cohort: Cohort, rng: Stream) -> State:
        stepped = super().step(state, cohort, rng)
        self.seen["refused"] = 0.0
        if self.measure is None:
            return stepped
        if "best" not in self.seen:
            self.seen["best"] = self.measure(state.params)
            known = (
                "holdout has no query with a relevant document: give other data, or leave it out"
            )
            require(math.isfinite(self.seen["best"]), known)
        self.seen["last"] = value = self.measure(stepped.params)
        if not value >= self.seen["best"] - self.tolerance:  # or NaN
            self.seen["refused"] = 1.0
            return replace(state, t=stepped.t)
        self.seen["best"] = max(self.seen["best"], value)
        return stepped
