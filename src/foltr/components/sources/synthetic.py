"""Synthetic data in the shape of published collections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.seeds import Stream, stream
from foltr.core.spec import source
from foltr.core.world.dataset import Dataset, padded
from foltr.data import cache
from foltr.data.collection import SPLITS, known_split

MADE = 1  # version: raise it when the same seed gives other data
FACTORS = 10  # topics of a document; features are noisy views of them
CHUNK = 250  # queries drawn from one random stream
# Numbers. Larger data sets are written to the cache and memory-mapped; of those in between, which
# take a tenth of a second to make, the cache holds a few.
QUICK, IN_MEMORY = 500_000, 4_000_000
KEPT = 32  # data sets in between


@dataclass(frozen=True)
class DataShape:
    """The shape of a collection."""

    features: int
    documents: int  # mean per query
    shares: tuple[float, ...]  # of the grades
    queries: int  # of the training split, by default


SHAPES = {
    "MQ2007": DataShape(46, 41, (0.74, 0.20, 0.06), 1000),
    "MQ2008": DataShape(46, 19, (0.81, 0.13, 0.06), 500),
    "MSLR": DataShape(136, 120, (0.52, 0.32, 0.13, 0.02, 0.01), 1000),
    "Yahoo": DataShape(700, 24, (0.26, 0.36, 0.28, 0.08, 0.02), 1000),
    "IstellaS": DataShape(220, 103, (0.88, 0.02, 0.04, 0.04, 0.02), 1000),
}


@source
@dataclass(frozen=True)
class Synthetic:
    """Generate documents from a seed, in the shape of a published collection (no download).

    A document has factors z (10,): those of its query plus its own. A feature is a noisy view of
    one to three factors, some of them skewed, then min-max normalised per query. The relevance of
    a document follows its utility
        u = linear(z) + bend x curved(z) + level of the query + noise x N(0, 1)
    where linear weights all factors, and curved prefers middle values of two factors and equal
    signs of two others. Grades cut u at fixed thresholds, so that their shares are those of the
    real collection.

    nDCG@10 on the test split of rankers fitted on the labels of the training split (default
    fields; ridge regression and a network of 64 sigmoid units; queries without a relevant document
    skipped), by benchmarks/synthetic_levels.py:

        shape       random   linear   MLP(64)   ideal
        MQ2007      .249     .617     .808      1
        MQ2008      .368     .660     .797      1
        MSLR        .177     .643     .832      1
        Yahoo       .454     .816     .897      1
        IstellaS    .101     .590     .794      1

    Fields
        shape: the collection whose features, list lengths and grades are imitated
        queries: queries of the training split (1 .. 10^6), or None for 1,000 (MQ2008: 500);
            validation and test have a third each
        seed: seed of the data; other seeds give other collections
        noise: standard deviation of the noise in the utility (>= 0)
        bend: weight of the non-linear part of the utility (>= 0)
    """

    shape: Literal["MQ2007", "MQ2008", "MSLR", "Yahoo", "IstellaS"] = "MQ2007"
    queries: int | None = None
    seed: int = 0
    noise: float = 0.2
    bend: float = 1.5

    def __post_init__(self) -> None:
        require(
            self.queries is None or 1 <= self.queries <= 10**6,
            f"queries must be in 1 .. 10^6, got {self.queries}",
        )
        require(self.noise >= 0 and self.bend >= 0, "Synthetic: noise and bend cannot be negative")

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def load(self, split: str) -> Dataset:
        known_split(split, SPLITS)
        shape = SHAPES[self.shape]
        train = self.queries or shape.queries
        count = train if split == "train" else -(-train // 3)
        key = {"synthetic": repr(self), "queries": count, "split": split, "made": MADE}
        size, write = count * shape.documents * shape.features, partial(_write, self, split, count)
        if size > IN_MEMORY:
            found = cache.kept(key, write)
            return _dataset(shape, found.arrays, found.content)
        content = blake2b(repr(key).encode(), digest_size=16).hexdigest()
        lately = cache.kept_lately("made", KEPT, key, write) if size > QUICK else None
        if lately is not None:
            return _dataset(shape, lately.arrays, content)
        parts = list(World(self).chunks(split, count))
        storage, labels, lengths = (np.concatenate(part) for part in zip(*parts, strict=True))
        return _dataset(shape, {"storage": storage, **_small(labels, lengths)}, content)


class World:
    """What all splits share: the features' loadings on factors, the relevance function, and the
    cuts of grades."""

    def __init__(self, spec: Synthetic) -> None:
        self.spec, self.shape = spec, SHAPES[spec.shape]
        rng, f = stream(spec.seed, "synthetic", spec.shape), self.shape.features
        loads = rng.at(0).normals(FACTORS * f).reshape(FACTORS, f)
        strongest = np.sort(np.abs(loads), axis=0)[-(1 + np.arange(f) % 3), np.arange(f)]
        loads[np.abs(loads) < strongest] = 0.0  # one to three factors each
        self.loads = loads / np.sqrt((loads**2).sum(axis=0))
        self.taste = np.abs(rng.at(1).normals(FACTORS)) + 0.5
        self.taste /= np.sqrt((self.taste**2).sum())
        self.rng = rng
        utility = np.concatenate([self._documents("cuts", chunk, CHUNK)[1] for chunk in range(4)])
        self.cuts = np.quantile(utility, np.cumsum(self.shape.shares)[:-1])

    def chunks(self, split: str, queries: int) -> Iterator[tuple[Array, Array, Array]]:
        """Storage (n, w), labels (n,) and list lengths (q,), for at most 250 queries at a time."""
        for chunk, start in enumerate(range(0, queries, CHUNK)):
            factors, utility, lengths = self._documents(split, chunk, min(CHUNK, queries - start))
            views = self._views(factors, self._stream(split, chunk).at(9))
            yield (
                _normalized(views, lengths),
                np.searchsorted(self.cuts, utility).astype(np.int8),
                lengths,
            )

    def _stream(self, split: str, chunk: int) -> Stream:
        return stream(self.rng.key, split).at(chunk)

    def _documents(self, split: str, chunk: int, queries: int) -> tuple[Array, Array, Array]:
        """Factors (n, 10), utility (n,) and list lengths (q,)."""
        rng = self._stream(split, chunk)
        ragged = np.exp(0.4 * rng.at(0).normals(CHUNK)[:queries] - 0.08)
        lengths = np.maximum(2, np.rint(self.shape.documents * ragged)).astype(np.int64)
        n = int(lengths.sum())
        about = rng.at(1).normals(CHUNK * FACTORS).reshape(CHUNK, FACTORS)[:queries]
        level = 0.5 * rng.at(2).normals(CHUNK)[:queries]
        factors = 0.25 * np.repeat(about, lengths, axis=0) + rng.at(3).normals(
            n * FACTORS
        ).reshape(n, FACTORS)
        utility = np.einsum("nk,k->n", factors, self.taste) + self.spec.bend * _curved(factors)
        utility += np.repeat(level, lengths) + self.spec.noise * rng.at(4).normals(n)
        return factors, utility, lengths

    def _views(self, factors: Array, rng: Stream) -> Array:
        """Features (n, f); every third one is skewed, as counts and lengths are in real data."""
        n, f = len(factors), self.shape.features
        # unlike BLAS: same bits for any number of threads
        views = np.einsum("nk,kf->nf", factors, self.loads)
        views += 0.3 * rng.normals(n * f).reshape(n, f)
        views[:, ::3] = np.exp(0.7 * views[:, ::3])
        return views


def _curved(factors: Array) -> Array:
    """The part of the utility that no linear ranker can represent."""
    # (n,)
    middling = np.exp(-(factors[:, 0] ** 2)) + np.exp(-(factors[:, 1] ** 2))
    return 2.0 * middling + 0.8 * np.tanh(factors[:, 2]) * np.tanh(factors[:, 3])


def _normalized(views: Array, lengths: Array) -> Array:
    """Features scaled to [0, 1] per query, padded to the width of storage."""
    offsets = np.append(0, np.cumsum(lengths))
    low = np.minimum.reduceat(views, offsets[:-1])
    span = np.maximum.reduceat(views, offsets[:-1]) - low
    storage = np.zeros((len(views), padded(views.shape[1])), np.float32)
    storage[:, : views.shape[1]] = (views - np.repeat(low, lengths, axis=0)) / np.repeat(
        span, lengths, axis=0
    )
    return storage


def _write(spec: Synthetic, split: str, queries: int, folder: Path) -> dict[str, Any]:
    world, labels, lengths = World(spec), [], []
    with cache.RowWriter(
        folder / "storage.npy", padded(world.shape.features), np.float32
    ) as storage:
        for rows, grades, counts in world.chunks(split, queries):
            storage.append(rows)
            labels.append(grades)
            lengths.append(counts)
    for name, array in _small(np.concatenate(labels), np.concatenate(lengths)).items():
        np.save(folder / f"{name}.npy", array)
    return {"synthetic": repr(spec)}


def _small(labels: Array, lengths: Array) -> dict[str, Array]:
    """All arrays of a data set but the features."""
    names = np.arange(1, len(lengths) + 1).astype("S")
    return {
        "labels": labels[None],
        "offsets": np.append(0, np.cumsum(lengths)),
        "query_ids": names,
    }


def _dataset(shape: DataShape, arrays: dict[str, Any], content: str) -> Dataset:
    return Dataset(width=shape.features, grades=len(shape.shares), content=content, **arrays)
