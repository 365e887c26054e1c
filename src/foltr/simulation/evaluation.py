"""How good a ranker is: the unperturbed server ranker on held-out queries, after the round's
update; or any ranker on what one client holds, as that client judges it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array, Ranker
from foltr.metrics import (
    DEPTH,
    Empty,
    discounts,
    gains,
    ideal_dcg,
    mean_over_queries,
    measure_queries,
)
from foltr.ranking import scored
from foltr.seeds import Stream, key
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset
from foltr.world.population import Population

MEASURES = ("ndcg@10", "mrr@10", "expected_maxrr")
MERGED = ("merged_ndcg@10", "merged_mrr@10")  # where there are several labellings


@dataclass(frozen=True)
class Judged:
    """Lists of documents, one after the other, and what each document is worth."""

    labels: Array  # (N,)
    offsets: Array  # (lists + 1,)
    ideals: Array  # (lists,)
    grades: int


@dataclass
class Evaluator:
    """`clicks`: the share of each click model among the users, and its P(click) (DEPTH, grades),
    for expected MaxRR. Without any (users who are no table) that is NaN.

    Data with several labellings is measured by each of them: a measure is the mean over all pairs
    of a query and a labelling (those without a relevant document as `empty` says). Measures of
    MERGED go by the merged labelling, in which a document is as relevant as it is in any. All
    labellings break ties alike."""

    ranker: Ranker
    data: Dataset
    clicks: tuple[tuple[float, Array], ...]
    empty: Empty
    seed: int
    threads: Threads
    plain: bool = False  # by definition instead of by kernel

    def __post_init__(self) -> None:
        data = self.data
        self.several = len(data.labels) > 1
        # the last one is the merged one
        rows = [*data.labels, *([data.labels.max(axis=0)] if self.several else [])]
        self.judged = [
            Judged(row, data.offsets, ideal_dcg(row, data.offsets), data.grades) for row in rows
        ]
        relevant = np.stack([judged.ideals > 0.0 for judged in self.judged[: len(data.labels)]])
        # (q,) of how many labellings each query has a relevant document
        self.relevant = relevant.sum(axis=0)
        self.key = key(self.seed, "ties")
        self.kernel = None
        if not self.plain:
            from foltr.engines.twins import score_twin

            self.kernel = score_twin(self.ranker, data.width)

    @property
    def measures(self) -> tuple[str, ...]:
        """What it measures: MEASURES, and MERGED where there are several labellings."""
        return MEASURES + MERGED if self.several else MEASURES

    def __call__(self, params: Array) -> dict[str, float]:
        """Each of `measures` for the parameters as a device holds them."""
        return self.means(self.per_query(params.astype(np.float32)))

    def means(self, queries: Array) -> dict[str, float]:
        """Each of `measures`, of what was measured on each query."""
        ndcg, mrr = self._mean(queries[:, 0]), self._mean(queries[:, 1])
        merged = [
            mean_over_queries(column, self.empty) for column in queries[:, len(MEASURES) :].T
        ]
        return dict(
            zip(self.measures, (ndcg, mrr, float(queries[:, 2].mean()), *merged), strict=True)
        )

    def _mean(self, values: Array) -> float:
        """Over all pairs of a query and a labelling, where `values` (q,) are means over a query's
        defined ones."""
        if not self.several:
            return mean_over_queries(values, self.empty)
        defined, pairs = int(self.relevant.sum()), len(values) * len(self.data.labels)
        total = float((np.nan_to_num(values) * self.relevant).sum())
        if self.empty == "skip":
            return total / defined if defined else float("nan")
        return (total + (pairs - defined if self.empty == "one" else 0.0)) / pairs

    def mean_ndcg(self, found: list[Array]) -> float:
        """`ndcg@10` of what was found by each labelling: (q,) each, NaN where a query has no
        relevant document."""
        if not self.several:
            return self._mean(found[0])
        return self._mean(self._over_labellings(np.stack(found)[:, :, None])[:, 0])

    def _over_labellings(self, each: Array) -> Array:
        """(labellings, q, measures) -> (q, measures): the means over those by which a query has a
        relevant document."""
        totals = np.nan_to_num(each).sum(axis=0)
        times = np.broadcast_to(self.relevant[:, None], totals.shape)
        undefined = np.full(totals.shape, np.nan)
        means: Array = np.divide(totals, times, out=undefined, where=times > 0)
        return means

    def per_query(self, params: Array) -> Array:
        """(q, measures); NaN where a query has no relevant document. With several labellings, the
        first three are means over a query's labellings, of nDCG and MRR over those by which it has
        a relevant document."""
        return self.of_scores(self._scores(params))

    def of_scores(self, scores: Array) -> Array:
        """The same for any scores of the documents, float32."""
        found = [self._by_all_users(scores, judged) for judged in self.judged]
        if not self.several:
            return found[0]
        *each, merged = np.stack(found)  # (q, 3) each
        means = self._over_labellings(np.stack(each)[:, :, :2])
        return np.column_stack([means, np.mean(each, axis=0)[:, 2], merged[:, : len(MERGED)]])

    def of_client(self, params: Array, population: Population, client: int) -> float:
        """Mean nDCG@10 on what a client holds, as it judges that, over the blocks with a relevant
        document; NaN if it has none."""
        p = population
        (rows, labels, offsets), ideals = (
            p.held(client),
            p.ideals[p.first[client] : p.last[client]],
        )
        some, lengths = ideals > 0.0, np.diff(offsets)
        if not some.any():
            return float("nan")
        inside = np.repeat(some, lengths)
        judged = Judged(
            labels[inside], np.append(0, np.cumsum(lengths[some])), ideals[some], p.data.grades
        )
        scores = self._scores(params.astype(np.float32), p.data.storage[rows[inside]])
        return float(self._measured(scores, judged, np.zeros((DEPTH, p.data.grades)))[:, 0].mean())

    def _by_all_users(self, scores: Array, judged: Judged) -> Array:
        unknown = np.full((DEPTH, self.data.grades), np.nan)
        shares, tables = zip(*(self.clicks or ((1.0, unknown),)), strict=True)
        per_model = [self._measured(scores, judged, table) for table in tables]
        out = per_model[0]
        out[:, 2] = sum(
            share * values[:, 2] for share, values in zip(shares, per_model, strict=True)
        )
        return out

    def _measured(self, scores: Array, judged: Judged, click: Array) -> Array:
        """(lists, 3), in the order of MEASURES, of users who click with P(click) (DEPTH,
        grades)."""
        if not np.isfinite(scores).all():
            raise FloatingPointError("the scores of held-out documents are not finite")
        if self.plain:
            return measure_queries(scores, judged.labels, judged.offsets, click, Stream(self.key))
        from foltr.kernels import frozen
        from foltr.kernels.evaluation import measure

        lists, worth = len(judged.ideals), gains(np.arange(judged.grades))
        out, tables = (
            np.empty((lists, 3)),
            [frozen(part) for part in (judged.ideals, click, worth, discounts(DEPTH))],
        )
        labels, offsets, key = frozen(judged.labels), frozen(judged.offsets), np.uint64(self.key)
        self.threads.share(
            lists, lambda a, b: measure(scores, labels, offsets, a, b, *tables, key, out)
        )
        return out

    def _scores(self, params: Array, storage: Array | None = None) -> Array:
        """Of all documents of the data, or of others with the same features."""
        storage = self.data.storage if storage is None else storage
        if self.kernel is None:
            docs = storage[:, : self.data.width]
            docs.flags.writeable = False  # all rankers that are measured share it
            return np.asarray(scored(self.ranker, params, docs), np.float32)
        from foltr.kernels import frozen

        scores, kernel, rows = np.empty(len(storage), np.float32), self.kernel, frozen(storage)
        given = frozen(params)
        self.threads.share(len(rows), lambda a, b: kernel(rows, a, b, given, scores))
        return scores
