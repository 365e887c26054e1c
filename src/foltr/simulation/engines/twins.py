"""Which compiled kernel stands for which function or component. These know nothing of kernels, and
what is not here runs plainly.

KERNELS has those of functions. A component's is found by the exact class, so that a user's own
PDGD or MLP is never mistaken for ours. Components and kernels are imported when one is asked for,
if most runs need none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foltr.components.aggregators import gated
from foltr.components.aggregators.mean import Mean
from foltr.components.attacks import fang
from foltr.components.learners.es import ES
from foltr.components.learners.fed_per import FedPer
from foltr.components.learners.pdgd import PDGD
from foltr.components.learners.personal import Personal
from foltr.components.optimizers.adam import Adam
from foltr.components.optimizers.sgd import SGD
from foltr.components.privatizers.gamma_shares import MOST, GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.privatizers.laplace import Laplace
from foltr.components.privatizers.randomized_reward import RandomizedReward
from foltr.components.rankers.linear import Linear
from foltr.components.rankers.mlp import MLP
from foltr.core import Aggregator, Array, Learner, Optimizer, Privatizer, Ranker, cohorts
from foltr.core.noise import SLACK, jumps
from foltr.core.seeds import Stream
from foltr.core.world.protocols import Attack
from foltr.kernels import cohorts as kernels
from foltr.kernels import frozen, rounds, rules
from foltr.kernels.calls import address_of
from foltr.kernels.evaluation import head_into, hidden_into, score_linear, score_mlp
from foltr.kernels.hidden_layer import RELU, SIGMOID, TANH
from foltr.kernels.pdgd_linear import learn_linear
from foltr.kernels.pdgd_mlp import learn_mlp

if TYPE_CHECKING:
    from foltr.components.attacks.disguised import Disguised

MAX_ITERATIONS = 1000  # for the principal direction
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


# Kernels of rules, attacks and optimizers in a stretch of rounds.


class PartTwin(NamedTuple):
    """A kernel, the addresses of the kernels that it calls, and its numbers."""

    kernel: Callable[..., int]
    calls: tuple[int, ...]
    numbers: tuple[float, ...]

    @property
    def given(self) -> tuple[Array, Array]:
        """The kernel's first two arguments."""
        return frozen(np.array(self.calls, np.int64)), numbers(*self.numbers)


def rule_twin(rule: Aggregator) -> PartTwin | None:
    if type(rule) is Mean:
        return PartTwin(rules.mean, (), ())
    from foltr.components.aggregators.krum import Krum, MultiKrum
    from foltr.components.aggregators.median import Median
    from foltr.components.aggregators.trimmed_mean import TrimmedMean

    if type(rule) is Krum or type(rule) is MultiKrum:
        kernel = rules.krum if type(rule) is Krum else rules.multi_krum
        rows, scores = frozen(np.empty((1, 1), np.float32)), np.empty(1)
        calls = (address_of(kernels.krum_scores_of, rows, 0, False, scores),)
        return PartTwin(kernel, calls, (rule.malicious, rule.squared))
    if type(rule) is TrimmedMean:
        return PartTwin(rules.trimmed_mean, (), (rule.malicious,))
    if type(rule) is Median:
        return PartTwin(rules.median, (), ())
    if type(rule) is gated.Gated and type(rule.fallback) is not gated.Gated:
        return _gated(rule)
    return None


def _gated(rule: gated.Gated) -> PartTwin | None:
    fallback = rule_twin(rule.fallback)
    if fallback is None:
        return None
    flags, some, rows = np.empty(1, bool), np.empty(1), np.empty((1, 1), np.float32)
    memory = np.empty(1, np.int64), np.empty((1, 1)), np.empty((1, 4)), some
    bounds = (1.0, 1.0, 1.0, 1.0)
    look = address_of(rules.look, frozen(rows), flags, bounds, *memory[1:], flags)
    cohort = np.empty(1, np.int64), rows.copy(), some, memory, some
    other = address_of(fallback.kernel, *fallback.given, *cohort)
    own = 1.0 - 1.0 / rule.horizon, rule.limit, rule.uneven, rule.longest, 1.0 - gated.FEW
    return PartTwin(rules.gated, (look, other, *fallback.calls), (*own, *fallback.numbers))


def optimizer_twin(optimizer: Optimizer) -> tuple[int, Array] | None:
    """Which steps `kernels.rounds` makes, and their settings."""
    if type(optimizer) is SGD:
        return rounds.PLAIN, numbers(optimizer.lr)
    if type(optimizer) is Adam:
        return rounds.MOMENTS, numbers(optimizer.lr, optimizer.b1, optimizer.b2, optimizer.eps)
    return None


def attack_twin(attack: Attack, n: int) -> PartTwin | None:
    """What malicious clients among n send."""
    from foltr.components.attacks.compromised_model import CompromisedModel
    from foltr.components.attacks.disguised import Disguised
    from foltr.components.attacks.fang import SPREADS, FangKrum, FangMultiKrum, FangTrimmed
    from foltr.components.attacks.inner_product import InnerProduct
    from foltr.components.attacks.little_is_enough import LittleIsEnough
    from foltr.components.attacks.mimic import Mimic
    from foltr.components.attacks.min_max import MinSum
    from foltr.kernels import crafting

    directions = {"std": crafting.STD, "unit": crafting.UNIT, "sign": crafting.SIGN}
    if type(attack) is LittleIsEnough:
        found = (attack.coefficient(n, m) for m in range(n + 1))
        shifts = [np.nan if z is None else z for z in found]
        return PartTwin(crafting.little_is_enough, (), (knows(attack.knowledge), *shifts))
    if type(attack) is InnerProduct:
        return PartTwin(crafting.inner_product, (), (knows(attack.knowledge), attack.scale))
    if type(attack) is FangKrum or type(attack) is FangMultiKrum:
        rows, some = frozen(np.empty((1, 1), np.float32)), np.empty(1)
        search = address_of(crafting.picked, rows, some, 1, 1, 1, 1, False, 1.0, 1.0, some)
        own = knows(attack.knowledge), attack.multi, attack.squared, attack.start, fang.LEAST
        return PartTwin(crafting.against_krum, (search,), own)
    if type(attack) is FangTrimmed:
        return PartTwin(crafting.fang_trimmed, (), (knows(attack.knowledge), attack.b, *SPREADS))
    if type(attack) is MinSum:
        along = directions[attack.direction]
        return PartTwin(crafting.min_sum, (), (knows(attack.knowledge), along))
    if type(attack) is Mimic and attack.target == "fixed":
        return PartTwin(crafting.mimic_fixed, (), ())
    if type(attack) is CompromisedModel:
        return PartTwin(crafting.compromised_model, (), (attack.z,))
    if type(attack) is Disguised and type(attack.attack) is not Disguised:
        return _disguised(attack, n)
    return None


def _disguised(attack: Disguised, n: int) -> PartTwin | None:
    from foltr.kernels import crafting

    inner = attack_twin(attack.attack, n)
    if inner is None:
        return None
    clients, flags, params = np.empty(1, np.int64), np.empty(1, bool), np.empty(1, np.float32)
    rest = np.uint64(0), clients, flags, params, np.empty((1, 1), np.float32)
    address = address_of(inner.kernel, *inner.given, *rest)
    return PartTwin(crafting.disguised, (address, *inner.calls), (attack.share, *inner.numbers))


def knows(knowledge: str) -> int:
    from foltr.kernels import crafting

    return crafting.OWN if knowledge == "own" else crafting.ALL


# Kernels of functions: the arithmetic that rules and attacks share.


def rows(updates: Array) -> Array:
    """Updates as kernels read them: contiguous, float32 or float64, read-only (one compiled
    version)."""
    numbers = updates if updates.dtype.char in "fd" else updates.astype(np.float64)
    return frozen(np.ascontiguousarray(numbers))


def distances(updates: Array) -> Array:
    apart = np.empty((len(updates), len(updates)))
    kernels.distances(rows(updates), False, apart)
    return apart


def krum_scores_of(updates: Array, nearest: int, squared: bool = False) -> Array:
    cohorts.check_nearest(nearest, len(updates))
    scores = np.empty(len(updates))
    kernels.krum_scores_of(rows(updates), nearest, squared, scores)
    return scores


def bulyan_rows(updates: Array, malicious: int, count: int) -> Array:
    apart, chosen = np.empty((len(updates), len(updates))), np.empty(count, np.int64)
    kernels.distances(rows(updates), True, apart)
    kernels.bulyan_rows(apart, np.argsort(apart, axis=1), malicious, chosen)
    return chosen


def mean_around_median(updates: Array, count: int) -> Array:
    mean = np.empty(updates.shape[1])
    kernels.mean_around_median(rows(cohorts.sorted_columns(updates)), count, mean)
    return mean


def weiszfeld(updates: Array, weights: Array, smoothing: float, iterations: int) -> Array:
    z = cohorts.weighted_median(updates, weights)
    kernels.weiszfeld(rows(updates), rows(weights), smoothing, iterations, z)
    return z


def outlier_scores(updates: Array, rng: Stream) -> Array:
    """By conjugate gradients from a random start: the bits of LAPACK may depend on the number of
    threads."""
    centred, scores = updates - updates.mean(axis=0, dtype=np.float64), np.empty(len(updates))
    start = rng.uniforms(updates.shape[1]) - 0.5
    kernels.outlier_scores(rows(centred), start, MAX_ITERATIONS, scores)
    return scores


def means_of_nearest(updates: Array, weights: Array, keep: int) -> Array:
    means = np.empty(updates.shape)
    kernels.means_of_nearest(rows(updates), rows(weights), keep, means)
    return means


def look(
    updates: Array, single: Array, bounds: gated.Bounds, sums: Array, tallies: Array, scale: Array
) -> Array:
    left_out = np.empty(len(updates), bool)
    rules.look(rows(updates), single, bounds, sums, tallies, scale, left_out)
    return left_out


def picked(
    updates: Array,
    signs: Array,
    fewest: int,
    most: int,
    nearest: int,
    kept: int,
    squared: bool,
    start: float | None,
) -> tuple[float, int]:
    from foltr.kernels import crafting

    scale, start = np.empty(1), -1.0 if start is None else start
    search = fewest, most, nearest, kept, squared, start, fang.LEAST
    copies: int = crafting.picked(rows(updates), signs, *search, scale)
    return float(scale[0]), copies


KERNELS: dict[Callable[..., Any], Callable[..., Any]] = {
    cohorts.weighted_mean: kernels.weighted_mean,
    cohorts.distances: distances,
    cohorts.krum_scores_of: krum_scores_of,
    cohorts.bulyan_rows: bulyan_rows,
    cohorts.mean_around_median: mean_around_median,
    cohorts.weiszfeld: weiszfeld,
    cohorts.outlier_scores: outlier_scores,
    cohorts.means_of_nearest: means_of_nearest,
    gated.look: look,
    fang.picked: picked,
}
