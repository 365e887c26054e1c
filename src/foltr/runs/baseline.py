"""A baseline's run: a ranker trained on labels, in no round and by no interaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from foltr.core import Array, require
from foltr.runs.folder import Metrics
from foltr.runs.result import Result, known
from foltr.world.dataset import Dataset
from foltr.world.protocols import Baseline, Ranked

if TYPE_CHECKING:
    from foltr.runs.run import Run


def scored_by(baseline: Baseline, ranked: Ranked, data: Dataset) -> Array:
    scores = np.asarray(ranked.scores(data.features))
    fits = scores.shape == (data.documents,) and scores.dtype.kind == "f"
    given = f"{scores.shape} of kind {scores.dtype.kind!r}"
    require(
        fits,
        f"the scores of {type(baseline).__name__} are {given}, not one real number per document",
    )
    return scores.astype(np.float32)


def level(run: Run, baseline: Baseline) -> Result:
    """Its parameters are those of the linear ranker that it is, or the bytes of its model."""
    e, began, metrics = run.experiment, time.perf_counter(), Metrics()
    validation = e.data.load("vali") if "vali" in e.data.splits else None
    ranked = baseline.fit(run.train, validation, e.seed)
    known_model = (
        bool(ranked.model)
        if ranked.params is None
        else np.shape(ranked.params) == (run.train.width,)
    )
    require(
        known_model,
        f"{type(baseline).__name__} gave neither a model nor {run.train.width} parameters",
    )
    params = np.frombuffer(ranked.model, np.uint8) if ranked.params is None else ranked.params
    queries, trained_on = (
        run.evaluator(data).of_scores(scored_by(baseline, ranked, data))
        for data in (run.test, run.train)
    )
    means = run.evaluator().means
    metrics.evaluate(0, means(queries))
    final = run.final(metrics, (time.perf_counter() - began, 0.0), run.notes)
    final |= {f"train_{name}": known(value) for name, value in means(trained_on).items()}
    if run.folder is not None:
        run.folder.open(run.about())
        if run.per_query:
            run.keep(queries)
    return run.finished(params, metrics, final)
