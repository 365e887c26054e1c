"""A trained ranker by itself: rank new documents, save and load as a small JSON file, export TREC
runs and qrels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array, Ranker
from foltr.core.errors import Mistake, require, shown
from foltr.core.ranking import best_first
from foltr.core.scoring import (
    Normalisation,
    check_width,
    layers_of,
    names_hash,
    normalisation_of,
    plain_layers,
)
from foltr.core.seeds import stream
from foltr.core.spec import coerce, rankers
from foltr.core.system.files import given_path, write_whole
from foltr.core.world.dataset import Dataset

FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class TrainedRanker:
    """A ranker with its parameters: ranks any documents that have as many features."""

    ranker: Ranker
    params: Array  # (d,) float32, as a device holds them
    features: int  # of a document
    names: tuple[str, ...] | None = None  # of the features, in order; None if they have none
    # how raw features were normalised for training; None if they were not, or if it is not known
    normalisation: Normalisation | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            object.__setattr__(self, "names", checked_names(self.names, self.features))
        if self.normalisation is not None:
            check_width(self.normalisation, self.features)

    def __repr__(self) -> str:
        return f"TrainedRanker({self.ranker!r}, features={self.features})"

    def scores(self, docs: Array, raw: bool = False) -> Array:
        """A score for each of the documents (m, features), rows of finite numbers.

        Features are as in training: what the data source gives. With `raw`, they are raw features
        of all documents of one query, and `normalisation` is applied to them first."""
        docs = self.normalised(docs) if raw else self.checked(docs)
        return self.ranker.scores(self.params, docs)  # (m,)

    def normalised(self, docs: Array) -> Array:
        """Raw documents of one query (m, features), normalised as in training."""
        docs = self.checked(docs)
        if self.normalisation is not None:
            docs = self.normalisation(docs)
            require(bool(np.isfinite(docs).all()), "normalised features are beyond float32")
        return docs

    def checked(self, docs: Array) -> Array:
        """The documents as float32 (m, features). Raises a Mistake if they are anything else."""
        try:
            with np.errstate(over="ignore"):
                docs = np.asarray(docs, np.float64).astype(np.float32)
        except (ValueError, TypeError):
            raise Mistake("documents must be rows of equally many numbers") from None
        if docs.ndim != 2 or docs.shape[1] != self.features:
            raise Mistake(
                f"documents must be (any, {self.features}) numbers, got shape {docs.shape}"
            )
        if not np.isfinite(docs).all():
            raise Mistake("documents hold a number that is not finite")
        return docs

    def rank(self, docs: Array, k: int | None = None, seed: int = 0, raw: bool = False) -> Array:
        """Indices of the best k documents (all by default), best first; ties at random by
        address. `raw` as in `scores`."""
        scores = self.scores(docs, raw)
        k = len(scores) if k is None else coerce(k, int, "k")
        require(k >= 1, f"k must be >= 1, got {k}")
        return best_first(scores, k, stream(seed, "ties"))

    def save(self, path: str | Path) -> None:
        """As a small JSON file, which `foltr.load_ranker` reads."""
        write_whole(given_path(path), json.dumps(self.plain()) + "\n")

    def plain(self) -> dict[str, Any]:
        """The content of the file that `save` writes. What is None is left out."""
        return {
            "foltr-ranker": FORMAT,
            "ranker": repr(self.ranker),
            "features": self.features,
            **about_features(self.names, self.normalisation),
            "params": [float(x) for x in self.params],
        }

    def trec_run(self, data: Dataset, tag: str = "foltr", k: int = 1000) -> Iterator[str]:
        """Lines `qid Q0 docid rank score tag`; documents without an id are numbered within their
        query."""
        for q, (query, names) in enumerate(_named(data)):
            docs = data.features[data.offsets[q] : data.offsets[q + 1]]
            scores = self.scores(docs)
            order = best_first(scores, min(k, len(scores)), stream(0, "ties", q))
            for rank, i in enumerate(order, 1):
                yield f"{query} Q0 {names[i]} {rank} {scores[i]:.9g} {tag}"


def qrels(data: Dataset) -> Iterator[str]:
    """Lines `qid 0 docid grade` of a data set's labels."""
    for q, (query, names) in enumerate(_named(data)):
        grades = data.labels[0, data.offsets[q] : data.offsets[q + 1]]
        for name, grade in zip(names, grades, strict=True):
            yield f"{query} 0 {name} {grade}"


def _named(data: Dataset) -> Iterator[tuple[str, list[str]]]:
    for q, query in enumerate(data.query_ids):
        start, stop = data.offsets[q], data.offsets[q + 1]
        if data.document_ids is None:
            names = [f"{query.decode()}-{i}" for i in range(stop - start)]
        else:
            names = [name.decode() for name in data.document_ids[start:stop]]
        yield query.decode(), names


def about_features(
    names: tuple[str, ...] | None, normalisation: Normalisation | None
) -> dict[str, Any]:
    """Names and normalisation as they stand in files. What is None is left out."""
    about: dict[str, Any] = {} if names is None else {"names": list(names)}
    return about if normalisation is None else {**about, "normalisation": normalisation.plain()}


def features_of(
    about: dict[str, Any], features: int
) -> tuple[tuple[str, ...] | None, Normalisation | None]:
    """The names and the normalisation that `about_features` wrote. Raises a Mistake if they are
    not of so many features."""
    names, normalisation = about.get("names"), about.get("normalisation")
    if names is not None:
        names = checked_names(names, features)
    made = None if normalisation is None else normalisation_of(normalisation, features)
    return names, made


def checked_names(names: Any, features: int) -> tuple[str, ...]:
    """The names of so many features. Raises a Mistake unless each has a name of its own."""
    listed = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    require(listed, f"names of features must be a list of texts, got {shown(names)}")
    many = f"there are {len(names)} names of features, and the ranker has {features} features"
    require(len(names) == features, f"{many}: give one name for each, in order")
    known: set[str] = set()
    for name in names:
        twice = f"two features are called {shown(name)}: give each a name of its own"
        require(name not in known, twice)
        known.add(name)
    return tuple(names)


def load_ranker(path: str | Path) -> TrainedRanker:
    """Load a ranker from a file that `TrainedRanker.save` or `foltr export --to json` wrote."""
    path = given_path(path)
    try:
        content = json.loads(path.read_text())
        with np.errstate(over="ignore"):  # what is infinite then is refused below
            params = np.array(content["params"], np.float64).astype(np.float32)
        version = content["foltr-ranker"]
        spec, features = str(content["ranker"]), int(content["features"])
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise Mistake(f"{path} is not a ranker that foltr saved") from None
    if version != FORMAT:
        raise Mistake(f"{path} has format {version}, this foltr reads {FORMAT}")
    require(1 <= features <= 10**6, f"{path}: features must be in 1 .. 10^6, got {features}")
    ranker = rankers.build(spec)
    if params.shape != ranker.init(features, stream(0)).shape or not np.isfinite(params).all():
        raise Mistake(f"{path} does not hold the parameters of {spec} over {features} features")
    try:
        names, normalisation = features_of(content, features)
        trained = TrainedRanker(ranker, params, features, names, normalisation)
        _check_copies(content, trained)
    except Mistake as mistake:
        raise Mistake(f"{path}: {mistake}") from None
    return trained


def _check_copies(content: dict[str, Any], trained: TrainedRanker) -> None:
    """What an export adds for other programs agrees with the rest of the file: nobody edited one
    of the two."""
    again = "export it again"
    if "layers" in content:
        layers = layers_of(trained.ranker, trained.params, trained.features)
        edited = f"its layers are not those of its params: {again}"
        require(content["layers"] == plain_layers(layers), edited)
    if "names_sha256" in content:
        edited = f"names_sha256 is not the hash of its names: {again}"
        require(content["names_sha256"] == names_hash(trained.names or ()).hex(), edited)


def rank(trained: TrainedRanker, docs: Array, k: int | None = None, raw: bool = False) -> Array:
    """Indices of the best k documents, best first. With `raw`, features are raw features of all
    documents of one query, and are normalised as in training."""
    one = f"rank takes a trained ranker (result.trained), got {trained!r}"
    require(isinstance(trained, TrainedRanker), one)
    return trained.rank(docs, k, raw=raw)
