"""Unlearning as a run: from the original run, through an unlearner's phases, to a ranker without
the clients that left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from foltr.core import Array, Ask, Cohort, Memory, Optimizer, Privatizer
from foltr.core.errors import Mistake, require
from foltr.core.federation import Participants, Rewrite, Server, cohort_size, participants
from foltr.core.guards import described
from foltr.core.seeds import Stream, stream
from foltr.core.world.history import History
from foltr.core.world.population import Population
from foltr.core.world.protocols import Past, Phase, Unlearner
from foltr.experiment import Experiment
from foltr.experiment.compatibility import setting_of, stretches_of
from foltr.experiment.departures import unlearning_seed
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.evaluation import MEASURES
from foltr.simulation.runs.client_rankers import mean_known
from foltr.simulation.runs.context import Context
from foltr.simulation.runs.interruptions import Interruptions
from foltr.simulation.runs.result import Result
from foltr.simulation.runs.setup import delivery_of, engine_of, warmed_up
from foltr.simulation.runs.train import Recorder, Stage, concluded, follow

NUMBER_BYTES = 4
WHO = ("remaining", "leaving", "stored")  # take part in a phase


@dataclass(frozen=True)
class ChangedMessages:
    """A round's messages after the clients have changed them by `send` of a phase; malicious
    clients have replaced theirs before."""

    before: Rewrite | None
    send: Callable[[Array, Array, int], Array]
    first: int  # round of the phase
    name: str

    def __call__(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        t = ask.t
        sent = cohort if self.before is None else self.before(cohort, ask, rng)
        updates = np.asarray(self.send(sent.updates, sent.clients, t - self.first))
        given = f"{self.name} sends {updates.shape} instead of {sent.updates.shape}"
        require(updates.shape == sent.updates.shape, given)
        infinite = f"round {t}: {self.name} sends numbers that are not finite"
        require(bool(np.isfinite(updates).all()), infinite)
        return sent.sending(updates.astype(np.float32, copy=False))


@dataclass(frozen=True)
class ChangedSteps:
    """An optimizer whose new parameters are changed by `keep` of a phase."""

    optimizer: Optimizer
    keep: Callable[[Array], Array]
    step_size: float | None = None

    def init(self, dim: int) -> Memory:
        return self.optimizer.init(dim)

    def __call__(self, params: Array, direction: Array, memory: Memory) -> tuple[Array, Memory]:
        stepped, memory = self.optimizer(params, direction, memory)
        return self.keep(stepped), memory


def unlearn(
    run: Context,
    before: Result,
    stored_before: Callable[[], History],
    interruptions: Interruptions,
) -> tuple[Result, History | None]:
    """The rounds of an unlearner: a stage for each of its phases. Clients leave the run that gave
    `before`, in which devices have `stored_before`."""
    e, unlearner = run.experiment, unlearner_of(run.experiment)
    stored = stored_before() if unlearner.stores != "nothing" else None
    past = past_of(run, stored, before.params)
    guarantee = ledger_of(e, run.train.width).plain()  # refuses what it cannot account for
    phases = tuple(phase for phase in _checked_phases(unlearner, past) if phase.rounds)
    known = past if e.privacy is None else check_as_counted(e, e.privacy, past, phases)
    phases = phases or (Phase(0, past.sessions),)  # the starting parameters are the result
    first_rounds = accumulate((phase.rounds for phase in phases[:-1]), initial=0)
    asked = [asked_in(e, past, *each) for each in zip(phases, first_rounds, strict=True)]
    stages, history = stages_of(run, past, phases, asked), None
    if stores_history(e) and (rounds := stages[-1].until):
        most = max(each.most for each in asked)
        history = run.history(interval(e, rounds), rounds, most, len(past.final))
    recorder = Recorder(run, stages, interruptions, history)
    state = follow(recorder, lambda: _start(unlearner, known))
    rankers = {"before": past.final, "after": state.params}
    steps = sum(recorder.metrics.online["interactions"])
    about = {
        "method": repr(unlearner),
        "leaving": [list(group) for group in e.departures.groups],
        "remaining": len(past.remaining),
        "from": None if before.folder is None else before.folder.name,
        "before": {name: before.final[name] for name in MEASURES},
        "own": {name: own_ndcg(run, past.leaving, params) for name, params in rankers.items()},
        **costs(e, past, asked, steps),
    }
    more = {"privacy": guarantee, "unlearning": about}
    return concluded(recorder, state, past.remaining, more), history


def unlearner_of(e: Experiment) -> Unlearner:
    assert e.unlearning is not None  # else it trains
    return e.unlearning


def seed_of(e: Experiment) -> int:
    """The seed of unlearning's rounds: they share no random draws with training, nor with the
    unlearning of another group."""
    return unlearning_seed(e.seed, len(e.departures.groups), unlearner_of(e).repetition)


def check_took_part(e: Experiment) -> None:
    """Refuses leaving clients that never took part in a round."""
    if e.participation == 1.0:
        return
    waiting = set(e.departures.left.tolist())
    for t in range(e.rounds):
        waiting.difference_update(participants(e.clients, e.participation, e.seed, t).tolist())
        if not waiting:
            return
    absent = ", ".join(map(str, sorted(waiting)))
    never = f"client {absent} never took part in the {e.rounds:,} rounds"
    raise Mistake(f"{never}: there is nothing to unlearn")


def begins_anew(e: Experiment) -> bool:
    """Whether a run is training, or unlearning that starts from the initial parameters."""
    return e.unlearning is None or e.unlearning.restarts


def stores_history(e: Experiment) -> bool:
    """Whether devices store what they send: in training, and during unlearning for clients who may
    leave later."""
    stores = begins_anew(e) or unlearner_of(e).stores != "nothing"
    return e.history is not None and stores


def interval(e: Experiment, rounds: int) -> int:
    """Rounds from one that is stored to the next. A run that begins anew stores about as many
    rounds as training, however long it is."""
    assert e.history is not None
    return max(1, round(e.history * rounds / e.rounds)) if begins_anew(e) else e.history


def past_of(run: Context, history: History | None, final: Array) -> Past:
    e, p = run.experiment, run.population
    params = e.ranker.init(run.train.width, stream(e.seed, "init")).astype(np.float64)
    leaving = e.departures.last
    if history is not None and unlearner_of(e).stores == "updates":
        absent = [client for client in leaving.tolist() if not (history.clients == client).any()]
        rare = f"client {absent and absent[0]} took part in no round that was stored"
        more = f"store more of them (history={history.every} now), or use FedEraser or Retrain"
        require(not absent, f"{rare}: {more}")
    step = e.optimizer.step_size
    return Past(
        initial=warmed_up(e, p, params, run.threads, run.engine),
        final=final,
        rounds=e.rounds,
        sessions=e.learner.sessions,
        weights=p.sessions[: e.clients].astype(np.float64),
        leaving=leaving,
        remaining=e.departures.remaining,
        history=history,
        step=1.0 if step is None else step,
    )


@dataclass(frozen=True)
class Asked:
    """Who is asked in the rounds of a phase."""

    choose: Callable[[int], Array]
    most: int  # in one round
    messages: int  # in all rounds


def asked_in(e: Experiment, past: Past, phase: Phase, first: int) -> Asked:
    """Who is asked in a phase that begins with round `first`."""
    if phase.who == "leaving":
        most = len(past.leaving)
        return Asked(lambda t: past.leaving, most, phase.rounds * most)
    if phase.who == "remaining":
        choose = Participants(past.remaining, e.participation, seed_of(e))
        return Asked(choose, choose.count, phase.rounds * choose.count)
    assert past.history is not None
    history, rows = past.history, past.history.with_any(past.remaining)
    require(len(rows) == phase.rounds, f"{phase.rounds} rounds for {len(rows)} stored ones")
    sent = int(np.isin(history.clients, past.remaining).sum())
    return Asked(
        choose=lambda t: history.took_part(int(rows[t - first]), past.remaining),
        most=history.clients.shape[1],
        messages=sent,
    )


def stages_of(
    run: Context, past: Past, phases: tuple[Phase, ...], asked: list[Asked]
) -> list[Stage]:
    e, stages, memory = run.experiment, list[Stage](), None
    for phase, who in zip(phases, asked, strict=True):
        first, name = stages[-1].until if stages else 0, type(e.unlearning).__name__
        population = with_sessions(run.population, past.sessions, phase.sessions)
        engine = engine_of(e, population, past.initial, run.threads, run.engine, seed_of(e))
        if memory is not None:
            engine.memory = memory  # devices keep theirs from phase to phase
        memory, delivery = engine.memory, delivery_of(e, population)
        if phase.send is not None:
            rewrite = ChangedMessages(delivery.rewrite, phase.send, first, name)
            delivery = replace(delivery, rewrite=rewrite)
        optimizer = e.optimizer if phase.keep is None else ChangedSteps(e.optimizer, phase.keep)
        server = Server(e.device_learner, e.aggregator, optimizer, e.privacy)
        until = first + phase.rounds
        stages.append(Stage(until, server, engine, who.choose, delivery, seed_of(e)))
    return stages


def with_sessions(p: Population, of: int, now: int) -> Population:
    """The same clients, `now` searches where there were `of`; others in proportion, at least one
    where there was one."""
    scaled = np.maximum(np.minimum(1, p.sessions), np.rint(p.sessions * (now / of)))
    return replace(p, sessions=scaled.astype(np.int64))


def _checked_phases(unlearner: Unlearner, past: Past) -> tuple[Phase, ...]:
    """The unlearner's phases, checked."""
    phases, name = unlearner.phases(past), type(unlearner).__name__
    made = isinstance(phases, tuple) and all(isinstance(phase, Phase) for phase in phases)
    require(made, f"{name}.phases gave {phases!r}, not a tuple of Phase")
    for phase in phases:
        if phase.rounds < 0 or phase.sessions < 1:
            raise Mistake(f"{name}: no phase has rounds < 0 or sessions < 1: {phase}")
        if phase.who not in WHO:
            raise Mistake(f"{name}: who must be one of {', '.join(WHO)}, got {phase.who!r}")
        if phase.who == "stored" and past.history is None:
            raise Mistake(
                f"{name} asks for stored rounds, and says that it stores nothing (`stores`)"
            )
    return phases


def check_as_counted(
    e: Experiment, privacy: Privatizer, past: Past, phases: tuple[Phase, ...]
) -> Past:
    """Refuses phases that the ledger has not counted. Returns what the server may start from:
    without stored messages, if these lack noise."""
    last, name = len(e.departures.groups) - 1, type(e.unlearning).__name__
    planned = [each.phase for each in stretches_of(e) if each.group == last]
    same = len(planned) == len(phases)
    for plan, phase in zip(planned, phases, strict=False):
        fewer = plan.who == "stored" and phase.rounds < plan.rounds
        same = same and (fewer or phase.rounds == plan.rounds)
        same = same and (phase.sessions, phase.who) == (plan.sessions, plan.who)
        same = same and (phase.send is None or plan.changed)
    other = f"{name}.phases gave other rounds than {name}.planned, which the ledger counts"
    require(same, f"{other}: {phases}, not {planned}")
    events = described(privacy, setting_of(e, len(past.final)))
    if past.history is None or all(event.seen == "message" for event in events):
        return past
    kept = f"{name} may not use stored messages in `keep`: {type(privacy).__name__}"
    require(all(phase.keep is None for phase in phases), f"{kept} adds no noise to them")
    return replace(past, history=None)


def _start(unlearner: Unlearner, past: Past) -> Array:
    params = np.asarray(unlearner.start(past), np.float64)
    name, shapes = type(unlearner).__name__, f"{params.shape}, not {past.final.shape}"
    require(params.shape == past.final.shape, f"{name}.start gave {shapes}")
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(params.astype(np.float32)).all())
    require(finite, f"{name} starts with parameters that are not finite on a device")
    return params


def own_ndcg(run: Context, clients: Array, params: Array) -> float | None:
    """How well a ranker serves clients on what they hold of the training data, as they judge it:
    mean nDCG@10."""
    evaluate, params = run.evaluator(run.train), params.astype(np.float32)
    return mean_known([evaluate.of_client(params, run.population, int(c)) for c in clients])


def costs(e: Experiment, past: Past, asked: list[Asked], steps: float) -> dict[str, Any]:
    """The cost of unlearning compared with retraining: searches on devices, messages from devices
    and their bytes, and the storage on devices."""
    sent = sum(each.messages for each in asked) + len(past.leaving) * unlearner_of(e).handed
    again = past.rounds * cohort_size(len(past.remaining), e.participation)
    vector_bytes = len(past.final) * NUMBER_BYTES
    return {
        "local_steps": beside(steps, again * float(past.weights[past.remaining].mean())),
        "messages": beside(sent, again),
        "bytes": beside(sent * vector_bytes, again * vector_bytes),
        "storage": storage(past, unlearner_of(e).stores),
    }


def beside(made: float, retraining: float) -> dict[str, float | None]:
    fewer = round(retraining / made, 3) if made else None
    return {"made": int(made), "retraining": int(retraining), "times_fewer": fewer}


def storage(past: Past, stores: str) -> dict[str, Any]:
    """Bytes that devices keep for this method: the most on one device, and on all, those who leave
    among them."""
    if past.history is None:
        return {"of": stores, "per_device": 0, "in_all": 0}
    each = NUMBER_BYTES * (len(past.final) if stores == "updates" else 1)
    clients = np.append(past.remaining, past.leaving)
    rows = np.bincount(past.history.clients[np.isin(past.history.clients, clients)], minlength=1)
    return {"of": stores, "per_device": int(rows.max()) * each, "in_all": int(rows.sum()) * each}
