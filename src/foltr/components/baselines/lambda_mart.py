"""LambdaMART by LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.metrics import gains
from foltr.core.spec import baseline
from foltr.core.world.dataset import Dataset
from foltr.core.world.protocols import Ranked

MOST_DOCUMENTS = 10_000  # per query, a limit of LightGBM


@baseline
@dataclass(frozen=True)
class LambdaMART:
    """Train boosted regression trees on the gradients of nDCG@10 (gain 2^r - 1), with LightGBM.

    If there are validation queries, the number of trees is the one with the best nDCG@10 on them;
    otherwise all `trees` are used.

    Fields
        trees: most trees grown (1 .. 10^6)
        leaves: most leaves per tree (2 .. 131072)
        learning_rate: shrinkage of each tree (0 < learning_rate <= 1)
        documents: fewest documents per leaf (>= 1)
        patience: growing stops after this many trees without a better validation nDCG@10 (>= 1)

    Reference: Wu, Burges, Svore & Gao, Information Retrieval 13, 2010; LightGBM: Ke et al.,
    NeurIPS 2017."""

    trees: int = 500
    leaves: int = 31
    learning_rate: float = 0.05
    documents: int = 20
    patience: int = 50

    def __post_init__(self) -> None:
        require(1 <= self.trees <= 10**6, f"trees must be in 1 .. 10^6, got {self.trees}")
        require(2 <= self.leaves <= 131072, f"leaves must be in 2 .. 131072, got {self.leaves}")
        require(
            0.0 < self.learning_rate <= 1.0,
            f"learning_rate must be in (0, 1], got {self.learning_rate}",
        )
        require(self.documents >= 1, f"documents must be >= 1, got {self.documents}")
        require(self.patience >= 1, f"patience must be >= 1, got {self.patience}")

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked:
        lightgbm = _library()
        train = _lists(data)
        if validation is None:
            grown = lightgbm.train(self._settings(data.grades, seed), train, self.trees)
            best = self.trees
        else:
            settings, held_out = (
                self._settings(max(data.grades, validation.grades), seed),
                _lists(validation, train),
            )
            stop = lightgbm.early_stopping(self.patience, verbose=False)
            grown = lightgbm.train(settings, train, self.trees, [held_out], callbacks=[stop])
            best = grown.best_iteration
        model = grown.model_to_string(num_iteration=best).encode()
        return Ranked(load_trees(model), None, model)

    def _settings(self, grades: int, seed: int) -> dict[str, Any]:
        return {
            "objective": "lambdarank",
            "label_gain": gains(np.arange(grades)).tolist(),
            "metric": "ndcg",
            "eval_at": [10],
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.documents,
            "seed": seed % 2**31,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }


def load_trees(model: bytes) -> Callable[[Array], Array]:
    """The scoring function (documents (m, f) -> scores (m,) float64) of a model that `LambdaMART`
    saved in LightGBM's text format."""
    lightgbm = _library()
    try:
        trees = lightgbm.Booster(model_str=model.decode())
    except (lightgbm.basic.LightGBMError, UnicodeDecodeError):
        raise Mistake("this is no model that LightGBM wrote") from None
    return lambda docs: trees.predict(np.asarray(docs), num_threads=1)


def _lists(data: Dataset, train: Any = None) -> Any:
    """A LightGBM data set: for training, or for validation if `train` is given."""
    name, sizes, labels = (
        "training" if train is None else "validation",
        np.diff(data.offsets),
        data.labels[0],
    )
    most = int(sizes.max(initial=0))
    require(
        most <= MOST_DOCUMENTS,
        f"a {name} query has {most} documents, LightGBM takes at most {MOST_DOCUMENTS}",
    )
    apart = any(len(np.unique(labels[start:stop])) > 1 for start, stop in pairwise(data.offsets))
    require(
        apart,
        f"no {name} query has two documents with different labels: there is nothing to learn from",
    )
    return _library().Dataset(
        np.ascontiguousarray(data.features), labels, group=sizes, reference=train
    )


def _library() -> ModuleType:
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError where the system lacks OpenMP
        raise Mistake(
            f"LambdaMART needs LightGBM: pip install 'foltr[baselines]' ({error})"
        ) from None
    return lightgbm
