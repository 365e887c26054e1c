"""How far apart random, linear, neural and ideal rankers are on `Synthetic`: the levels in its
documentation.

Each is fitted on the labels of the training split, and scored by nDCG@10 on the test split (gain
2^r - 1, queries without a relevant document skipped). Run: python benchmarks/synthetic_levels.py
[SHAPE ...]"""

import sys
import time

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from foltr.components.sources.synthetic import SHAPES, Synthetic
from foltr.core.seeds import stream
from foltr.core.world.dataset import Dataset


def ndcg(data: Dataset, scores: np.ndarray) -> float:
    values = []
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        gains = 2.0 ** data.labels[0, start:stop] - 1
        discounts = 1 / np.log2(np.arange(2, 2 + min(10, stop - start)))
        ideal = np.sort(gains)[::-1][: len(discounts)] @ discounts
        if ideal > 0:
            values.append(
                gains[np.argsort(-scores[start:stop])][: len(discounts)] @ discounts / ideal
            )
    return float(np.mean(values))


def levels(name: str) -> dict[str, float]:
    train, test = Synthetic(shape=name).load("train"), Synthetic(shape=name).load("test")
    features, labels = np.asarray(train.features), train.labels[0].astype(float)
    neural = MLPRegressor(
        hidden_layer_sizes=(64,),
        activation="logistic",
        early_stopping=True,
        learning_rate_init=0.003,
        random_state=0,
    )
    return {
        "random": ndcg(test, stream(0, "random scores").uniforms(test.documents)),
        "linear": ndcg(test, Ridge(1.0).fit(features, labels).predict(test.features)),
        "MLP(64)": ndcg(test, neural.fit(features, labels).predict(test.features)),
        "ideal": ndcg(test, test.labels[0].astype(float)),
    }


def main() -> None:
    for name in sys.argv[1:] or SHAPES:
        begun = time.perf_counter()
        found = levels(name)
        test = Synthetic(shape=name).load("test")
        shares = np.bincount(test.labels[0], minlength=test.grades) / test.documents
        told = "  ".join(f"{ranker} {value:.3f}" for ranker, value in found.items())
        print(
            f"{name:9} {told}  shares {np.round(shares, 2)}  {time.perf_counter() - begun:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
