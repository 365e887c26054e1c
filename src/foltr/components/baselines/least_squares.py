"""Linear regression on labels: "MSE" of Kharitonov (WSDM 2019, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.errors import require
from foltr.spec import baseline
from foltr.world.dataset import Dataset
from foltr.world.protocols import Ranked


@baseline
@dataclass(frozen=True)
class LeastSquares:
    """The linear ranker whose scores are closest to the labels: min over w, b of sum_d (w . x_d +
    b - label_d)^2.

    Over all documents of all queries alike, without regularisation; of several best w the
    shortest. The intercept b is fitted and then left out: it does not change a ranking."""

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked:
        labels = data.labels[0].astype(np.float64)
        require(
            len(np.unique(labels)) > 1,
            "all documents have the same label: there is nothing to learn from",
        )
        docs = data.features.astype(np.float64)
        w = np.linalg.lstsq(docs - docs.mean(axis=0), labels - labels.mean(), rcond=None)[
            0
        ]  # (f,)
        return Ranked(lambda documents: documents @ w, w)
