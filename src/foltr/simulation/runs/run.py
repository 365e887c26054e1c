"""One experiment as a run: found finished, or made, in a folder of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.compiled import using
from foltr.core.errors import require
from foltr.core.system.files import given_path
from foltr.core.system.lock import Claim
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.history import History
from foltr.core.world.measures import Measure
from foltr.core.world.protocols import Baseline, Ranked
from foltr.experiment import Experiment
from foltr.experiment.user_files import check_in_files, code_of
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.columns import CODES, MEASURES, Metrics, check_labels, parse_measures
from foltr.simulation.runs.context import Context, by_params, evaluated
from foltr.simulation.runs.execution import MakeEngine, engine_maker, kernels_of
from foltr.simulation.runs.folder import Damaged, Folder
from foltr.simulation.runs.identity import (
    ENGINE,
    difference,
    folder_name,
    identity,
    other_code_note,
)
from foltr.simulation.runs.interruptions import Interruptions
from foltr.simulation.runs.result import Progress, Result, known
from foltr.simulation.runs.setup import checked_population, notes_of, validation_of
from foltr.simulation.runs.sinks.log import Log
from foltr.simulation.runs.train import train
from foltr.simulation.runs.unlearn import (
    Before,
    check_took_part,
    interval,
    stores_history,
    unlearn,
)


def tell_damage(folder: Path, damage: str) -> None:
    print(f"foltr: {folder} was damaged ({damage}): it is made again", file=sys.stderr, flush=True)


class Run:
    def __init__(
        self,
        experiment: Experiment,
        out: str | Path | None,
        threads: int,
        engine: str | MakeEngine = "local",
        watch: Callable[[Progress], None] = lambda progress: None,
        per_query: bool = False,
        wait: bool = True,  # for another process that makes the same run; else raise `lock.Busy`
        stop: Callable[[], bool] | None = None,  # asked every second, by a sweep
        known: Path | None = None,  # where a run that clients leave may lie, if not in `out`
        measures: str | Sequence[str | Measure] = (),  # recorded besides the usual columns
        tell: Callable[[Path, str], None] = tell_damage,  # when a damaged run is made again
        log: str | Sequence[str] = (),  # tools that log the run: `runs.sinks`
    ) -> None:
        out = None if out is None else given_path(out)
        self.experiment, self.out, self.known = experiment, out, known
        self.wait, self.stop, self.tell = wait, stop, tell
        self.history: History | None = None  # what devices stored, if this process made the run
        e, asked = experiment, parse_measures(measures)
        data = e.data.load("train"), e.data.load("test")
        notes = check_labels(asked, data[1], "the test queries")
        validation = validation_of(e, data[0])
        if validation is not None:
            check_labels(asked, validation, "the validation queries")
        if every_round := [each.name for each in asked if each.kind == "online"]:
            notes += (f"rounds are made one by one, to record {', '.join(every_round)}",)
        population, name = checked_population(e, *data), identity(e, *data, validation)
        if out is not None:
            check_in_files(e)
        self.folder = None if out is None else Folder(out / folder_name(e, name))
        self.log = Log(log, e, None if self.folder is None else self.folder.path)

        def watched(progress: Progress) -> None:
            watch(progress)
            self.log(progress)

        self.context = Context(
            e,
            *data,
            validation,
            population,
            name,
            self.folder,
            Threads(threads),
            engine_maker(engine),
            watched if self.log.names else watch,
            per_query,
            notes_of(e, *data) + notes,
            asked,
        )

    def result(self) -> Result:
        """The run: found finished, or made, and logged."""
        with self.log, using(kernels_of(self.context.engine)):
            return self.log.finished(self._result())

    def _result(self) -> Result:
        if self.folder is not None and (found := self._found_whole()):
            return found
        if self.experiment.unlearning is not None:
            self.base  # noqa: B018  # first, under a claim of its own
        if self.folder is None:
            return self._made(None)
        self.folder.create()
        with Claim(self.folder.path).held(self.wait, self.stop) as claim:
            if damage := self.folder.heal():
                self.tell(self.folder.path, damage)
            # another process, which held it before, may have finished it
            return self._found(locked=True) or self._made(claim)

    def _found_whole(self) -> Result | None:
        """The finished run of the folder, unless it is damaged or lacks measures: `_result` looks
        again, under the lock."""
        try:
            return self._found(locked=False)
        except Damaged:
            return None

    @cached_property
    def base(self) -> tuple[Run, Result]:
        """The run that clients leave, where they are unlearned, and its result: found or made."""
        check_took_part(self.experiment)
        here = self.context
        options = (here.threads.number, here.engine, here.watch, False)
        steering = (self.wait, self.stop, self.known)
        e = self.experiment.base
        here_or_there = self.out if self.known is None else self.known
        run = Run(e, here_or_there, *options, *steering, tell=self.tell)
        elsewhere = self.known is not None and run.folder is not None
        if elsewhere and run.folder is not None and run.folder.finished() is None:
            run = Run(e, self.out, *options, *steering, tell=self.tell)
        return run, run.result()

    def _found(self, locked: bool) -> Result | None:
        """The finished run of the folder, with its queries if they are asked for. Measures that it
        lacks are computed where the lock is held; otherwise it counts as not found."""
        assert self.folder is not None
        done = self.folder.finished()
        if done is None:
            return None
        params, metrics, final = done
        if self.context.per_query and not self.folder.queries():
            with self.context.threads.running():
                self.context.keep_queries(params)
        known_measures = self._with_measures(params, final, locked)
        if known_measures is None:
            return None
        final = known_measures
        if different := self._other_code(final):
            final["notes"] = [*final["notes"], other_code_note(different)]
        e, width = self.experiment, self.context.train.width
        if "privacy" in final:  # recomputed: an earlier ledger may have stated more than holds
            final["privacy"] = ledger_of(e, width).plain()
        about = self.context.train.names, self.context.train.normalisation
        return Result(e, params, metrics, final, self.folder.path, width, True, *about)

    def _other_code(self, final: dict[str, Any]) -> str:
        """What differs between the code that made the finished run and the code here."""
        assert self.folder is not None
        made = {ENGINE: final.get(ENGINE), **self.folder.environment()}
        return difference(made, self.context.made_with)

    def _with_measures(
        self, params: Array, final: dict[str, Any], locked: bool
    ) -> dict[str, Any] | None:
        """The final measures of a finished run, with those that are asked for now. What can be
        computed from its parameters is, and kept in its folder, where the lock is held; otherwise
        the result is None."""
        assert self.folder is not None
        here = self.context
        final = {**final, **self.folder.kept_measures()}
        specs, codes = final.get(MEASURES, {}), final.get(CODES, {})

        def as_recorded(m: Measure) -> bool:
            return (specs.get(m.name), codes.get(m.name, "")) == (repr(m), code_of(m))

        other = [m for m in here.measures if m.name in final and not as_recorded(m)]
        missing = [m for m in here.measured("offline") if m.name not in final or m in other]
        baseline = self.experiment.baseline is not None
        scores = by_weights(here, params) if baseline else by_params(params)
        if missing and scores is not None:
            if not locked:
                return None
            with here.threads.running():
                asked = replace(here, measures=tuple(missing)).evaluators()
                found = evaluated(asked, scores)
            self.folder.keep_measures(
                {
                    place + m.name: (repr(m), known(found[place + m.name]), code_of(m))
                    for place in asked
                    for m in missing
                }
            )
            final |= self.folder.kept_measures()
        if whole := {each.name: repr(each) for each in here.measured("run")}:
            final[MEASURES] = {**final.get(MEASURES, {}), **whole}
        unknown = [m.name for m in here.measures if m.kind != "run" and m.name not in final]
        lacking = "was not recorded when this run was made: delete its folder to record it"
        changed = "was recorded by another version of its file: delete the run's folder to record"
        final["notes"] = [
            *final["notes"],
            *(f"{name} {lacking}" for name in unknown),
            *(f"{m.name} in each round {changed} it anew" for m in other if m.kind != "run"),
        ]
        return final

    def _made(self, claim: Claim | None) -> Result:
        self.log.open()
        with self.context.threads.running():
            if self.experiment.baseline is not None:
                return fit_baseline(self.context, self.experiment.baseline)
            with Interruptions(self.folder, self.stop) as interruptions:
                if self.experiment.unlearning is None:
                    made = train(self.context, interruptions, claim)
                else:
                    run, before = self.base
                    here, past = self.context, Before(before, lambda: run.stored(before))
                    if before.found and (different := run._other_code(before.final)):
                        left = f"the run that clients leave was made by other code ({different})"
                        here = replace(here, notes=(*here.notes, left))
                    made = unlearn(here, past, interruptions, claim)
        result, self.history = made
        return result

    def stored(self, result: Result) -> History:
        """What the devices of this finished run have stored: in its own rounds, and before if it
        went on from another run."""
        e, own, rounds = self.experiment, self.history, int(result.final["rounds"])
        if own is None and rounds and stores_history(e):
            assert self.folder is not None  # else it was made here
            checksum = result.final.get("history", "")
            size = interval(e, rounds), rounds, len(result.params)
            own = History.read(self.folder.path, *size, checksum)
        if e.unlearning is None or e.unlearning.restarts:
            assert own is not None  # training and retraining have rounds
            return own
        run, before = self.base
        earlier = run.stored(before)
        return earlier if own is None else earlier.then(own)


# A baseline's run: a ranker trained on labels, without rounds or interactions.


def scored_by(baseline: Baseline, ranked: Ranked, data: Dataset) -> Array:
    scores = np.asarray(ranked.scores(data.features))
    fits = scores.shape == (data.documents,) and scores.dtype.kind == "f"
    given = f"{scores.shape} of kind {scores.dtype.kind!r}"
    name = type(baseline).__name__
    require(fits, f"the scores of {name} are {given}, not one real number per document")
    return scores.astype(np.float32)


def by_weights(run: Context, params: Array) -> Callable[[Evaluator], Array] | None:
    """The scores of a finished baseline, for `evaluated`; None if its parameters are not weights
    of features."""
    if params.dtype.kind != "f" or params.shape != (run.train.width,):
        return None
    return lambda evaluator: (evaluator.data.features @ params).astype(np.float32)


def fit_baseline(run: Context, baseline: Baseline) -> Result:
    """The parameters of the result are those of the linear ranker that it is, or the bytes of its
    model."""
    e, began, metrics = run.experiment, time.perf_counter(), Metrics()
    validation = e.data.load("vali") if "vali" in e.data.splits else None
    ranked, width = baseline.fit(run.train, validation, e.seed), run.train.width
    params = np.frombuffer(ranked.model, np.uint8) if ranked.params is None else ranked.params
    fits = bool(ranked.model) if ranked.params is None else np.shape(params) == (width,)
    name = type(baseline).__name__
    require(fits, f"{name} gave neither a model nor {width} parameters")

    def scores(evaluator: Evaluator) -> Array:
        return scored_by(baseline, ranked, evaluator.data)

    metrics.evaluate(0, evaluated(run.evaluators(), scores))
    final = run.final(metrics, (time.perf_counter() - began, 0.0), run.notes)
    trained_on = evaluated({"train_": run.evaluator(run.train)}, scores)
    final |= {name: known(value) for name, value in trained_on.items()}
    if run.folder is not None:
        run.folder.open(run.files())
        if run.per_query:
            run.keep(run.evaluator().of_scores(scores(run.evaluator())))
    return run.finished(params, metrics, final)
