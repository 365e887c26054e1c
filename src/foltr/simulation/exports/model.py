"""What every format writes: the layers of a ranker, the names of its features, their
normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foltr import __version__
from foltr.core import Array
from foltr.core.errors import require
from foltr.core.scoring import (
    Layer,
    Normalisation,
    PerQuery,
    forward,
    layers_of,
    names_hash,
    numbered,
)
from foltr.simulation.runs.trained import TrainedRanker


@dataclass(frozen=True, eq=False)
class Model:
    """A trained ranker that is exported under a name."""

    trained: TrainedRanker
    name: str

    def __post_init__(self) -> None:
        finite = bool(np.isfinite(self.trained.params).all())
        require(finite, "the ranker has parameters that are infinite or NaN: train it again")

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        return layers_of(self.trained.ranker, self.trained.params, self.trained.features)

    @property
    def features(self) -> int:
        return self.trained.features

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features. If the ranker has none, their numbers from 1."""
        return self.trained.names or numbered(self.trained.features)

    @property
    def names_sha256(self) -> str:
        return names_hash(self.names).hex()

    @property
    def normalisation(self) -> Normalisation | None:
        return self.trained.normalisation

    @property
    def per_query(self) -> bool:
        """Whether a document's score depends on the other documents of its query."""
        return isinstance(self.normalisation, PerQuery)

    @property
    def maker(self) -> str:
        return f"foltr {__version__}"

    @property
    def takes(self) -> str:
        """The input of an exported model, in a few words."""
        if self.per_query:
            return "raw features of all documents of one query, which it normalises"
        if self.normalisation is not None:
            return "raw features, which it normalises"
        return "features as the training data has them: no normalisation is stored"

    def scores(self, docs: Array) -> Array:
        """The scores (m,) of documents of one query with raw features (m, f), in float64."""
        return forward(self.layers, self.trained.normalised(docs))


def example(features: int) -> Array:
    """Three documents to try an exported model with. Feature j of document i is (7 i + 3 j) mod
    11."""
    return (7.0 * np.arange(3)[:, None] + 3.0 * np.arange(features)) % 11.0
