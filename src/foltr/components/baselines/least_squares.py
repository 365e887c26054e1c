"""Linear regression on labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr.core.errors import require
from foltr.core.spec import baseline
from foltr.core.world.dataset import Dataset
from foltr.core.world.protocols import Ranked


@baseline
@dataclass(frozen=True)
class LeastSquares:
    """Train a linear ranker by least squares on the labels.

        min over w, b of sum_d (w . x_d + b - label_d)^2

    over all documents of all queries, without regularisation. If several w are optimal, the
    shortest is used. The intercept b is dropped: it does not change a ranking.

    Reference: "MSE" in Kharitonov, WSDM 2019, section 5."""

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked:
        labels = data.labels[0].astype(np.float64)
        require(
            len(np.unique(labels)) > 1,
            "all documents have the same label: there is nothing to learn from",
        )
        docs = data.features.astype(np.float64)
        # (f,)
        w = np.linalg.lstsq(docs - docs.mean(axis=0), labels - labels.mean(), rcond=None)[0]
        return Ranked(lambda documents: documents @ w, w)
