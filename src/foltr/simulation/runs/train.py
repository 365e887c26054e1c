"""Rounds in a folder: resume, learn, evaluate, record, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from foltr.core import Array, Cohort, Engine, Learner, Observed
from foltr.core.compiled import uses_kernels
from foltr.core.errors import require, shown
from foltr.core.federation import Delivery, Participants, Server, State, federate
from foltr.core.seeds import stream
from foltr.core.system.lock import Claim
from foltr.core.world.history import History
from foltr.core.world.measures import Measure, OnlineMeasure, Round
from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.runs.client_rankers import of_clients
from foltr.simulation.runs.columns import VALIDATION, Metrics
from foltr.simulation.runs.context import Context, by_params, evaluated
from foltr.simulation.runs.identity import check_same_code
from foltr.simulation.runs.interruptions import Interruptions
from foltr.simulation.runs.result import Progress, Result, known
from foltr.simulation.runs.setup import delivery_of, engine_of, warmed_up

if TYPE_CHECKING:
    from foltr.simulation.engines.stretch import Stretch

CHECKPOINT_SECONDS = 5.0
SAVE_AFTER_SECONDS = 1.0  # of measuring clients
STOPS_BY = f"{VALIDATION}ndcg@10"
STRETCH_SECONDS = 0.1  # in one compiled call: signals and progress wait for its end


@dataclass(frozen=True)
class Stage:
    """The rounds before `until` (after those of the stage before), all made in one way."""

    until: int
    server: Server
    engine: Engine
    choose: Callable[[int], Array]
    delivery: Delivery


@dataclass(frozen=True)
class Followed:
    """How the rounds of a run ended."""

    state: State
    metrics: Metrics
    seconds: tuple[float, float]  # over all processes that made it: in all, and inside kernels
    engine: Engine
    history: History | None


def train(
    run: Context, interruptions: Interruptions, claim: Claim | None
) -> tuple[Result, History | None]:
    """The experiment's own rounds: one stage."""
    e = run.experiment
    guarantee = ledger_of(e, run.train.width).plain()  # first: refuses what it cannot account for
    server = Server(e.device_learner, e.aggregator, e.optimizer, e.privacy)
    params = e.ranker.init(run.train.width, stream(e.seed, "init")).astype(np.float64)
    parts = e, run.population, params, run.threads, run.engine
    engine, delivery = engine_of(*parts), delivery_of(e, run.population)

    choose = Participants(np.arange(e.clients), e.participation, e.seed)
    history = None
    if e.history is not None:
        history = run.history(e.history, e.rounds, e.cohort, len(params))
    stages = [Stage(e.rounds, server, engine, choose, delivery)]
    made = follow(run, stages, lambda: warmed_up(*parts), e.seed, interruptions, claim, history)
    clients, more = np.arange(e.clients), {"privacy": guarantee}
    return concluded(run, made, clients, more, interruptions, claim), history


def concluded(
    run: Context,
    made: Followed,
    clients: Array,
    more: dict[str, Any],
    interruptions: Interruptions,
    claim: Claim | None,
) -> Result:
    """The result of a run whose rounds are over, with measures of the clients that are there in
    the end. When these have taken a second, or a signal came, the rounds are saved."""
    state, notes = made.state, run.notes + made.engine.notes
    if state.withheld:
        few = f"too few messages arrived in {state.withheld:,} of {state.t:,} rounds"
        notes += (f"{few}: the ranker was not updated in them",)
    e = run.experiment
    if state.t < e.rounds and lost_patience(e, made.metrics):
        better = "no higher nDCG@10 on the validation queries"
        notes += (f"stopped early: {better} in {e.patience} evaluations in a row",)
    late = [m.name for m in run.measures if began_late(made.metrics, m.name)]
    if late:
        notes += (f"recorded only after the run was continued: {', '.join(late)}",)
    final = run.final(made.metrics, made.seconds, notes)
    # asked for when all rounds had been made
    if absent := tuple(m for m in run.measured("offline") if m.name not in final):
        asked = replace(run, measures=absent).evaluators()
        found = evaluated(asked, by_params(state.params))
        final |= {name: known(value) for name, value in found.items() if name not in final}
    on_train = run.evaluator(run.train)(state.params)
    final |= {f"train_{name}": known(value) for name, value in on_train.items()}
    began, saved, rounds = time.monotonic(), False, state.t

    def told(done: int, of: int) -> None:
        nonlocal saved
        interruptions.under_way = True
        progress = Progress(
            run.experiment, rounds, rounds, rounds, made.metrics, notes, (done, of)
        )
        run.watch(progress)
        if claim is not None and claim.report(rounds, rounds):
            interruptions.ask_outside()
        if run.folder is None or not (
            interruptions.asked or time.monotonic() - began > SAVE_AFTER_SECONDS
        ):
            return
        if not saved:
            run.folder.checkpoint(state, made.engine.memory, made.metrics, made.seconds)
            saved = True
        interruptions.obey(rounds, rounds)

    final |= of_clients(run, state.params, made.engine.memory, clients, told)
    final |= more
    if made.history is not None:
        final["history"] = made.history.sum()
    if run.folder is not None and run.per_query:
        run.keep_queries(state.params)
    return run.finished(state.params, made.metrics, final)


def follow(
    run: Context,
    stages: list[Stage],
    start: Callable[[], Array],
    seed: int,
    interruptions: Interruptions,
    claim: Claim | None,
    history: History | None = None,
) -> Followed:
    """All stages, from `start()` or from where they were stopped."""
    e, began, evaluators = run.experiment, time.perf_counter(), run.evaluators()
    rounds, metrics, before, stored = stages[-1].until, Metrics(), (0.0, 0.0), None
    if run.folder is not None:
        if run.folder.has_checkpoint:
            check_same_code(run.folder.path, run.folder.environment(), run.made_with)
        run.folder.open(run.files())
        stored = run.folder.resume()
    if stored is None:
        state = stages[0].server.init(start())
        metrics.evaluate(0, evaluated(evaluators, by_params(state.params)))
    else:
        state, memory, metrics, before = stored
        for stage in stages:
            stage.engine.memory = memory
    first, saved, stage, before_round = state.t, time.monotonic(), stages[0], state.params
    every, online = run.engine.checkpoint_seconds, run.measured("online")
    metrics.expect(each.name for each in online)

    def seconds() -> tuple[float, float]:
        return before[0] + time.perf_counter() - began, before[1] + run.threads.busy

    def record(state: State, sent: Cohort, observed: Observed | None) -> None:
        nonlocal before_round
        more = {}
        if online:
            more = of_round(online, state.t, before_round, sent, observed, stage.server.learner)
            before_round = state.params
        metrics.add_round(sent, observed, more)
        if history is not None:
            history.keep(state.t - 1, sent)
        after(state)

    def after(state: State) -> None:
        nonlocal saved
        interruptions.under_way = True
        if state.t % e.evaluate_every == 0 or state.t == rounds:
            metrics.evaluate(state.t, evaluated(evaluators, by_params(state.params)))
        run.watch(Progress(e, state.t, first, rounds, metrics, run.notes + stage.engine.notes))
        if claim is not None and claim.report(state.t, rounds):
            interruptions.ask_outside()
        most = CHECKPOINT_SECONDS if every is None else every
        due = interruptions.asked or time.monotonic() - saved >= most
        if run.folder is not None and due and state.t < rounds:
            if history is not None:
                history.flush()
            run.folder.checkpoint(state, stage.engine.memory, metrics, seconds())
            saved = time.monotonic()
            interruptions.obey(state.t, rounds)

    def next_stop(t: int) -> int:
        """How many rounds are done when a stretch after t rounds must end: at an evaluation, at
        the end of the stage, or before a round whose messages are stored, which `federate`
        makes."""
        stop = min(stage.until, (t // e.evaluate_every + 1) * e.evaluate_every)
        return stop if history is None else min(stop, -(-t // history.every) * history.every)

    for stage in stages:
        parts = stage.server, stage.engine, stage.choose, stage.delivery, seed
        # an engine that wants a checkpoint after every round gets its rounds one by one, and so do
        # measures of every round, which look at messages
        whole = every == 0.0 or bool(online)
        stretch = None if whole else stretch_of(*parts, len(state.params))
        count = 1
        while state.t < stage.until and not lost_patience(e, metrics):
            wanted = 0
            if stretch is not None:
                wanted = min(count, stretch.most, next_stop(state.t) - state.t)
            if stretch is not None and wanted:
                begun = time.monotonic()
                state, seen = stretch.advance(state, wanted)
                spent = max(1e-9, time.monotonic() - begun) / max(1, len(seen))
                count = max(1, min(4 * count, int(STRETCH_SECONDS / spent)))
                if len(seen):
                    metrics.add_rounds(seen)
                    after(state)
                if len(seen) == wanted:
                    continue
            # all rounds, or the one that a stretch leaves to the definition
            one, few = stretch is not None, e.patience is not None
            until = state.t + 1 if one else next_stop(state.t) if few else stage.until
            here = stage.server, stage.engine, state, until, stage.choose
            state = federate(*here, seed, record, stage.delivery)
    if history is not None:
        history.flush()
    return Followed(state, metrics, seconds(), stages[-1].engine, history)


def began_late(metrics: Metrics, name: str) -> bool:
    """Whether a measure was not recorded in the first rounds."""
    values = metrics.offline.get(name) or metrics.online.get(name) or [0.0]
    return bool(np.isnan(values[0]) and not np.isnan(values[-1]))


def lost_patience(e: Experiment, metrics: Metrics) -> bool:
    """Whether the last `patience` evaluations brought no higher nDCG@10 on the validation queries
    than those before."""
    if e.patience is None:
        return False
    best = int(np.nan_to_num(metrics.offline[STOPS_BY], nan=-1.0).argmax())
    return len(metrics.evaluated) - 1 - best >= e.patience


def of_round(
    measures: tuple[Measure, ...],
    t: int,
    params: Array,
    sent: Cohort,
    observed: Observed | None,
    learner: Learner,
) -> dict[str, float]:
    """The measures of round t, which began with these parameters."""
    asked = params.astype(np.float32)
    directions = sent.directions
    if directions is None:
        directions = (
            learner.decode(sent.updates, asked) if len(sent) else np.empty((0, len(asked)))
        )
    this = Round(t, asked, sent, directions, observed)
    found = {}
    for measure in measures:
        value = cast(OnlineMeasure, measure).of_round(this)
        number = isinstance(value, int | float | np.floating | np.integer)
        given = f"{type(measure).__name__}.of_round gave {shown(value)} in round {t}"
        require(number and not np.isinf(value), f"{given}: a number is due")
        found[measure.name] = float(value)
    return found


def stretch_of(
    server: Server,
    engine: Engine,
    choose: Callable[[int], Array],
    delivery: Delivery,
    seed: int,
    dim: int,
) -> Stretch | None:
    """What makes rounds of these parts in compiled stretches. None where nothing does (a note then
    names what is missing), or where threads over the clients of a round are faster."""
    if not uses_kernels() or not isinstance(choose, Participants):
        return None
    from foltr.simulation.engines.local import Local  # loads numba

    if not isinstance(engine, Local) or not engine.on_one_thread(choose.count):
        return None
    from foltr.simulation.engines.stretch import Stretch, missing, parts_of

    parts = parts_of(server, engine, choose, delivery, seed, dim)
    if parts is None:
        return None
    if names := missing(parts):
        slow = f"rounds are made one by one: no compiled stretch of rounds for {', '.join(names)}"
        engine.notes = (*engine.notes, slow)
        return None
    return Stretch(parts)
