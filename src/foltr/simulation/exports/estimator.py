"""A trained ranker as a scikit-learn estimator. This module needs scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from foltr.core import Array
from foltr.core.errors import require, shown
from foltr.simulation.exports.model import Model
from foltr.simulation.runs.trained import TrainedRanker


class RankerEstimator(BaseEstimator):
    """A ranker that foltr trained, as an estimator of scikit-learn: `predict` gives scores, the
    higher the better.

    It is trained already, like scikit-learn's FrozenEstimator: `fit` checks its input and changes
    nothing, and a clone keeps the ranker. It can be the last step of a pipeline. Features are raw,
    and normalised as in training. Where that is per query, X holds the documents of one query, or
    `groups` says for each row which query it belongs to."""

    def __init__(self, ranker: TrainedRanker) -> None:
        self.ranker = ranker

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> RankerEstimator:
        """Check that X has the features of the ranker. Nothing is learned."""
        self._docs(X)
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """The scores (n,) float64 of documents X (n, features). `groups` (n,) are the queries of
        the rows; None for one query."""
        docs, model = self._docs(X), Model(self.ranker, "estimator")
        if groups is None or not model.per_query:
            return model.scores(docs)
        queries = np.asarray(groups)
        each = f"groups must have one query for each of {len(docs)} rows, got {queries.shape}"
        require(queries.shape == (len(docs),), each)
        found, rows_of = np.empty(len(docs)), dict[Any, list[int]]()
        for row, query in enumerate(queries.tolist()):
            known = query is not None and query == query
            require(known, f"groups must have a query for each row, got {query} for row {row}")
            rows_of.setdefault(query, []).append(row)
        for rows in rows_of.values():
            found[rows] = model.scores(docs[rows])
        return found

    @property
    def n_features_in_(self) -> int:
        return self.ranker.features

    @property
    def feature_names_in_(self) -> Array:
        """The names of the features. Without names, there is no such attribute, as in
        scikit-learn."""
        if self.ranker.names is None:
            raise AttributeError("the ranker has no feature names")
        return np.array(self.ranker.names, object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _docs(self, X: Any) -> Array:
        """The documents as float32, checked as scikit-learn checks them."""
        self._check_columns(X)
        docs = check_array(X, dtype=np.float64)
        width, name = self.ranker.features, type(self).__name__
        has = f"X has {docs.shape[1]} features, but {name} is expecting {width} features as input"
        require(docs.shape[1] == width, has)
        return self.ranker.checked(docs)

    def _check_columns(self, X: Any) -> None:
        """The columns of a data frame have the names of the features, if these have names."""
        try:
            columns = tuple(X.columns)
        except AttributeError:
            return
        if self.ranker.names is not None and all(isinstance(name, str) for name in columns):
            pairs = zip(columns, self.ranker.names, strict=False)
            other = next((f"{shown(a)} instead of {shown(b)}" for a, b in pairs if a != b), "")
            wrong = "The feature names should match those that were passed during fit"
            require(columns == self.ranker.names, f"{wrong} (feature_names_in_). {other}".strip())
