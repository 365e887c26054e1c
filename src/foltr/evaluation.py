"""How good a ranker is on held-out queries: the unperturbed server ranker, after the round's update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Ranker
from foltr.data.dataset import Dataset
from foltr.metrics import DEPTH, Empty, discounts, gains, ideal_dcg, mean_over_queries, measure_queries
from foltr.policies import scored
from foltr.seeds import Stream, key
from foltr.threads import Threads

MEASURES = ("ndcg@10", "mrr@10", "expected_maxrr")


@dataclass
class Evaluator:
    """`clicks`: the share of each click model among the users, and its P(click) (DEPTH, grades), for expected MaxRR.
    Without any (users who are no table) that is NaN."""

    ranker: Ranker
    data: Dataset
    clicks: tuple[tuple[float, Array], ...]
    empty: Empty
    seed: int
    threads: Threads
    plain: bool = False  # by definition instead of by kernel

    def __post_init__(self) -> None:
        self.ideals = ideal_dcg(self.data.labels[0], self.data.offsets)
        self.key = key(self.seed, "ties")
        self.kernel = None
        if not self.plain:
            from foltr.kernels.twins import score_kernel

            self.kernel = score_kernel(self.ranker, self.data.width)

    def __call__(self, params: Array) -> dict[str, float]:
        """Each of MEASURES for the parameters as a device holds them."""
        return self.means(self.per_query(params.astype(np.float32)))

    def means(self, queries: Array) -> dict[str, float]:
        """Each of MEASURES, of what was measured on each query."""
        ndcg, mrr = mean_over_queries(queries[:, 0], self.empty), mean_over_queries(queries[:, 1], self.empty)
        return dict(zip(MEASURES, (ndcg, mrr, float(queries[:, 2].mean())), strict=True))

    def per_query(self, params: Array) -> Array:
        """(q, 3), in the order of MEASURES; NaN where a query has no relevant document."""
        return self.of_scores(self._scores(params))

    def of_scores(self, scores: Array) -> Array:
        """The same for any scores of the documents, float32."""
        unknown = np.full((DEPTH, self.data.grades), np.nan)
        if not np.isfinite(scores).all():
            raise FloatingPointError("the scores of held-out documents are not finite")
        shares, tables = zip(*(self.clicks or ((1.0, unknown),)), strict=True)
        per_model = [self._measured(scores, table) for table in tables]
        out = per_model[0]
        out[:, 2] = sum(share * values[:, 2] for share, values in zip(shares, per_model, strict=True))
        return out

    def _measured(self, scores: Array, click: Array) -> Array:
        data = self.data
        if self.plain:
            return measure_queries(scores, data.labels[0], data.offsets, click, Stream(self.key))
        from foltr.kernels import frozen
        from foltr.kernels.evaluation import measure

        out, worth = np.empty((data.queries, 3)), gains(np.arange(data.grades))
        tables = [frozen(part) for part in (self.ideals, click, worth, discounts(DEPTH))]
        labels, offsets, key = frozen(data.labels[0]), frozen(data.offsets), np.uint64(self.key)
        self.threads.share(data.queries, lambda a, b: measure(scores, labels, offsets, a, b, *tables, key, out))
        return out

    def _scores(self, params: Array) -> Array:
        data = self.data
        if self.kernel is None:
            return np.asarray(scored(self.ranker, params, data.features), np.float32)
        from foltr.kernels import frozen

        scores, kernel, storage = np.empty(data.documents, np.float32), self.kernel, frozen(data.storage)
        self.threads.share(data.documents, lambda a, b: kernel(storage, a, b, params, scores))
        return scores
