"""A ranker in PyTorch: the one of docs/howto/ranker.md. Needs torch (pip install torch)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.seeds import Stream
from foltr.core.spec import ranker

torch.set_num_threads(1)  # lists are short, and a sweep starts a process for each core


@cache
def network(features: int, hidden: tuple[int, ...]) -> nn.Module:
    """Documents (m, features) -> scores (m, 1). Put your own network here."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(features, width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, 1, bias=False))


@ranker
@dataclass(frozen=True)
class TorchRanker:
    """Score documents by a network of several hidden layers, in PyTorch.

        score = v . relu(W_2 relu(W_1 x + b_1) + b_2)     with two hidden layers

    The parameters are those of `network`, in the order of its `named_parameters`. Weights start
    from N(0, sd = 1 / sqrt(inputs)), biases from zero.

    Fields
        hidden: units of each hidden layer, from the first one on (at least one layer)"""

    hidden: tuple[int, ...] = (32, 16)

    def __post_init__(self) -> None:
        fits = len(self.hidden) > 0 and all(1 <= width <= 10**4 for width in self.hidden)
        require(fits, f"hidden needs widths in 1 .. 10^4, such as (32, 16), got {self.hidden}")

    @property
    def head(self) -> int:
        return self.hidden[-1]

    def init(self, features: int, rng: Stream) -> Array:
        parts = []
        for i, weight in enumerate(network(features, self.hidden).parameters()):
            sd = weight.shape[1] ** -0.5 if weight.ndim == 2 else 0.0
            parts.append(sd * rng.at(i).normals(weight.numel()))
        return np.concatenate(parts).astype(np.float32)

    def scores(self, params: Array, docs: Array) -> Array:
        with torch.no_grad():
            return self._scores(torch.tensor(params), docs).numpy()

    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        flat = torch.tensor(params, requires_grad=True)
        (gradient,) = torch.autograd.grad(self._scores(flat, docs), flat, torch.tensor(dscores))
        return gradient.numpy()

    def _scores(self, flat: Tensor, docs: Array) -> Tensor:
        model = network(docs.shape[1], self.hidden)
        named = dict(model.named_parameters())
        parts = flat.split([weight.numel() for weight in named.values()])
        given = {
            name: part.view_as(weight)
            for (name, weight), part in zip(named.items(), parts, strict=True)
        }
        return functional_call(model, given, torch.tensor(docs)).squeeze(1)
