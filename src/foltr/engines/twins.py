"""Which compiled twin stands for which components. Components know nothing of kernels; anything
not here runs plainly.

A twin is found by the exact class, so that a user's own PDGD or MLP is never mistaken for ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from foltr.components.learners.es import ES
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.privatizers.gamma_shares import MOST, GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core import Array, Learner, Privatizer, Ranker
from foltr.kernels import frozen
from foltr.kernels.calls import address_of
from foltr.kernels.evaluation import head_into, hidden_into, score_linear, score_mlp
from foltr.kernels.hidden_layer import RELU, SIGMOID, TANH
from foltr.kernels.pdgd_linear import learn_linear
from foltr.kernels.pdgd_mlp import learn_mlp
from foltr.noise import jumps
from foltr.privacy.clipping import SLACK

ACTIVATIONS = {"sigmoid": SIGMOID, "relu": RELU, "tanh": TANH}


class Twin(NamedTuple):
    kernel: Callable[..., int]
    settings: Array  # its fields as numbers
    rewards: tuple[Array, Array]  # values and lookup of ES
    network: tuple[int, int, int]  # hidden units (0 for a linear ranker), features, activation
    depth: int  # documents shown
    message: int = 0  # words of a message; 0 for as many as there are parameters, float32


NO_REWARDS = frozen(np.empty(0)), frozen(np.empty(0, np.int64))


def learn_twin(
    learner: Learner, ranker: Ranker, features: int, privacy: Privatizer | None, sessions: Array
) -> Twin | None:
    """The kernel of a round, or None. `sessions` (clients,): what a kernel would not check is
    checked here."""
    if type(ranker) is not Linear and type(ranker) is not MLP:
        return None
    network = (
        (ranker.hidden, features, ACTIVATIONS[ranker.activation])
        if type(ranker) is MLP
        else (0, features, RELU)
    )
    send, keep = 1.0, 1.0
    if type(learner) is FedPer or type(learner) is Personal:
        send, keep, learner = learner.send, learner.keep, learner.learner
    if type(learner) is PDGD:
        settings = numbers(
            learner.lr,
            learner.decay,
            learner.k,
            learner.pairs == "shown",
            learner.explore,
            np.inf if learner.max_norm is None else learner.max_norm,
            learner.mu,
            learner.update == "session",
            send,
            keep,
        )
        kernel = learn_linear if type(ranker) is Linear else learn_mlp
        return Twin(kernel, settings, NO_REWARDS, network, learner.k)
    if type(learner) is ES and (privacy is None or type(privacy) is RandomizedReward):
        return _es_twin(learner, network, 1.0 if privacy is None else privacy.p, sessions)
    return None


def _es_twin(learner: ES, network: tuple[int, int, int], p: float, sessions: Array) -> Twin:
    from foltr.kernels.es import COUNT, FIRST, LAST, WHICH, learn_es  # many kernels

    for count in np.unique(sessions).tolist():
        learner.check_halves(count)
    by = {"maxrr": FIRST, "first": FIRST, "last": LAST, "ctr": COUNT, "dcg": WHICH}
    looks_at, shared = by[learner.objective], learner.entropy == "shared"
    values, lookup = learner.reward_values()
    settings = numbers(learner.sigma, p, learner.k, looks_at, learner.antithetic, shared)
    rewards = frozen(values.astype(np.float64)), frozen(lookup.astype(np.int64))
    return Twin(learn_es, settings, rewards, network, learner.k, 2 + learner.antithetic)


def numbers(*values: float) -> Array:
    """Settings of a kernel: all of them as float64, so that kernels of one kind have the same
    types."""
    return frozen(np.array(values, np.float64))


class NoiseTwin(NamedTuple):
    """A kernel that adds noise: kernel(settings, chances, key, clients, t, updates) changes the
    updates in place."""

    kernel: Callable[..., int]
    settings: Array
    chances: Array


NO_CHANCES = frozen(np.empty(0))


def noise_twin(privacy: Privatizer, n: int) -> NoiseTwin | None:
    """What adds the noise of a round of n clients to their updates, or None."""
    from foltr.kernels.noise import add_polya_shares, clip_and_add_laplace, clip_and_add_normals

    if type(privacy) is GammaShares:
        length, chances = jumps(n, privacy.scale / privacy.step)
        return NoiseTwin(add_polya_shares, numbers(privacy.step, MOST, length), frozen(chances))
    most = 1.0 - SLACK
    if type(privacy) is Laplace:
        settings = numbers(privacy.clip * most, privacy.scale, privacy.step)
        return NoiseTwin(clip_and_add_laplace, settings, NO_CHANCES)
    if type(privacy) is Gaussian:
        sd, step = (
            (0.0, 1.0) if privacy.where == "server" else (privacy.sent_sd(n), privacy.step(n))
        )
        settings = numbers(privacy.clip * most, sd, step, privacy.where == "shares")
        return NoiseTwin(clip_and_add_normals, settings, NO_CHANCES)
    return None


class ScoreTwin(NamedTuple):
    """A kernel that scores documents: kernel(parts, storage, first, last, network, params, scores)
    fills scores[first:last]."""

    kernel: Callable[..., int]
    parts: Array  # addresses of the kernels that it calls: `hidden_into` and `head_into`
    network: tuple[int, int, int]

    def __call__(
        self, storage: Array, first: int, last: int, params: Array, scores: Array
    ) -> None:
        self.kernel(self.parts, storage, first, last, self.network, params, scores)

    @property
    def address(self) -> int:
        params = frozen(np.empty(1, np.float32))
        some = frozen(np.empty((1, 1), np.float32)), 0, 0, self.network, params
        return address_of(self.kernel, self.parts, *some, np.empty(1, np.float32))


def score_twin(ranker: Ranker, features: int) -> ScoreTwin | None:
    """The kernel that scores documents by a ranker, or None."""
    if type(ranker) is Linear:
        return ScoreTwin(score_linear, frozen(np.empty(0, np.int64)), (0, features, RELU))
    if type(ranker) is MLP:
        network = ranker.hidden, features, ACTIVATIONS[ranker.activation]
        rows, params = frozen(np.empty((1, 1), np.float32)), frozen(np.empty(1, np.float32))
        layer, scores = np.empty((1, 1), np.float32), np.empty(1, np.float32)
        hidden = address_of(hidden_into, rows, 0, 0, network, params, layer, 0)
        head = address_of(head_into, layer, 0, 0, params, scores, 0)
        return ScoreTwin(score_mlp, frozen(np.array([hidden, head])), network)
    return None
