"""The measures, each defined once, over flat arrays.

nDCG@10 has gain 2^r - 1 and discount 1 / log2(rank + 1); its ideal is over all documents of the
query. Offline, measures by label (nDCG, MRR) skip queries without a relevant document, or count
them as 0 or 1 (`empty`); online, such queries count 0. Measures by click (MaxRR, expected MaxRR)
are defined for every query. Ties are broken at random, reproducibly (`seeds.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from foltr.core import Array
from foltr.core.ranking import best_first
from foltr.core.seeds import Stream

DEPTH = 10
Empty = Literal["skip", "zero", "one"]
# text for queries without a relevant document
EMPTY = {"skip": "are skipped", "zero": "count 0", "one": "count 1"}
GAMMA = 0.9995  # discount of online performance, per round


def gains(labels: Array) -> Array:
    """The gain of each label: 2^r - 1."""
    return np.exp2(labels.astype(np.float64)) - 1.0


def discounts(k: int) -> Array:
    """The discounts 1 / log2(rank + 1) of ranks 1 .. k."""
    return 1.0 / np.log2(np.arange(2, k + 2))


def dcg(shown: Array) -> float:
    """The DCG of a list, from the grades of its documents in the order shown."""
    return float(gains(shown) @ discounts(len(shown)))


def ideal_dcg(labels: Array, offsets: Array, depth: int = DEPTH) -> Array:
    """The largest DCG@depth that each query's labels allow."""  # (N,), (q + 1,) -> (q,)
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-labels.astype(np.int16), query))
    rank = np.arange(len(labels)) - offsets[query]
    worth = np.zeros(len(labels))
    top = rank < depth
    worth[top] = gains(labels[order][top]) * discounts(depth)[rank[top]]
    return np.bincount(query, worth, len(offsets) - 1)


def measure_queries(
    scores: Array, labels: Array, offsets: Array, click: Array, rng: Stream, depth: int = DEPTH
) -> Array:
    """nDCG@depth, reciprocal rank and expected MaxRR of each query, ranked by score.

    nDCG and reciprocal rank are NaN for a query without a relevant document. Expected MaxRR has a
    closed form for users that click at rank i on grade r with probability click[i, r]: sum_i (1/i)
    click[i, r_i] prod_{j<i} (1 - click[j, r_j]). What they do after the first click does not
    matter."""  # (N,), (N,), (q + 1,), (depth, grades) -> (q, 3)
    ideals, out = ideal_dcg(labels, offsets, depth), np.full((len(offsets) - 1, 3), np.nan)
    for q, (start, stop) in enumerate(pairwise(offsets)):
        k = min(depth, stop - start)
        shown = labels[start:stop][best_first(scores[start:stop], k, rng.at(q))]
        if ideals[q] > 0.0:
            out[q, 0] = dcg(shown) / ideals[q]
            out[q, 1] = (shown.any() and 1.0 / (1 + np.argmax(shown > 0))) or 0.0
        p = click[np.arange(k), shown]
        out[q, 2] = (p * np.append(1.0, np.cumprod(1.0 - p)[:-1]) / np.arange(1, k + 1)).sum()
    return out


def mean_over_queries(values: Array, empty: Empty) -> float:
    """The mean of a measure that is NaN for queries without a relevant document."""
    if empty == "skip":
        values = values[~np.isnan(values)]
    else:
        values = np.nan_to_num(values, nan=0.0 if empty == "zero" else 1.0)
    return float(values.mean()) if len(values) else float("nan")


def online_performance(per_round: Array, gamma: float = GAMMA) -> float:
    """Discounted cumulative online nDCG: sum_t gamma^(t - 1) x (mean nDCG@10 over clients in round
    t). A round without a search (NaN) counts 0; the result is NaN if no round has one.

    Reference: Wang, PhD thesis 2024, section 2.1."""
    return float(discounted(per_round, gamma).sum())


def discounted(per_round: Array, gamma: float = GAMMA) -> Array:
    """The terms of `online_performance`: (rounds,)."""
    missing = np.isnan(per_round)
    if missing.any() and not missing.all():
        per_round = np.where(missing, 0.0, per_round)
    return per_round * gamma ** np.arange(len(per_round))


def max_rr(clicks: Array, depth: int = DEPTH) -> float:
    """The reciprocal rank of the first click in the top `depth`, 0 without a click."""
    ranks = np.flatnonzero(clicks[:depth])
    return 1.0 / (1 + int(ranks[0])) if len(ranks) else 0.0
