"""A trained ranker by itself: rank new documents, save and load as a small JSON file, export TREC
runs and qrels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr.core import Array, Ranker
from foltr.errors import Mistake, require
from foltr.ranking import best_first
from foltr.seeds import stream
from foltr.spec import coerce, rankers
from foltr.system.files import write_whole
from foltr.world.dataset import Dataset

FORMAT = 1


@dataclass(frozen=True, eq=False, repr=False)
class TrainedRanker:
    """A ranker with its parameters: ranks any documents that have as many features."""

    ranker: Ranker
    params: Array  # (d,) float32, as a device holds them
    features: int  # of a document

    def __repr__(self) -> str:
        return f"TrainedRanker({self.ranker!r}, features={self.features})"

    def scores(self, docs: Array) -> Array:
        """A score for each of the documents (m, features), rows of finite numbers."""
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
        return self.ranker.scores(self.params, docs)  # (m,)

    def rank(self, docs: Array, k: int | None = None, seed: int = 0) -> Array:
        """Indices of the best k documents (all by default), best first; ties at random by
        address."""
        scores = self.scores(docs)
        k = len(scores) if k is None else coerce(k, int, "k")
        require(k >= 1, f"k must be >= 1, got {k}")
        return best_first(scores, k, stream(seed, "ties"))

    def save(self, path: str | Path) -> None:
        """As a small JSON file, which `foltr.load_ranker` reads."""
        about = {"foltr-ranker": FORMAT, "ranker": repr(self.ranker), "features": self.features}
        write_whole(
            Path(path), json.dumps({**about, "params": [float(x) for x in self.params]}) + "\n"
        )

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
        for name, grade in zip(
            names, data.labels[0, data.offsets[q] : data.offsets[q + 1]], strict=True
        ):
            yield f"{query} 0 {name} {grade}"


def _named(data: Dataset) -> Iterator[tuple[str, list[str]]]:
    for q, query in enumerate(data.query_ids):
        start, stop = data.offsets[q], data.offsets[q + 1]
        if data.document_ids is None:
            names = [f"{query.decode()}-{i}" for i in range(stop - start)]
        else:
            names = [name.decode() for name in data.document_ids[start:stop]]
        yield query.decode(), names


def load_ranker(path: str | Path) -> TrainedRanker:
    """What `save` wrote."""
    try:
        content = json.loads(Path(path).read_text())
        params = np.array(content["params"], np.float32)
        version, spec, features = (
            content["foltr-ranker"],
            str(content["ranker"]),
            int(content["features"]),
        )
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Mistake(f"{path} is not a ranker that foltr saved") from None
    if version != FORMAT:
        raise Mistake(f"{path} has format {version}, this foltr reads {FORMAT}")
    require(1 <= features <= 10**6, f"{path}: features must be in 1 .. 10^6, got {features}")
    ranker = rankers.build(spec)
    if params.shape != ranker.init(features, stream(0)).shape or not np.isfinite(params).all():
        raise Mistake(f"{path} does not hold the parameters of {spec} over {features} features")
    return TrainedRanker(ranker, params, features)


def rank(trained: TrainedRanker, docs: Array, k: int | None = None) -> Array:
    """Indices of the best k documents, best first."""
    require(
        isinstance(trained, TrainedRanker),
        f"rank takes a trained ranker (result.trained), got {trained!r}",
    )
    return trained.rank(docs, k)
