"""A ranker as dense layers, which other programs can compute: what `foltr export` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from foltr.core import Array, Ranker
from foltr.core.errors import Mistake, require, shown

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
            " (foltr.core.scoring.Layered)"
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


# How raw features become the features that a ranker was trained on.

PER_QUERY, PER_FEATURE = "min-max per query", "shift and scale"  # kinds, in files


@dataclass(frozen=True)
class PerQuery:
    """Min-max within each query, over all of its documents: (x - min) / (max - min), and 0 where
    a feature is constant. `normalize=True` of the data sources."""

    def __call__(self, docs: Array) -> Array:
        """Raw features (m, f) of all documents of one query -> normalised ones, float32."""
        if not len(docs):
            return docs.astype(np.float32)
        low = docs.min(axis=0).astype(np.float64)
        span = docs.max(axis=0) - low
        scaled = (docs - low) / np.where(span > 0.0, span, 1.0)
        return scaled.astype(np.float32)

    def widened(self, features: int) -> PerQuery:
        """This normalisation with so many more features. It does not change features that are 0 in
        some documents of a query and 1 in the others, or 0 in all."""
        return self

    def plain(self) -> dict[str, Any]:
        """The normalisation as plain values, for files."""
        return {"kind": PER_QUERY}


@dataclass(frozen=True)
class PerFeature:
    """A fixed shift and scale of each feature: (x - shift) / scale, and 0 where the scale is 0.
    With mean and standard deviation this is standardisation; with minimum and maximum - minimum it
    is min-max. The numbers are rounded to float32, because search plugins hold them so."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("shift", "scale"):
            try:
                with np.errstate(over="ignore"):
                    numbers = np.asarray(getattr(self, name), np.float64).astype(np.float32)
            except (ValueError, TypeError):
                raise Mistake(f"{name} must be one number per feature") from None
            fits = numbers.ndim == 1 and bool(np.isfinite(numbers).all())
            require(fits, f"{name} must be one number of float32 per feature")
            object.__setattr__(self, name, tuple(numbers.tolist()))
        shifts, scales = len(self.shift), len(self.scale)
        require(shifts == scales, f"there are {shifts} shifts and {scales} scales")
        require(min(self.scale, default=0.0) >= 0.0, "scale must be >= 0 for every feature")

    def __call__(self, docs: Array) -> Array:
        """Raw features (m, f) of any documents -> normalised ones, float32."""
        scale = np.array(self.scale)
        scaled = (docs - np.array(self.shift)) / np.where(scale > 0.0, scale, np.inf)
        with np.errstate(over="ignore"):
            return scaled.astype(np.float32)

    def widened(self, features: int) -> PerFeature:
        """This normalisation with so many more features, which it does not change."""
        return PerFeature(
            (*self.shift, *(0.0 for _ in range(features))),
            (*self.scale, *(1.0 for _ in range(features))),
        )

    def plain(self) -> dict[str, Any]:
        """The normalisation as plain values, for files."""
        return {"kind": PER_FEATURE, "shift": list(self.shift), "scale": list(self.scale)}


Normalisation = PerQuery | PerFeature


def normalisation_of(plain: Any, features: int) -> Normalisation:
    """The normalisation that `plain` wrote. Raises a Mistake for other values, or for another
    number of features."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if kind == PER_QUERY and len(plain) == 1:
        return PerQuery()
    if kind == PER_FEATURE and set(plain) == {"kind", "shift", "scale"}:
        made = PerFeature(plain["shift"], plain["scale"])
        check_width(made, features)
        return made
    known = f"{PER_QUERY!r} and {PER_FEATURE!r}"
    raise Mistake(f"{shown(plain)} is no known normalisation: this foltr knows {known}")


def check_width(normalisation: Normalisation, features: int) -> None:
    if isinstance(normalisation, PerFeature):
        has = f"the normalisation is of {len(normalisation.shift)} features"
        require(len(normalisation.shift) == features, f"{has}, and the ranker has {features}")


def names_hash(features: tuple[str, ...]) -> bytes:
    """The hash of the names of a model's features, in order."""
    return sha256(json.dumps(features, ensure_ascii=True).encode()).digest()


def numbered(width: int) -> tuple[str, ...]:
    """Names for features without names: their numbers, from 1."""
    return tuple(map(str, range(1, width + 1)))
