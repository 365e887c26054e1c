"""Which compiled twin stands for which components. Components know nothing of kernels; anything
not here runs plainly.

A twin is found by the exact class, so that a user's own PDGD or MLP is never mistaken for ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from foltr.components.learners.es import ES, PERTURBATION
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
from foltr.kernels.es import COUNT, FIRST, LAST, WHICH, learn_es
from foltr.kernels.evaluation import score_linear, score_mlp
from foltr.kernels.hidden_layer import RELU, SIGMOID, TANH
from foltr.kernels.noise import add_polya_shares, clip_and_add_laplace, clip_and_add_normals
from foltr.kernels.pdgd_linear import learn_linear
from foltr.kernels.pdgd_mlp import learn_mlp
from foltr.noise import jumps
from foltr.privacy.clipping import SLACK

ACTIVATIONS = {"sigmoid": SIGMOID, "relu": RELU, "tanh": TANH}
LOOKS_AT = {"maxrr": FIRST, "first": FIRST, "last": LAST, "ctr": COUNT, "dcg": WHICH}


class Twin(NamedTuple):
    kernel: Callable[..., int]
    settings: tuple[Any, ...]  # its arguments after the tables
    depth: int  # documents shown
    message: int = 0  # words of a message; 0 for as many as there are parameters, float32


def learn_twin(
    learner: Learner, ranker: Ranker, features: int, privacy: Privatizer | None, sessions: Array
) -> Twin | None:
    """The kernel of a round, or None. `sessions` (clients,): what a kernel would not look at is
    looked at here."""
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
        settings = (
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
        if type(ranker) is Linear:
            return Twin(learn_linear, (settings,), learner.k)
        return Twin(learn_mlp, (settings, network), learner.k)
    if type(learner) is ES and (privacy is None or type(privacy) is RandomizedReward):
        for count in np.unique(sessions).tolist():
            learner.check_halves(count)
        p = 1.0 if privacy is None else privacy.p
        looks_at, shared = LOOKS_AT[learner.objective], learner.entropy == "shared"
        rewards = tuple(frozen(part) for part in learner.reward_values())
        how = (
            learner.sigma,
            learner.k,
            learner.antithetic,
            shared,
            looks_at,
            p,
            np.uint64(PERTURBATION),
        )
        return Twin(learn_es, (how, rewards, network), learner.k, 2 + learner.antithetic)
    return None


def noise_twin(privacy: Privatizer, n: int) -> tuple[Callable[..., None], tuple[Any, ...]] | None:
    """(settings, n, key, clients, t, updates) -> what clients send, in place; its settings."""
    if type(privacy) is GammaShares:
        length, chances = jumps(n, privacy.scale / privacy.step)
        return add_polya_shares, (privacy.step, MOST, length, frozen(chances))
    if type(privacy) is Laplace:
        return clip_and_add_laplace, (privacy.clip * (1.0 - SLACK), privacy.scale, privacy.step)
    if type(privacy) is Gaussian:
        sd, step = (
            (0.0, 1.0) if privacy.where == "server" else (privacy.sent_sd(n), privacy.step(n))
        )
        return clip_and_add_normals, (
            privacy.clip * (1.0 - SLACK),
            sd,
            step,
            privacy.where == "shares",
        )
    return None


def score_kernel(
    ranker: Ranker, features: int
) -> Callable[[Array, int, int, Array, Array], None] | None:
    """(storage, first, last, params, scores) -> fills scores[first:last], or None."""
    if type(ranker) is Linear:
        return score_linear
    if type(ranker) is MLP:
        network = (ranker.hidden, features, ACTIVATIONS[ranker.activation])
        return lambda X, first, last, params, scores: score_mlp(
            X, first, last, network, params, scores
        )
    return None
