"""Rankers as dense layers: which are refused, and a network of three layers by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.scoring import Layer, forward, layers_of


def layer(weights, bias, activation="identity"):
    return Layer(np.array(weights, np.float32), np.array(bias, np.float32), activation)


@dataclass(frozen=True, eq=False)
class Network:
    """A user's own ranker, as far as exports look at it."""

    made: tuple = ()

    def layers(self, params):
        return self.made


def test_three_layers_by_hand():
    layers = (
        layer([[1, -1], [2, 0]], [0, -5], "relu"),
        layer([[1, 1]], [-3], "tanh"),
        layer([[10]], [1]),
    )
    # relu(3 - 1, 6 - 5) = (2, 1); tanh(0) = 0; relu(1 - 4, 2 - 5) = 0; tanh(-3)
    scores = forward(layers, np.array([[3.0, 1.0], [1.0, 4.0]], np.float32))
    np.testing.assert_allclose(scores, [1.0, 1.0 + 10.0 * np.tanh(-3.0)], rtol=1e-15)
    assert layers_of(Network(layers), np.zeros(0), 2) == layers


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((), "one number"),
        ((layer([[1, 2, 3]], [0]),), "must have weights (1, 2), got (1, 3)"),
        ((layer([[1, 2], [3, 4]], [0, 0]),), "it gives 2"),
        ((layer([[1, 2], [3, 4]], [0, 0]), layer([[1]], [0])), "layer 2"),
        ((layer([[1, 2]], [0], "softmax"),), "'softmax': known: identity, sigmoid, relu, tanh"),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers, said):
    with pytest.raises(Mistake) as refused:
        layers_of(Network(layers), np.zeros(0), 2)
    assert said in str(refused.value)


def test_a_ranker_without_layers_is_refused():
    with pytest.raises(Mistake, match=r"layers\(self, params\)"):
        layers_of(foltr.Cascade(), np.zeros(2), 2)  # any object without `layers`
