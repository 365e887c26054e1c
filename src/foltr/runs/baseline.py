"""A baseline's run: a ranker trained on labels, without rounds or interactions."""

from __future__ import annotations

import time

import numpy as np

from foltr.core import Array
from foltr.errors import require
from foltr.runs.context import Context
from foltr.runs.metrics import Metrics
from foltr.runs.result import Result, known
from foltr.world.dataset import Dataset
from foltr.world.protocols import Baseline, Ranked


def scored_by(baseline: Baseline, ranked: Ranked, data: Dataset) -> Array:
    scores = np.asarray(ranked.scores(data.features))
    fits = scores.shape == (data.documents,) and scores.dtype.kind == "f"
    given = f"{scores.shape} of kind {scores.dtype.kind!r}"
    name = type(baseline).__name__
    require(fits, f"the scores of {name} are {given}, not one real number per document")
    return scores.astype(np.float32)


def scored_again(run: Context, params: Array) -> dict[str, Array] | None:
    """The scores of a finished baseline, by the beginning of the columns' names; nothing for a run
    that is no baseline, None for a baseline whose parameters are not weights of features."""
    if run.experiment.baseline is None:
        return {}
    if params.dtype.kind != "f" or params.shape != (run.train.width,):
        return None
    return {
        place: (each.data.features @ params).astype(np.float32)
        for place, each in run.evaluators().items()
    }


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
    scores = {
        place: scored_by(baseline, ranked, each.data) for place, each in run.evaluators().items()
    }
    found = {place: each.means(scores[place]) for place, each in run.evaluators().items()}
    metrics.evaluate(
        0, {place + name: value for place, means in found.items() for name, value in means.items()}
    )
    final = run.final(metrics, (time.perf_counter() - began, 0.0), run.notes)
    trained_on = run.evaluator(run.train).means(scored_by(baseline, ranked, run.train))
    final |= {f"train_{name}": known(value) for name, value in trained_on.items()}
    if run.folder is not None:
        run.folder.open(run.files())
        if run.per_query:
            run.keep(run.evaluator().of_scores(scores[""]))
    return run.finished(params, metrics, final)
