"""The remaining influence of unlearned clients: how close the ranker is to one trained without
them.

The reference are retrainings with different random draws. They show what a ranker without these
clients looks like, and how much of a distance is random variation. No poisoned clients are
needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foltr.core import Array, Ranker
from foltr.core.cohorts import cosine
from foltr.core.ranking import scored
from foltr.core.world.population import Population
from foltr.simulation.runs.context import Context
from foltr.simulation.runs.result import Result
from foltr.simulation.runs.unlearn import own_ndcg

FEWEST = 3  # retrainings from which the variance by chance is estimated


@dataclass(frozen=True)
class Trace:
    """The position of an unlearned ranker between the original one (1) and retrained ones (0).

    With b, u and r_1 .. r_k the normalised scores (`centred_scores`) of the original ranker, the
    unlearned one, and k retrainings with different random draws: left = mean_{i != j} <u - r_i, b
    - r_j> / mean_{i != j} <b - r_i, b - r_j>. As the two factors share no random draws, the
    expected numerator is <E u - E r, b - E r>, and a further retraining has the expected value 0.
    (With the same r in both factors it would be 1/2 if the clients had no influence, because all
    distances are then random.)"""

    # None where the ranker before is no further from retrained ones than they are from each other
    left: float | None
    retrained: tuple[float, ...]  # where each retrained ranker stands, by the others
    # the part of the squared distance from before to retrained that exceeds the variance of one
    # run
    visible: float

    @classmethod
    def of(cls, before: Array, after: Array, retrained: Sequence[Array]) -> Trace:
        whole = mean_product(before, before, retrained)
        pairs = [np.square(r - s).sum() for i, r in enumerate(retrained) for s in retrained[:i]]
        # what `whole` would be if `before` were one more retraining
        chance = float(sum(pairs)) / len(pairs) / 2.0
        if whole <= chance:
            return cls(None, (), 0.0)
        others = [[*retrained[:i], *retrained[i + 1 :]] for i in range(len(retrained))]
        stand = tuple(
            mean_product(r, before, rest) / whole
            for r, rest in zip(retrained, others, strict=True)
        )
        return cls(mean_product(after, before, retrained) / whole, stand, 1.0 - chance / whole)


def mean_product(one: Array, other: Array, retrained: Sequence[Array]) -> float:
    """The mean of <one - r, other - s> over all pairs of different retrainings r and s."""
    k, total = len(retrained), np.sum(retrained, axis=0)
    same = sum(float(((one - r) * (other - r)).sum()) for r in retrained)
    return (float(((k * one - total) * (k * other - total)).sum()) - same) / (k * (k - 1))


@dataclass(frozen=True)
class LeavingDocuments:
    """The documents of the leaving clients, block by block, and the features that only they
    have."""

    docs: Array  # (n, f)
    offsets: Array  # (blocks + 1,)
    own: Array  # (f,) bool

    @classmethod
    def of(cls, p: Population, leaving: Array, remaining: Array) -> LeavingDocuments:
        ranges = sorted({(int(p.first[c]), int(p.last[c])) for c in leaving.tolist()})
        blocks = np.concatenate([np.arange(first, last) for first, last in ranges])
        pieces = zip(p.starts[blocks], p.stops[blocks], strict=True)
        rows = np.concatenate([p.rows[start:stop] for start, stop in pieces])
        offsets = np.append(0, np.cumsum(p.stops[blocks] - p.starts[blocks]))
        shared = np.zeros(p.data.documents, bool)
        for c in remaining.tolist():
            shared[p.held(c)[0]] = True
        docs = p.data.storage[rows][:, : p.data.width]
        own = np.zeros(p.data.width, bool)
        if not shared[rows].all():
            others = p.data.storage[shared][:, : p.data.width]
            own = (docs != 0.0).any(axis=0) & ~(others != 0.0).any(axis=0)
        return cls(docs, offsets, own)

    def centred_scores(self, ranker: Ranker, params: Array) -> Array:
        """The scores of the documents, centred and scaled to length 1 within each block, so that
        only what affects a ranking counts and all blocks count equally. Zero where all scores are
        equal."""
        centred, sizes = self._centred(self._scores(ranker, params, self.docs))
        return centred / np.where(sizes > 0.0, sizes, 1.0)

    def mark(self, ranker: Ranker, params: Array) -> float | None:
        """By how much their own features raise the scores of the documents that have one, in
        standard deviations of the scores within a block; None if no feature is theirs alone."""
        marked = (self.docs[:, self.own] != 0.0).any(axis=1)
        if not marked.any():
            return None
        without = self.docs.copy()
        without[:, self.own] = 0.0
        scores = self._scores(ranker, params, self.docs)
        less = self._scores(ranker, params, without)
        spread = float(np.sqrt(np.square(self._centred(scores)[0]).mean()))
        return float((scores - less)[marked].mean()) / spread if spread > 0.0 else 0.0

    @staticmethod
    def _scores(ranker: Ranker, params: Array, docs: Array) -> Array:
        return np.asarray(scored(ranker, params.astype(np.float32), docs), np.float64)

    def _centred(self, scores: Array) -> tuple[Array, Array]:
        """Scores minus the mean of their block, and the norm of each block's result, where
        rounding errors count as 0."""
        lengths, starts = np.diff(self.offsets), self.offsets[:-1]
        centred = scores - np.repeat(np.add.reduceat(scores, starts) / lengths, lengths)
        sizes = np.sqrt(np.add.reduceat(np.square(centred), starts))
        sizes = np.where(sizes > 1e-6 * np.maximum.reduceat(np.abs(scores), starts), sizes, 0.0)
        return centred, np.repeat(sizes, lengths)


def compared(
    run: Context, before: Result, after: Result, retrained: Sequence[Result]
) -> dict[str, Any]:
    """All measures of the original, the unlearned and the retrained rankers. Distances are to the
    first retrained one."""
    e, clients, goal = run.experiment, run.experiment.departures.last, retrained[0].params
    theirs = LeavingDocuments.of(run.population, clients, e.departures.remaining)
    rankers = {
        "before": before,
        "after": after,
        **{f"retrained {i}": each for i, each in enumerate(retrained, 1)},
    }

    def of_all(measure: Callable[[Result], Any]) -> dict[str, Any]:
        return {name: measure(each) for name, each in rankers.items()}

    measures: dict[str, Any] = {
        "ndcg@10": of_all(lambda each: each.final["ndcg@10"]),
        "own_ndcg@10": of_all(lambda each: own_ndcg(run, clients, each.params)),
        "mark": of_all(lambda each: theirs.mark(e.ranker, each.params)),
        "distance": of_all(lambda each: float(np.sqrt(np.square(each.params - goal).sum()))),
        "cosine": of_all(lambda each: cosine(each.params, goal)),
        "runs": of_all(lambda each: None if each.folder is None else each.folder.name),
    }
    if len(retrained) >= FEWEST:
        scores = [theirs.centred_scores(e.ranker, each.params) for each in rankers.values()]
        trace = Trace.of(scores[0], scores[1], scores[2:])
        measures["influence"] = {
            "left": trace.left,
            "retrained": list(trace.retrained),
            "visible": trace.visible,
        }
    return measures
