"""Which compiled twin stands for which components. Components know nothing of kernels; anything not here runs plainly.

A twin is found by the exact class, so that a user's own PDGD or MLP is never mistaken for ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from foltr.core import Array, Learner, Ranker
from foltr.kernels.evaluation import score_linear, score_mlp
from foltr.kernels.hidden_layer import RELU, SIGMOID, TANH
from foltr.kernels.pdgd_linear import learn_linear
from foltr.kernels.pdgd_mlp import learn_mlp
from foltr.learners.pdgd import PDGD
from foltr.rankers.linear import Linear
from foltr.rankers.mlp import MLP

ACTIVATIONS = {"sigmoid": SIGMOID, "relu": RELU, "tanh": TANH}


def learn_kernel(learner: Learner, ranker: Ranker, features: int) -> tuple[Callable[..., int], tuple[Any, ...]] | None:
    """The kernel of a round and its leading arguments after the tables, or None."""
    if type(learner) is not PDGD:
        return None
    settings = (
        learner.lr, learner.decay, learner.k, learner.pairs == "shown", learner.explore,
        np.inf if learner.max_norm is None else learner.max_norm, learner.mu, learner.update == "session",
    )  # fmt: skip
    if type(ranker) is Linear:
        return learn_linear, (settings,)
    if type(ranker) is MLP:
        return learn_mlp, (settings, (ranker.hidden, features, ACTIVATIONS[ranker.activation]))
    return None


def score_kernel(ranker: Ranker, features: int) -> Callable[[Array, int, int, Array, Array], None] | None:
    """(storage, first, last, params, scores) -> fills scores[first:last], or None."""
    if type(ranker) is Linear:
        return score_linear
    if type(ranker) is MLP:
        network = (ranker.hidden, features, ACTIVATIONS[ranker.activation])
        return lambda X, first, last, params, scores: score_mlp(X, first, last, network, params, scores)
    return None
