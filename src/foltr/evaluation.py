"""How good a ranker is on held-out queries: the unperturbed server ranker, after the round's update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Ranker
from foltr.data.dataset import Dataset
from foltr.metrics import DEPTH, Empty, discounts, gains, ideal_dcg, mean_over_queries, measure_queries
from foltr.seeds import Stream, key
from foltr.threads import Threads

CHUNK = 256  # documents
MEASURES = ("ndcg@10", "mrr@10", "expected_maxrr")


@dataclass
class Evaluator:
    """`click` (DEPTH, grades): P(click) of the users for whom expected MaxRR is computed; NaN for users without."""

    ranker: Ranker
    data: Dataset
    click: Array | None
    empty: Empty
    seed: int
    threads: Threads
    plain: bool = False  # by definition instead of by kernel

    def __post_init__(self) -> None:
        self.p_click = np.full((DEPTH, self.data.grades), np.nan) if self.click is None else self.click
        self.ideals = ideal_dcg(self.data.labels[0], self.data.offsets)
        self.key = key(self.seed, "ties")
        self.kernel = None
        if not self.plain:
            from foltr.kernels.twins import score_kernel

            self.kernel = score_kernel(self.ranker, self.data.width)

    def __call__(self, params: Array) -> dict[str, float]:
        """Each of MEASURES for the parameters as a device holds them."""
        queries = self.per_query(params.astype(np.float32))
        ndcg, mrr = mean_over_queries(queries[:, 0], self.empty), mean_over_queries(queries[:, 1], self.empty)
        return dict(zip(MEASURES, (ndcg, mrr, float(queries[:, 2].mean())), strict=True))

    def per_query(self, params: Array) -> Array:
        """(q, 3), in the order of MEASURES; NaN where a query has no relevant document."""
        data, scores = self.data, self._scores(params)
        if self.plain:
            return measure_queries(scores, data.labels[0], data.offsets, self.p_click, Stream(self.key))
        from foltr.kernels import frozen
        from foltr.kernels.evaluation import measure

        out, worth = np.empty((data.queries, 3)), gains(np.arange(data.grades))
        tables = [frozen(part) for part in (self.ideals, self.p_click, worth, discounts(DEPTH))]
        labels, offsets, key = frozen(data.labels[0]), frozen(data.offsets), np.uint64(self.key)
        self.threads.share(data.queries, lambda a, b: measure(scores, labels, offsets, a, b, *tables, key, out))
        return out

    def _scores(self, params: Array) -> Array:
        data = self.data
        if self.kernel is None:
            return np.asarray(self.ranker.scores(params, data.features), np.float32)
        from foltr.kernels import frozen

        scores, kernel, storage = np.empty(data.documents, np.float32), self.kernel, frozen(data.storage)

        def piece(first: int, last: int) -> None:  # whole chunks: a kernel may round a cut one's last rows otherwise
            kernel(storage, first * CHUNK, min(last * CHUNK, data.documents), params, scores)

        self.threads.share(-(-data.documents // CHUNK), piece)
        return scores
