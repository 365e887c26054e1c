"""A ranker as dense layers, which other programs can compute: what `foltr export` writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from foltr.core import Array, Ranker
from foltr.errors import Mistake, require, shown

Activation = Literal["identity", "sigmoid", "relu", "tanh"]

FUNCTIONS: dict[Activation, Callable[[Array], Array]] = {
    "identity": lambda z: z,
    "sigmoid": lambda z: 0.5 + 0.5 * np.tanh(0.5 * z),  # 1 / (1 + e^-z) without overflow
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class Layer:
    """A dense layer: activation(weights x + bias)."""

    weights: Array  # (out, in) float32
    bias: Array  # (out,) float32
    activation: Activation = "identity"


@runtime_checkable
class Layered(Protocol):
    """A ranker that is a network of dense layers. A ranker need not be one, but only such rankers
    can be exported."""

    def layers(self, params: Array) -> tuple[Layer, ...]:
        """The layers from the features to the score. `forward` of them gives what `Ranker.scores`
        gives, up to rounding."""
        ...


def layers_of(ranker: Ranker, params: Array, features: int) -> tuple[Layer, ...]:
    """The layers of a ranker. Raises a Mistake for a ranker that has none, or whose layers do not
    fit together."""
    if not isinstance(ranker, Layered):
        raise Mistake(
            f"{ranker!r} cannot be exported: it does not say which dense layers it consists of."
            " Save it by TrainedRanker.save for foltr.load_ranker, or write layers(self, params)"
            " (foltr.scoring.layers.Layered)"
        )
    layers, width = ranker.layers(params), features
    for number, layer in enumerate(layers, 1):
        where, out = f"layer {number} of {ranker!r}", len(layer.bias)
        shape = f"must have weights ({out}, {width}), got {layer.weights.shape}"
        require(layer.weights.shape == (out, width), f"{where} {shape}")
        known = ", ".join(get_args(Activation))
        wrong = f"{where} has the activation {shown(layer.activation)}: known: {known}"
        require(layer.activation in FUNCTIONS, wrong)
        width = out
    last = f"the last layer of {ranker!r} must give one number"
    require(bool(layers) and width == 1, f"{last}, the score: it gives {width}")
    return layers


def forward(layers: tuple[Layer, ...], docs: Array) -> Array:
    """The scores (m,) of documents (m, f), in float64."""
    values = docs.astype(np.float64)
    for layer in layers:
        sums = values @ layer.weights.T.astype(np.float64) + layer.bias
        values = FUNCTIONS[layer.activation](sums)
    return values[:, 0]


def plain_layers(layers: tuple[Layer, ...]) -> list[dict[str, Any]]:
    """Layers as plain values, for JSON."""
    return [
        {
            "weights": layer.weights.astype(float).tolist(),
            "bias": layer.bias.astype(float).tolist(),
            "activation": layer.activation,
        }
        for layer in layers
    ]
