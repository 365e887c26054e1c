"""Measures of ranked lists by the labels of their documents, or by how users click."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.metrics import discounts, gains
from foltr.core.spec import measure
from foltr.core.world.measures import Lists, OfflineMeasure, with_fields


class AtRank(OfflineMeasure):
    """Base of measures with the fields `k` (None for the whole list) and `rel`, the lowest label
    that counts as relevant."""

    k: int | None
    rel: int

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")
        require(self.rel >= 1, f"rel must be >= 1, got {self.rel}")

    @property
    def relevant_from(self) -> int:  # type: ignore[override]
        return self.rel

    @property
    def depth(self) -> int | None:
        return self.k


@measure
@dataclass(frozen=True)
class nDCG(OfflineMeasure):
    """Return the discounted cumulative gain of a list, divided by that of the best list.

        DCG@k = sum_{i=1..k} (2^r_i - 1) / log2(i + 1)
        nDCG@k = DCG@k / max DCG@k

    r_i is the label of the document at rank i. The maximum is over all documents of the query. It
    is undefined for a query without a relevant document.

    Fields
        k: How many documents from the top count. None for all.

    Reference: Järvelin & Kekäläinen, ACM Transactions on Information Systems, 2002; with the gain
    2^r - 1 of Burges et al., ICML 2005."""

    k: int | None = 10

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")

    @property
    def label(self) -> str:
        return with_fields(self, "nDCG")

    @property
    def depth(self) -> int | None:
        return self.k

    def of_lists(self, lists: Lists) -> Array:
        ideal = _dcg(lists.best[:, : self.k])
        undefined = np.full(len(ideal), np.nan)
        shown = _dcg(lists.grades[:, : self.k])
        return np.divide(shown, ideal, out=undefined, where=ideal > 0.0)


def _dcg(grades: Array) -> Array:
    """The DCG of each row; -1 is no document."""
    value: Array = gains(np.maximum(grades, 0)) @ discounts(grades.shape[1])
    return value


@measure
@dataclass(frozen=True)
class RR(AtRank):
    """Return the reciprocal rank of the first relevant document, 0 if none is among the first k.

        RR@k = 1 / min {i <= k: r_i >= rel}

    Its mean over queries is MRR, and its column is called so. It is undefined for a query without
    a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees, TREC 1999."""

    k: int | None = 10
    rel: int = 1

    @property
    def name(self) -> str:
        return with_fields(self, "mrr")

    @property
    def label(self) -> str:
        return with_fields(self, "MRR")

    def of_lists(self, lists: Lists) -> Array:
        relevant = lists.grades[:, : self.k] >= self.rel
        value = np.where(relevant.any(axis=1), 1.0 / (1 + relevant.argmax(axis=1)), 0.0)
        return np.where(lists.best[:, 0] >= self.rel, value, np.nan)


@measure
@dataclass(frozen=True)
class P(AtRank):
    """Return the share of relevant documents among the first k.

        P@k = (number of i <= k with r_i >= rel) / k

    A list of fewer than k documents is divided by k all the same, as in trec_eval. Queries without
    a relevant document have no value (trec_eval counts them 0: set `empty` to zero).

    Fields
        k: How many documents from the top count.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int = 10
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        found = (lists.grades[:, : self.k] >= self.rel).sum(axis=1) / self.k
        return np.where(lists.best[:, 0] >= self.rel, found, np.nan)


@measure
@dataclass(frozen=True)
class R(AtRank):
    """Return the share of the relevant documents that are among the first k.

        R@k = (number of i <= k with r_i >= rel)
              / (number of documents with a label >= rel)

    It is undefined for a query without a relevant document.

    Fields
        k: How many documents from the top count.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int = 10
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        found = (lists.grades[:, : self.k] >= self.rel).sum(axis=1)
        there = (lists.best >= self.rel).sum(axis=1)
        return np.divide(found, there, out=np.full(len(found), np.nan), where=there > 0)


@measure
@dataclass(frozen=True)
class MAP(AtRank):
    """Return the average precision: the mean over the relevant documents of the precision at their
    ranks.

        AP = sum_{i <= k, r_i >= rel} P@i / (number of documents with r >= rel)

    A relevant document after rank k counts 0. MAP is the mean of AP over queries. It is undefined
    for a query without a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        rel: The lowest label that counts as relevant.

    Reference: Voorhees & Harman (editors), TREC: Experiment and Evaluation in Information
    Retrieval, MIT Press 2005."""

    k: int | None = None
    rel: int = 1

    def of_lists(self, lists: Lists) -> Array:
        relevant = lists.grades[:, : self.k] >= self.rel
        precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
        total, there = (relevant * precision).sum(axis=1), (lists.best >= self.rel).sum(axis=1)
        return np.divide(total, there, out=np.full(len(total), np.nan), where=there > 0)


@measure
@dataclass(frozen=True)
class ERR(OfflineMeasure):
    """Return the expected reciprocal rank of the document that satisfies a user who reads the list
    from the top.

        ERR@k = sum_{i=1..k} (1 / i) R_i prod_{j<i} (1 - R_j)
        R_i = (2^r_i - 1) / 2^g

    r_i is the label of the document at rank i, g the highest label. It is undefined for a query
    without a relevant document.

    Fields
        k: How many documents from the top count. None for all.
        highest: The label g of a perfect document. None for the highest label of the data set.
            (gdeval of TREC always takes 4.)

    Reference: Chapelle, Metzler, Zhang & Grinspan, CIKM 2009."""

    k: int | None = 10
    highest: int | None = None

    def __post_init__(self) -> None:
        require(self.k is None or self.k >= 1, f"k must be >= 1, got {self.k}")
        fits = self.highest is None or 1 <= self.highest <= 60
        require(fits, f"highest must be in 1 .. 60, or None, got {self.highest}")

    @property
    def depth(self) -> int | None:
        return self.k

    def of_lists(self, lists: Lists) -> Array:
        highest = lists.highest if self.highest is None else self.highest
        found = lists.best.max(initial=0)
        require(found <= highest, f"{self!r}: the data has the label {found}: set highest to it")
        satisfied = gains(np.maximum(lists.grades[:, : self.k], 0)) / 2.0**highest
        unsatisfied = np.cumprod(1.0 - satisfied, axis=1)
        before = np.hstack([np.ones((len(satisfied), 1)), unsatisfied[:, :-1]])
        value = (satisfied * before / np.arange(1, satisfied.shape[1] + 1)).sum(axis=1)
        return np.where(lists.best[:, 0] > 0, value, np.nan)


DEPTH = 10  # of the tables of click probabilities


@measure
@dataclass(frozen=True)
class ExpectedMaxRR(OfflineMeasure):
    """Return the expected reciprocal rank of the users' first click among the first ten documents.

        sum_{i=1..10} (1 / i) c_i prod_{j<i} (1 - c_j)
        c_i = P(click | rank i, label r_i)

    What users do after their first click does not matter. With several click models, it is the
    mean over users. It is defined for every query, and unknown for click models that are not
    tables of probabilities.

    Reference: Kharitonov, WSDM 2019 (its reward, MaxRR)."""

    relevant_from = None

    @property
    def name(self) -> str:
        return "expected_maxrr"

    @property
    def label(self) -> str:
        return "expected MaxRR"

    @property
    def depth(self) -> int:
        return DEPTH

    def of_lists(self, lists: Lists) -> Array:
        grades = lists.grades[:, :DEPTH]
        if not lists.clicks:
            return np.full(len(grades), np.nan)
        ranks = np.arange(grades.shape[1])
        total = np.zeros(len(grades))
        for share, click in lists.clicks:
            p = np.where(grades >= 0, click[ranks, np.maximum(grades, 0)], 0.0)
            before = np.hstack([np.ones((len(p), 1)), np.cumprod(1.0 - p, axis=1)[:, :-1]])
            total += share * (p * before / (ranks + 1)).sum(axis=1)
        return total
