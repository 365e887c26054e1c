"""Small data sets and populations of every shape that the kernels' tables allow, all from fixed
seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from foltr.core import Array, ClickModel
from foltr.core.metrics import ideal_dcg
from foltr.core.world.dataset import Dataset, padded
from foltr.core.world.population import Population, iid

FEATURES = 13  # no multiple of the storage's alignment


def dataset(
    lengths: Sequence[int],
    grades: int = 3,
    labellings: int = 1,
    twins: bool = False,
    relevant: float = 0.4,
) -> Dataset:
    """Random documents; with `twins` every second one repeats the one before it in all features
    but the last."""
    rng = np.random.default_rng(0)
    n = int(sum(lengths))
    storage = np.zeros((n, padded(FEATURES)), np.float32)
    storage[:, :FEATURES] = rng.random((n, FEATURES), np.float32)
    if twins:
        storage[1::2, : FEATURES - 1] = storage[: n - n % 2 : 2, : FEATURES - 1]
    labels = np.where(
        rng.random((labellings, n)) < relevant, rng.integers(1, grades, (labellings, n)), 0
    )
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    names = np.arange(len(lengths)).astype("S")
    return Dataset(
        storage, FEATURES, labels.astype(np.int8), offsets, grades, names, content="test"
    )


def lengths_between(low: int, high: int, queries: int = 60) -> list[int]:
    return [int(n) for n in np.random.default_rng(2).integers(low, high + 1, queries)]


def varied(data: Dataset, models: tuple[ClickModel, ...], clients: int) -> Population:
    """Every client with its own range of blocks, its own two click models and its own number of
    sessions; every query is a block under each labelling, its second half is one more block, and
    some of its documents, in another order, are one more."""
    rng = np.random.default_rng(5)
    queries, labellings = data.queries, len(data.labels)
    middles = (data.offsets[:-1] + data.offsets[1:]) // 2
    some = [
        rng.permutation(np.arange(a, b))[: max(1, (b - a) // 2)] for a, b in pairwise(data.offsets)
    ]
    edges = data.documents + np.append(0, np.cumsum([len(rows) for rows in some]))
    rows = np.concatenate([np.arange(data.documents), *some]).astype(np.int32)
    starts = np.concatenate([np.tile(data.offsets[:-1], labellings), middles, edges[:-1]])
    stops = np.concatenate([np.tile(data.offsets[1:], labellings), data.offsets[1:], edges[1:]])
    labelling = np.concatenate(
        [np.repeat(np.arange(labellings), queries), *[np.arange(queries) % labellings] * 2]
    )
    held = [
        data.labels[row, rows[a:b]] for row, a, b in zip(labelling, starts, stops, strict=True)
    ]
    ideals = np.array([ideal_dcg(labels, np.array([0, len(labels)]))[0] for labels in held])
    first = rng.integers(0, len(starts) - 1, clients)
    last = rng.integers(first + 1, len(starts) + 1)
    return replace(
        iid(data, models[0], clients, 1),
        rows=rows,
        starts=starts,
        stops=stops,
        labelling=labelling,
        ideals=ideals,
        first=first,
        last=last,
        click_models=models,
        models=rng.integers(0, len(models), (clients, 2)),
        sessions=rng.integers(1, 6, clients),
    )


def with_score_range(params: Array, data: Dataset, spread: float) -> Array:
    """Linear parameters scaled so that the median query's scores lie `spread` apart."""
    scores = data.features @ params
    ranges = [
        np.ptp(scores[a:b]) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]
    return (params * (spread / np.median(ranges))).astype(np.float32)
