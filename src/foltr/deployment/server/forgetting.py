"""Unlearning between machines: a node, or a device behind a gateway, leaves. The server removes
its contribution from the model.

If devices stored norms and the noise allows it, the server uses FedEraser. For each stored round,
the remaining clients of that round learn again, with few searches, and rescale their updates to
the norms that they stored. Otherwise the model restarts from its initial parameters, and training
continues without the node. In both cases the rounds count: unlearning refunds no privacy budget.

When unlearning begins, the server deletes all earlier models, checkpoints and messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from foltr.components.unlearners.fed_eraser import FedEraser
from foltr.core import Array, Cohort
from foltr.core.errors import Mistake, require
from foltr.core.federation import Server, State
from foltr.core.seeds import Stream, stream
from foltr.deployment.protocol.frames import Model
from foltr.deployment.server.state import Plan

if TYPE_CHECKING:
    from foltr.deployment.server.rounds import Rounds


def next_plan(rounds: Rounds, t: int) -> Plan | None:
    """The plan to carry out now, if someone is to be unlearned. A new plan begins with round t,
    and is saved."""
    about = rounds.state.forgotten
    if about.plan is not None or not (about.pending or about.pending_clients):
        return about.plan
    left = _left(rounds, about.pending, about.pending_clients)
    stored, sessions = _stored_rounds(rounds, t, left), 0
    if stored:
        sessions = min(FedEraser().sessions, rounds.agreement.learner.sessions)
    plan = Plan(about.pending, t, stored, sessions, clients=about.pending_clients)
    rounds.state.set_forgotten(replace(about, since=t, plan=plan))
    how = f"{len(stored)} stored rounds are repeated" if stored else "the model starts again"
    rounds.engine.note(f"forgetting {plan.whom}: {how} without them")
    return plan


def unlearned(rounds: Rounds, state: State, plan: Plan) -> State:
    """Carry out a plan, or continue it after an interruption. Returns the state without the plan's
    nodes."""
    if not plan.erased:
        state = _erased(rounds, state, plan)
    left = _left(rounds, plan.nodes, plan.clients)
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
                rounds.engine.note(
                    f"too few clients answered: stored round {stored + 1} is left out"
                )
    finally:
        rounds.engine.model = None
    rounds.server.seen.pop("best", None)  # the guard starts again
    _finish(rounds, state, plan, left)
    return state


def _erased(rounds: Rounds, state: State, plan: Plan) -> State:
    """Replace the model by its initial parameters, and delete the earlier ones. Safe to repeat
    after an interruption."""
    draws = stream(rounds.seed, "init")
    first = rounds.agreement.ranker.init(len(rounds.agreement.features), draws)
    fresh = rounds.server.init(first.astype(np.float64))
    anew = replace(fresh, t=plan.first, withheld=state.withheld)
    with rounds.state.together():
        rounds.state.erase_models()
        rounds.state.save(anew)
    rounds.engine.erase_deleted()
    done = replace(rounds.state.forgotten, plan=replace(plan, erased=True))
    with rounds.state.together():
        if not plan.stored:
            rounds.state.erase_clients(None)
            done = replace(done, restarted=plan.first)
        rounds.state.set_forgotten(done)
    rounds.server.seen.pop("best", None)
    return anew


def _stored_rounds(rounds: Rounds, t: int, left: Array) -> tuple[int, ...]:
    """The stored rounds that FedEraser repeats: those with enough remaining clients, as many as
    the budget of rounds allows. None if FedEraser cannot be used in this federation."""
    e, agreed, note = rounds.experiment, rounds.agreement, rounds.engine.note
    if (agreed.separation or 1) > 1:
        note(f"FedEraser cannot be used here: separation = {agreed.separation}")
        return ()
    try:
        replace(
            e, unlearning=FedEraser(min(3, e.learner.sessions)), leaving=(tuple(left.tolist()),)
        )
    except Mistake as reason:
        note(f"FedEraser cannot be used here: {reason}")
        return ()
    found = [
        s
        for s, clients in rounds.state.participants().items()
        if len(_remaining(rounds, clients, left)) >= agreed.fewest
    ]
    room = max(0, agreed.rounds - t)
    if len(found) > room:
        note(f"the budget is enough to repeat {room} of {len(found)} stored rounds")
        places = np.linspace(0, len(found) - 1, room).round().astype(int)
        found = [found[i] for i in sorted(set(places.tolist()))]
    return tuple(found)


def _left(rounds: Rounds, nodes: tuple[str, ...], clients: tuple[int, ...]) -> Array:
    """The clients of these nodes, and these clients."""
    return np.union1d(rounds.engine.clients_of(nodes), np.array(clients, np.int64))


def _remaining(rounds: Rounds, took_part: Array, left: Array) -> Array:
    """The clients of a round that remain in the federation."""
    there: Array = np.intersect1d(np.setdiff1d(took_part, left), rounds.engine.live().clients)
    return there


def _finish(rounds: Rounds, state: State, plan: Plan, left: Array) -> None:
    rounds.state.erase_clients(left)
    for name in plan.nodes:
        rounds.engine.leave(name)
    untold = rounds.engine.leave_clients(plan.clients)
    known = rounds.state.forgotten
    done = replace(
        known,
        nodes=(*known.nodes, *plan.nodes),
        pending=tuple(name for name in known.pending if name not in plan.nodes),
        clients=(*known.clients, *plan.clients),
        pending_clients=tuple(id for id in known.pending_clients if id not in plan.clients),
        untold_clients=(*known.untold_clients, *sorted(untold)),
        since=state.t,
        plan=None,
    )
    with rounds.state.together():
        rounds.state.erase_models()  # those made during unlearning
        rounds.state.keep_model(state.t, state.params, rounds.table.keep_models)
    rounds.engine.erase_deleted()
    rounds.state.set_forgotten(done)
    rounds.engine.note(f"{plan.whom} forgotten after round {state.t}")


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
