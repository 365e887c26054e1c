"""A baseline's run: a ranker trained on labels, without rounds or interactions."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.runs.context import Context, evaluated
from foltr.runs.metrics import Metrics
from foltr.runs.result import Result, known
from foltr.simulation.evaluation import Evaluator
from foltr.world.dataset import Dataset
from foltr.world.protocols import Baseline, Ranked


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
