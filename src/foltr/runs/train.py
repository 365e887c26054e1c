"""Rounds under way: resumes, learns, evaluates, records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foltr.components.partitions.iid import IID
from foltr.core import Array, Cohort, Observed
from foltr.federation import Delivery, Server, State, federate, participants
from foltr.runs.account import ledger_of
from foltr.runs.folder import Metrics
from foltr.runs.interruptions import Interruptions
from foltr.runs.lock import Claim
from foltr.runs.result import Progress, Result, known
from foltr.runs.setup import delivery_of, engine_of, warmed
from foltr.seeds import stream
from foltr.world.history import History

if TYPE_CHECKING:
    from foltr.runs.run import Run

CHECKPOINT_SECONDS = 5.0


@dataclass(frozen=True)
class Stage:
    """The rounds before `until` (after those of the stage before), all made in one way."""

    until: int
    server: Server
    engine: Any
    choose: Callable[[int], Array]
    delivery: Delivery


def learn(run: Run, interruptions: Interruptions, claim: Claim | None) -> Result:
    """The experiment's own rounds: one stage."""
    e = run.experiment
    # first: what cannot be accounted for is not run
    promised = ledger_of(e, run.train.width).plain()
    server = Server(e.device_learner, e.aggregator, e.optimizer, e.privacy)
    params = e.ranker.init(run.train.width, stream(e.seed, "init")).astype(np.float64)
    engine = engine_of(e, run.population, params, run.threads, run.engine_name)

    def choose(t: int) -> Array:
        return participants(e.clients, e.participation, e.seed, t)

    stages = [Stage(e.rounds, server, engine, choose, delivery_of(e, run.population))]
    history = None
    if e.history is not None:
        place = None if run.folder is None else run.folder.path
        history = History.of(place, e.history, e.rounds, e.cohort, len(params))
    run.history = history
    state, metrics, seconds = follow(
        run,
        stages,
        lambda: warmed(e, run.population, params, run.threads, run.engine_name),
        e.seed,
        interruptions,
        claim,
        history,
    )
    return concluded(
        run, state, metrics, seconds, engine, np.arange(e.clients), {"privacy": promised}
    )


def concluded(
    run: Run,
    state: State,
    metrics: Metrics,
    seconds: tuple[float, float],
    engine: Any,
    clients: Array,
    told: dict[str, Any],
) -> Result:
    """What there is to say of a run whose rounds are over, and of the clients that are there in
    the end."""
    notes = run.notes + engine.notes
    if state.withheld:
        notes += (
            (
                f"too few messages arrived in {state.withheld:,} of {state.t:,} rounds: nothing"
                " was learned then"
            ),
        )
    final = run.final(metrics, seconds, notes)
    final |= {
        f"train_{name}": known(value)
        for name, value in run.evaluator(run.train)(state.params).items()
    }
    final |= of_clients(run, state.params, engine.memory, clients)
    final |= told
    if run.history is not None:
        final["history"] = run.history.sum()
    if run.folder is not None and run.per_query:
        run.keep_queries(state.params)
    return run.finished(state.params, metrics, final)


def follow(
    run: Run,
    stages: list[Stage],
    start: Callable[[], Array],
    seed: int,
    interruptions: Interruptions,
    claim: Claim | None,
    history: History | None = None,
) -> tuple[State, Metrics, tuple[float, float]]:
    """All stages, from `start()` or from where they were stopped; also the seconds since the run
    began, over all processes that worked on it: in all, and inside kernels."""
    e, began, evaluate, rounds = (
        run.experiment,
        time.perf_counter(),
        run.evaluator(),
        stages[-1].until,
    )
    metrics, before, stored = Metrics(), (0.0, 0.0), None
    if run.folder is not None:
        run.folder.open(run.about())
        stored = run.folder.resume()
    if stored is None:
        state = stages[0].server.init(start())
        metrics.evaluate(0, evaluate(state.params))
    else:
        state, memory, metrics, before = stored
        for stage in stages:
            stage.engine.memory = memory
    first, saved, stage = state.t, time.monotonic(), stages[0]

    def seconds() -> tuple[float, float]:
        return before[0] + time.perf_counter() - began, before[1] + run.threads.busy

    def record(state: State, sent: Cohort, observed: Observed | None) -> None:
        nonlocal saved
        interruptions.under_way = True
        metrics.add_round(sent, observed)
        if history is not None:
            history.keep(state.t - 1, sent)
        if state.t % e.evaluate_every == 0 or state.t == rounds:
            metrics.evaluate(state.t, evaluate(state.params))
        run.watch(Progress(e, state.t, first, rounds, metrics, run.notes + stage.engine.notes))
        if claim is not None and claim.report(state.t, rounds):
            interruptions.ask_outside()
        due = interruptions.asked or time.monotonic() - saved > CHECKPOINT_SECONDS
        if run.folder is not None and due and state.t < rounds:
            if history is not None:
                history.flush()
            run.folder.checkpoint(state, stage.engine.memory, metrics, seconds())
            saved = time.monotonic()
            interruptions.obey(state.t, rounds)

    for stage in stages:
        state = federate(
            stage.server,
            stage.engine,
            state,
            stage.until,
            stage.choose,
            seed,
            record,
            stage.delivery,
        )
    if history is not None:
        history.flush()
    return state, metrics, seconds()


def of_clients(run: Run, params: Array, memory: Array, clients: Array) -> dict[str, float | None]:
    """The final ranker judged by each client on the queries it holds, and, where clients have
    rankers of their own, each of those by its own client and on all held-out queries: means over
    clients."""
    e, evaluate, shared, people = (
        run.experiment,
        run.evaluator(),
        params.astype(np.float32),
        run.population,
    )
    if e.partition == IID() and not memory.shape[1]:
        return {}
    own = [evaluate.of_client(shared, people, c) for c in clients]
    told = {"own_ndcg@10": mean_known(own)}
    if memory.shape[1]:
        rankers = [e.device_learner.personal(shared, memory[c]) for c in clients]
        told["personal_ndcg@10"] = mean_known([evaluate(ranker)["ndcg@10"] for ranker in rankers])
        told["personal_own_ndcg@10"] = mean_known(
            [
                evaluate.of_client(ranker, people, c)
                for c, ranker in zip(clients, rankers, strict=True)
            ]
        )
    return told


def mean_known(values: list[float]) -> float | None:
    """Over those that are known."""
    there = [value for value in values if not np.isnan(value)]
    return sum(there) / len(there) if there else None
