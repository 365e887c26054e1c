"""The rounds of a run: resume, learn, evaluate, record, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from foltr.core import Array, Cohort, Engine, Observed
from foltr.core.compiled import uses_kernels
from foltr.core.errors import require, shown
from foltr.core.federation import Delivery, Participants, Server, State, federate
from foltr.core.seeds import stream
from foltr.core.world.history import History
from foltr.core.world.measures import OnlineMeasure, Round
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.runs.client_rankers import of_clients
from foltr.simulation.runs.columns import VALIDATION, Metrics
from foltr.simulation.runs.context import Context
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
    seed: int
    stretch: Stretch | None = None  # what makes several of these rounds in one compiled call


def train(run: Context, interruptions: Interruptions) -> tuple[Result, History | None]:
    """The experiment's own rounds: one stage."""
    e = run.experiment
    guarantee = ledger_of(e, run.train.width).plain()  # first: refuses what it cannot account for
    params = e.ranker.init(run.train.width, stream(e.seed, "init")).astype(np.float64)
    parts = e, run.population, params, run.threads, run.engine
    stage = Stage(
        until=e.rounds,
        server=Server(e.device_learner, e.aggregator, e.optimizer, e.privacy),
        engine=engine_of(*parts),
        choose=Participants(np.arange(e.clients), e.participation, e.seed),
        delivery=delivery_of(e, run.population),
        seed=e.seed,
    )
    history = None
    if e.history is not None:
        history = run.history(e.history, e.rounds, e.cohort, len(params))
    recorder = Recorder(run, [stage], interruptions, history)
    state = follow(recorder, lambda: warmed_up(*parts))
    return concluded(recorder, state, np.arange(e.clients), {"privacy": guarantee}), history


def follow(recorder: Recorder, start: Callable[[], Array]) -> State:
    """Make all stages, from `start()` or from where they were stopped."""
    run, state = recorder.run, recorder.begin(start)
    # an engine that wants a checkpoint after every round gets its rounds one by one, and so do
    # measures of every round, which look at messages
    one_by_one = run.engine.checkpoint_seconds == 0.0 or bool(recorder.online)
    for stage in recorder.stages:
        if not one_by_one:
            stage = replace(stage, stretch=stretch_of(stage, len(state.params)))
        recorder.stage = stage
        make_rounds = plain_rounds if stage.stretch is None else fused_rounds
        state = make_rounds(stage, state, recorder)
    if recorder.history is not None:
        recorder.history.flush()
    return state


def plain_rounds(stage: Stage, state: State, recorder: Recorder) -> State:
    """The rounds of a stage by `federate`: up to the next stop, and on from there if the run has
    not lost its patience."""
    while state.t < stage.until and not recorder.lost_patience:
        until = max(recorder.next_stop(state.t), state.t + 1)
        state = by_definition(stage, state, recorder, until)
    return state


def fused_rounds(stage: Stage, state: State, recorder: Recorder) -> State:
    """The rounds of a stage, as many in one compiled call as fit in STRETCH_SECONDS. A round whose
    messages are stored, and one that a stretch leaves to the definition, is made by `federate`."""
    count, stretch = 1, stage.stretch
    assert stretch is not None
    while state.t < stage.until and not recorder.lost_patience:
        wanted = min(count, stretch.most, recorder.next_stop(state.t) - state.t)
        made = 0
        if wanted:
            begun = time.monotonic()
            state, seen = stretch.advance(state, wanted)
            made = len(seen)
            spent = max(1e-9, time.monotonic() - begun) / max(1, made)
            count = max(1, min(4 * count, int(STRETCH_SECONDS / spent)))
            if made:
                recorder.fused(state, seen)
        if made < max(1, wanted):
            state = by_definition(stage, state, recorder, state.t + 1)
    return state


def by_definition(stage: Stage, state: State, recorder: Recorder, until: int) -> State:
    parts = stage.server, stage.engine, state, until, stage.choose, stage.seed
    return federate(*parts, recorder.round, stage.delivery)


class Recorder:
    """What is kept of the rounds of a run: measures, stored messages, checkpoints, progress."""

    def __init__(
        self,
        run: Context,
        stages: list[Stage],
        interruptions: Interruptions,
        history: History | None,
    ) -> None:
        self.run, self.stages, self.stage = run, stages, stages[0]
        self.interruptions, self.history = interruptions, history
        self.rounds = stages[-1].until
        self.online = run.measured("online")
        self.metrics = Metrics()
        self.params = np.empty(0)  # of the server before the round
        self.first = 0  # rounds that were done when this process took over
        self.began, self.saved = time.perf_counter(), time.monotonic()
        # of earlier processes that made the run: in all, and inside kernels
        self.seconds_before = (0.0, 0.0)

    def begin(self, start: Callable[[], Array]) -> State:
        """The state of the last checkpoint, or that of `start()`."""
        folder, checkpoint = self.run.folder, None
        if folder is not None:
            if folder.has_checkpoint:
                check_same_code(folder.path, folder.environment(), self.run.made_with)
            folder.open(self.run.files())
            checkpoint = folder.resume()
        if checkpoint is None:
            state = self.stage.server.init(start())
            self.metrics.evaluate(0, self.run.evaluate_params(state.params))
        else:
            state, memory, self.metrics, self.seconds_before = checkpoint
            for stage in self.stages:
                stage.engine.memory = memory
        self.first, self.params = state.t, state.params
        self.metrics.expect(each.name for each in self.online)
        self.saved = time.monotonic()
        return state

    @property
    def seconds(self) -> tuple[float, float]:
        """What all processes that made the run took: in all, and inside kernels."""
        in_all, in_kernels = self.seconds_before
        return in_all + time.perf_counter() - self.began, in_kernels + self.run.threads.busy

    @property
    def lost_patience(self) -> bool:
        """Whether the last `patience` evaluations brought no higher nDCG@10 on the validation
        queries than those before."""
        patience, metrics = self.run.experiment.patience, self.metrics
        if patience is None:
            return False
        best = int(np.nan_to_num(metrics.offline[STOPS_BY], nan=-1.0).argmax())
        return len(metrics.evaluated) - 1 - best >= patience

    def next_stop(self, t: int) -> int:
        """How many rounds are done when rounds that are made together after t must end: at an
        evaluation, at the end of the stage, or before a round whose messages are stored."""
        every = self.run.experiment.evaluate_every
        stop = min(self.stage.until, (t // every + 1) * every)
        if self.history is None:
            return stop
        return min(stop, -(-t // self.history.every) * self.history.every)

    def round(self, state: State, sent: Cohort, observed: Observed | None) -> None:
        """Record a round that `federate` made."""
        more = self._measured(state.t, sent, observed) if self.online else {}
        self.params = state.params
        self.metrics.add_round(sent, observed, more)
        if self.history is not None:
            self.history.keep(state.t - 1, sent)
        self._advanced(state)

    def _measured(self, t: int, sent: Cohort, observed: Observed | None) -> dict[str, float]:
        """The measures of round t that were asked for."""
        asked, directions = self.params.astype(np.float32), sent.directions
        if directions is None and len(sent):
            directions = self.stage.server.learner.decode(sent.updates, asked)
        elif directions is None:
            directions = np.empty((0, len(asked)))
        this, values = Round(t, asked, sent, directions, observed), {}
        for measure in self.online:
            value = cast(OnlineMeasure, measure).of_round(this)
            number = isinstance(value, int | float | np.floating | np.integer)
            given = f"{type(measure).__name__}.of_round gave {shown(value)} in round {t}"
            require(number and not np.isinf(value), f"{given}: a number is due")
            values[measure.name] = float(value)
        return values

    def fused(self, state: State, seen: Array) -> None:
        """Record the rounds of one compiled call."""
        self.metrics.add_rounds(seen)
        self._advanced(state)

    def _advanced(self, state: State) -> None:
        """Evaluate, show the progress, save."""
        run, t = self.run, state.t
        self.interruptions.report(t, self.rounds)
        if t % run.experiment.evaluate_every == 0 or t == self.rounds:
            self.metrics.evaluate(t, run.evaluate_params(state.params))
        notes = run.notes + self.stage.engine.notes
        run.watch(Progress(run.experiment, t, self.first, self.rounds, self.metrics, notes))
        every = run.engine.checkpoint_seconds
        pause = CHECKPOINT_SECONDS if every is None else every
        is_due = self.interruptions.asked or time.monotonic() - self.saved >= pause
        if run.folder is not None and is_due and t < self.rounds:
            if self.history is not None:
                self.history.flush()
            self.save(state)
            self.interruptions.obey(t, self.rounds)

    def save(self, state: State) -> None:
        assert self.run.folder is not None
        memory = self.stage.engine.memory
        self.run.folder.checkpoint(state, memory, self.metrics, self.seconds)
        self.saved = time.monotonic()


def concluded(recorder: Recorder, state: State, clients: Array, more: dict[str, Any]) -> Result:
    """The result of a run whose rounds are over, with measures of the clients that are there in
    the end, and `more`. When measuring them has taken a second, or a signal came, the rounds are
    saved."""
    run, metrics, e = recorder.run, recorder.metrics, recorder.run.experiment
    notes = run.notes + recorder.stage.engine.notes
    if state.withheld:
        few = f"too few messages arrived in {state.withheld:,} of {state.t:,} rounds"
        notes += (f"{few}: the ranker was not updated in them",)
    if state.t < e.rounds and recorder.lost_patience:
        better = "no higher nDCG@10 on the validation queries"
        notes += (f"stopped early: {better} in {e.patience} evaluations in a row",)
    if late := [m.name for m in run.measures if began_late(metrics, m.name)]:
        notes += (f"recorded only after the run was continued: {', '.join(late)}",)
    final = run.final(metrics, recorder.seconds, notes)
    # asked for when all rounds had been made
    if absent := tuple(m for m in run.measured("offline") if m.name not in final):
        found = replace(run, measures=absent).evaluate_params(state.params)
        final |= {name: known(value) for name, value in found.items() if name not in final}
    on_train = run.evaluator(run.train)(state.params)
    final |= {f"train_{name}": known(value) for name, value in on_train.items()}
    began, is_saved, rounds = time.monotonic(), False, state.t

    def measuring(done: int, of: int) -> None:
        nonlocal is_saved
        interruptions = recorder.interruptions
        interruptions.under_way = True
        run.watch(Progress(e, rounds, rounds, rounds, metrics, notes, (done, of)))
        interruptions.report(rounds, rounds)
        is_long = time.monotonic() - began > SAVE_AFTER_SECONDS
        if run.folder is not None and (interruptions.asked or is_long):
            if not is_saved:
                recorder.save(state)
                is_saved = True
            interruptions.obey(rounds, rounds)

    memory = recorder.stage.engine.memory
    final |= of_clients(run, state.params, memory, clients, measuring)
    final |= more
    if recorder.history is not None:
        final["history"] = recorder.history.sum()
    if run.folder is not None and run.per_query:
        run.keep_queries(state.params)
    return run.result(state.params, metrics, final)


def began_late(metrics: Metrics, name: str) -> bool:
    """Whether a measure was not recorded in the first rounds."""
    values = metrics.offline.get(name) or metrics.online.get(name) or [0.0]
    return bool(np.isnan(values[0]) and not np.isnan(values[-1]))


def stretch_of(stage: Stage, dim: int) -> Stretch | None:
    """What makes rounds of this stage in compiled stretches. None where nothing does (a note then
    names what is missing), or where threads over the clients of a round are faster."""
    choose, engine = stage.choose, stage.engine
    if not uses_kernels() or not isinstance(choose, Participants):
        return None
    from foltr.simulation.engines.local import Local  # loads numba

    if not isinstance(engine, Local) or not engine.on_one_thread(choose.count):
        return None
    from foltr.simulation.engines.stretch import Stretch, missing, parts_of

    parts = parts_of(stage.server, engine, choose, stage.delivery, stage.seed, dim)
    if parts is None:
        return None
    if names := missing(parts):
        slow = f"rounds are made one by one: no compiled stretch of rounds for {', '.join(names)}"
        engine.notes = (*engine.notes, slow)
        return None
    return Stretch(parts)
