"""One experiment as a run: found finished, or made, in a folder of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.compiled import using
from foltr.core.errors import require
from foltr.core.system.files import given_path
from foltr.core.system.lock import Claim
from foltr.core.world.history import History
from foltr.core.world.measures import Measure
from foltr.core.world.protocols import Baseline
from foltr.experiment import Experiment
from foltr.experiment.user_files import code_of
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.evaluation import Evaluator
from foltr.simulation.runs.columns import CODES, MEASURES, VALIDATION, Metrics
from foltr.simulation.runs.context import Context, Scores
from foltr.simulation.runs.execution import USUAL, RunOptions, kernels_of
from foltr.simulation.runs.folder import Damaged, Folder
from foltr.simulation.runs.identity import ENGINE, difference, other_code_note
from foltr.simulation.runs.interruptions import Interruptions
from foltr.simulation.runs.result import Progress, Result, known
from foltr.simulation.runs.sinks.log import Log
from foltr.simulation.runs.train import train
from foltr.simulation.runs.unlearn import (
    begins_anew,
    check_took_part,
    interval,
    stores_history,
    unlearn,
)


def tell_damage(folder: Path, damage: str) -> None:
    print(f"foltr: {folder} was damaged ({damage}): it is made again", file=sys.stderr, flush=True)


@dataclass
class Run:
    """An experiment, and how it is to be run. Data are loaded when they are first needed."""

    experiment: Experiment
    out: str | Path | None  # the run's folder lies here
    options: RunOptions = USUAL
    watch: Callable[[Progress], None] = lambda progress: None
    wait: bool = True  # for another process that makes the same run; else raise `lock.Busy`
    stop: Callable[[], bool] | None = None  # asked every second, by a sweep
    known: Path | None = None  # where a run that clients leave may lie, if not in `out`
    tell: Callable[[Path, str], None] = tell_damage  # when a damaged run is made again
    # what devices stored, if this process made the run
    history: History | None = field(default=None, init=False)

    @cached_property
    def context(self) -> Context:
        out = None if self.out is None else given_path(self.out)
        watch = self._watch_and_log if self.options.log else self.watch
        return Context.load(self.experiment, out, self.options, watch)

    @cached_property
    def log(self) -> Log:
        folder = None if self.folder is None else self.folder.path
        return Log(self.options.log, self.experiment, folder)

    @property
    def folder(self) -> Folder | None:
        return self.context.folder

    def _watch_and_log(self, progress: Progress) -> None:
        self.watch(progress)
        self.log(progress)

    def result(self) -> Result:
        """The run: found finished, or made, and logged."""
        with using(kernels_of(self.context.engine)):
            if not self.options.log:
                return self._result()
            with self.log:
                return self.log.finished(self._result())

    def _result(self) -> Result:
        if self.folder is not None:
            # damaged, or without measures that are asked for: looked at again, under the lock
            with suppress(Damaged):
                if found := self._found(locked=False):
                    return found
        if self.experiment.unlearning is not None:
            self.base  # noqa: B018  # first, under a claim of its own
        if self.folder is None:
            return self._make(None)
        self.folder.create()
        with Claim(self.folder.path).held(self.wait, self.stop) as claim:
            if damage := self.folder.heal():
                self.tell(self.folder.path, damage)
            # another process, which held it before, may have finished it
            return self._found(locked=True) or self._make(claim)

    @cached_property
    def base(self) -> tuple[Run, Result]:
        """The run that clients leave, where they are unlearned, and its result: found or made."""
        check_took_part(self.experiment)
        options = RunOptions(self.options.threads, self.options.engine)
        run = replace(self, experiment=self.experiment.base, options=options)
        if self.known is not None:
            there = replace(run, out=self.known)
            if there.folder is not None and there.folder.finished() is not None:
                run = there
        return run, run.result()

    def _found(self, locked: bool) -> Result | None:
        """The finished run of the folder, with its queries if they are asked for. Measures that it
        lacks are computed where the lock is held; otherwise it counts as not found."""
        assert self.folder is not None
        done = self.folder.finished()
        if done is None:
            return None
        params, metrics, final = done
        here = self.context
        if here.per_query and not self.folder.queries():
            with here.threads.running():
                here.keep_queries(params)
        final |= self.folder.kept_measures()
        missing, changed = measures_to_make(here, final)
        scores = scores_of(here, params)
        if missing and scores is not None:
            if not locked:
                return None
            keep_measures(replace(here, measures=missing), scores)
            final |= self.folder.kept_measures()
        if whole := {each.name: repr(each) for each in here.measured("run")}:
            final[MEASURES] = {**final.get(MEASURES, {}), **whole}
        final["notes"] = [*final["notes"], *measure_notes(here, final, changed)]
        if different := self._other_code(final):
            final["notes"].append(other_code_note(different))
        if "privacy" in final:  # recomputed: an earlier ledger may have stated more than holds
            final["privacy"] = ledger_of(self.experiment, here.train.width).plain()
        return here.result(params, metrics, final, found=True)

    def _other_code(self, final: dict[str, Any]) -> str:
        """What differs between the code that made the finished run and the code here."""
        assert self.folder is not None
        made = {ENGINE: final.get(ENGINE), **self.folder.environment()}
        return difference(made, self.context.made_with)

    def _make(self, claim: Claim | None) -> Result:
        if self.options.log:
            self.log.open()
        with self.context.threads.running():
            if self.experiment.baseline is not None:
                return fit_baseline(self.context, self.experiment.baseline)
            with Interruptions(self.folder, self.stop, claim) as interruptions:
                if self.experiment.unlearning is None:
                    result, self.history = train(self.context, interruptions)
                else:
                    result, self.history = self._unlearn(interruptions)
        return result

    def _unlearn(self, interruptions: Interruptions) -> tuple[Result, History | None]:
        run, before = self.base
        here = self.context
        if before.found and (different := run._other_code(before.final)):
            left = f"the run that clients leave was made by other code ({different})"
            here = replace(here, notes=(*here.notes, left))
        return unlearn(here, before, lambda: run.stored(before), interruptions)

    def stored(self, result: Result) -> History:
        """What the devices of this finished run have stored: in its own rounds, and before if it
        went on from another run."""
        e, own, rounds = self.experiment, self.history, int(result.final["rounds"])
        if own is None and rounds and stores_history(e):
            assert self.folder is not None  # else it was made here
            every, d = interval(e, rounds), len(result.params)
            checksum = result.final.get("history", "")
            own = History.read(self.folder.path, every, rounds, d, checksum)
        if begins_anew(e):
            assert own is not None  # training and retraining have rounds
            return own
        run, before = self.base
        earlier = run.stored(before)
        return earlier if own is None else earlier.then(own)


def measures_to_make(
    run: Context, final: dict[str, Any]
) -> tuple[tuple[Measure, ...], list[Measure]]:
    """Of the measures that are asked for: those of the final ranker that a finished run lacks, and
    all that it recorded by other code."""
    specs, codes = final.get(MEASURES, {}), final.get(CODES, {})
    changed = [
        m
        for m in run.measures
        if m.name in final and (specs.get(m.name), codes.get(m.name, "")) != (repr(m), code_of(m))
    ]
    offline = run.measured("offline")
    return tuple(m for m in offline if m.name not in final or m in changed), changed


def keep_measures(run: Context, scores: Scores) -> None:
    """Compute the measures of a finished run's ranker, and keep them in its folder."""
    assert run.folder is not None
    with run.threads.running():
        values = run.evaluate(scores)
    places = ("",) if run.validation is None else ("", VALIDATION)
    run.folder.keep_measures(
        {
            place + m.name: (repr(m), known(values[place + m.name]), code_of(m))
            for place in places
            for m in run.measures
        }
    )


def measure_notes(run: Context, final: dict[str, Any], changed: list[Measure]) -> list[str]:
    """What a finished run cannot tell of the measures that are asked for."""
    lacks = [m.name for m in run.measures if m.kind != "run" and m.name not in final]
    was_other = "was recorded by another version of its file: delete the run's folder to record"
    return [
        *(
            f"{name} was not recorded when this run was made: delete its folder to record it"
            for name in lacks
        ),
        *(f"{m.name} in each round {was_other} it anew" for m in changed if m.kind != "run"),
    ]


def scores_of(run: Context, params: Array) -> Scores | None:
    """The scores of the ranker of a finished run; None for a baseline whose parameters are not
    weights of features."""
    if run.experiment.baseline is None:
        return lambda evaluator: evaluator.scores(params)
    if params.dtype.kind != "f" or params.shape != (run.train.width,):
        return None
    return lambda evaluator: (evaluator.data.features @ params).astype(np.float32)


def fit_baseline(run: Context, baseline: Baseline) -> Result:
    """The run of a baseline: a ranker trained on labels, without rounds or interactions. The
    parameters of the result are those of the linear ranker that it is, or the bytes of its
    model."""
    e, began, metrics = run.experiment, time.perf_counter(), Metrics()
    validation = e.data.load("vali") if "vali" in e.data.splits else None
    ranked, width = baseline.fit(run.train, validation, e.seed), run.train.width
    params = np.frombuffer(ranked.model, np.uint8) if ranked.params is None else ranked.params
    fits = bool(ranked.model) if ranked.params is None else np.shape(params) == (width,)
    name = type(baseline).__name__
    require(fits, f"{name} gave neither a model nor {width} parameters")

    def scores(evaluator: Evaluator) -> Array:
        data, values = evaluator.data, np.asarray(ranked.scores(evaluator.data.features))
        fits = values.shape == (data.documents,) and values.dtype.kind == "f"
        given = f"{values.shape} of kind {values.dtype.kind!r}"
        require(fits, f"the scores of {name} are {given}, not one real number per document")
        return values.astype(np.float32)

    metrics.evaluate(0, run.evaluate(scores))
    final = run.final(metrics, (time.perf_counter() - began, 0.0), run.notes)
    on_train = run.evaluator(run.train)
    trained_on = on_train.means(scores(on_train))
    final |= {f"train_{name}": known(value) for name, value in trained_on.items()}
    if run.folder is not None:
        run.folder.open(run.files())
        if run.per_query:
            run.keep_query_values(run.on_test.of_scores(scores(run.on_test)))
    return run.result(params, metrics, final)
