"""How good a ranker is: the unperturbed server ranker on held-out queries, after the round's
update; or any ranker on what one client holds, as that client judges it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from foltr.core import Array, Ranker
from foltr.core.compiled import uses_kernels
from foltr.core.errors import require
from foltr.core.metrics import (
    DEPTH,
    Empty,
    discounts,
    gains,
    ideal_dcg,
    mean_over_queries,
    measure_queries,
)
from foltr.core.ranking import best_first, scored
from foltr.core.seeds import Stream, key
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.measures import Lists, Measure, OfflineMeasure
from foltr.core.world.population import Population

MEASURES = ("ndcg@10", "mrr@10", "expected_maxrr")  # of every run: nDCG(), RR(), ExpectedMaxRR()
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
    labellings break ties alike.

    MEASURES are computed by one kernel. `more` are other offline measures."""

    ranker: Ranker
    data: Dataset
    clicks: tuple[tuple[float, Array], ...]
    empty: Empty
    seed: int
    threads: Threads
    # by definition instead of by kernel: as whoever chose the engine says
    plain: bool = field(default_factory=lambda: not uses_kernels())
    more: tuple[Measure, ...] = ()

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
            from foltr.kernels import check_compiles
            from foltr.simulation.engines.twins import score_twin

            check_compiles("the local engine")
            self.kernel = score_twin(self.ranker, data.width)

    @property
    def measures(self) -> tuple[str, ...]:
        """What it measures: MEASURES, MERGED where there are several labellings, and `more`."""
        usual = MEASURES + MERGED if self.several else MEASURES
        return usual + tuple(each.name for each in self.more)

    def __call__(self, params: Array) -> dict[str, float]:
        """Each of `measures` for the parameters as a device holds them."""
        return self.means(self.scores(params))

    def scores(self, params: Array) -> Array:
        """The scores of all documents (N,) by these parameters, as a device holds them."""
        return self._scores(params.astype(np.float32))

    def means(self, scores: Array) -> dict[str, float]:
        """Each of `measures` for any scores of the documents, float32."""
        queries = self._usual(scores)
        ndcg, mrr = self._mean(queries[:, 0]), self._mean(queries[:, 1])
        merged = [
            mean_over_queries(column, self.empty) for column in queries[:, len(MEASURES) :].T
        ]
        more = [mean_over_queries(each.ravel(), self.empty) for each in self._more(scores)]
        found = (ndcg, mrr, float(queries[:, 2].mean()), *merged, *more)
        return dict(zip(self.measures, found, strict=True))

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

    def _over_labellings(self, each: Array, defined: Array | None = None) -> Array:
        """(labellings, q, measures) -> (q, measures): the means over those by which a query has a
        relevant document, or over those that are `defined` (labellings, q)."""
        totals = np.nan_to_num(each).sum(axis=0)
        there = self.relevant if defined is None else defined.sum(axis=0)
        times = np.broadcast_to(there[:, None], totals.shape)
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
        usual = self._usual(scores)
        more = [
            self._over_labellings(each[:, :, None], ~np.isnan(each))[:, 0]
            for each in self._more(scores)
        ]
        return np.column_stack([usual, *more]) if more else usual

    def _usual(self, scores: Array) -> Array:
        """The columns of MEASURES, and of MERGED where there are several labellings."""
        found = [self._by_all_users(scores, judged) for judged in self.judged]
        if not self.several:
            return found[0]
        *each, merged = np.stack(found)  # (q, 3) each
        means = self._over_labellings(np.stack(each)[:, :, :2])
        return np.column_stack([means, np.mean(each, axis=0)[:, 2], merged[:, : len(MERGED)]])

    def _more(self, scores: Array) -> list[Array]:
        """Each of `more`, by each labelling: (labellings, q), NaN where it is undefined."""
        if not self.more:
            return []
        measures = [cast(OfflineMeasure, each) for each in self.more]
        order = self._ranked(scores, measures)
        documents = self.data.offsets[:-1, None] + np.maximum(order, 0)
        found: list[list[Array]] = [[] for _ in measures]
        for labels, best in zip(self.data.labels, self._best, strict=True):
            grades = np.where(order >= 0, labels[documents], -1)
            lists = Lists(grades, best, self.data.grades - 1, self.clicks)
            for values, measure in zip(found, measures, strict=True):
                values.append(_checked(measure, lists))
        return [np.stack(values) for values in found]

    def _ranked(self, scores: Array, measures: list[OfflineMeasure]) -> Array:
        """The documents of each query, best first, as deep as any measure looks: (q, depth) places
        in the list, -1 after the last."""
        lengths = np.diff(self.data.offsets)
        longest = int(lengths.max(initial=1))
        depth = max(longest if m.depth is None else min(m.depth, longest) for m in measures)
        out = np.full((len(lengths), depth), -1, np.int32)
        if not np.isfinite(scores).all():
            raise FloatingPointError("the scores of held-out documents are not finite")
        if self.plain:
            ties = Stream(self.key)
            for q, (start, n) in enumerate(zip(self.data.offsets, lengths, strict=False)):
                shown = best_first(scores[start : start + n], depth, ties.at(q))
                out[q, : len(shown)] = shown
            return out
        from foltr.kernels import frozen
        from foltr.kernels.evaluation import ranked

        offsets, key = frozen(self.data.offsets), np.uint64(self.key)
        self.threads.share(len(out), lambda a, b: ranked(scores, offsets, a, b, key, out))
        return out

    @cached_property
    def _best(self) -> list[Array]:
        """By each labelling, the labels of each query, highest first: (q, longest), -1 after the
        last."""
        lengths = np.diff(self.data.offsets)
        query = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(query)) - self.data.offsets[query]
        found = []
        for labels in self.data.labels:
            best = np.full((len(lengths), int(lengths.max(initial=1))), -1, np.int16)
            best[query, place] = labels[np.lexsort((-labels.astype(np.int16), query))]
            found.append(best)
        return found

    def of_client(self, params: Array, population: Population, client: int) -> float:
        """Mean nDCG@10 on what a client holds, as it judges that, over the blocks with a relevant
        document; NaN if it has none."""
        p, (rows, labels, offsets) = population, population.held(client)
        ideals = p.ideals[p.first[client] : p.last[client]]
        some, lengths = ideals > 0.0, np.diff(offsets)
        if not some.any():
            return float("nan")
        inside = np.repeat(some, lengths)
        ends = np.append(0, np.cumsum(lengths[some]))
        judged = Judged(labels[inside], ends, ideals[some], p.data.grades)
        scores = self._scores(params.astype(np.float32), p.data.storage[rows[inside]])
        return float(self._measured(scores, judged, np.zeros((DEPTH, p.data.grades)))[:, 0].mean())

    def _by_all_users(self, scores: Array, judged: Judged) -> Array:
        unknown = np.full((DEPTH, self.data.grades), np.nan)
        shares, tables = zip(*(self.clicks or ((1.0, unknown),)), strict=True)
        per_model = [self._measured(scores, judged, table) for table in tables]
        out, pairs = per_model[0], zip(shares, per_model, strict=True)
        out[:, 2] = sum(share * values[:, 2] for share, values in pairs)
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
        out = np.empty((lists, 3))
        tables = [frozen(part) for part in (judged.ideals, click, worth, discounts(DEPTH))]
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


def _checked(measure: OfflineMeasure, lists: Lists) -> Array:
    """The values (q,) of a measure; raises unless there is one number for each query."""
    values = np.asarray(measure.of_lists(lists))
    name, queries = type(measure).__name__, len(lists.grades)
    fits = values.shape == (queries,) and values.dtype.kind in "fiub"
    given = f"{name} gave {values.dtype} of shape {values.shape} for {queries} queries"
    require(fits, f"{given}: one number for each query is due")
    numbers: Array = values.astype(np.float64)
    require(not np.isinf(numbers).any(), f"{name} gave an infinite value")
    return numbers
