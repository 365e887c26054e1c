"""FOLtR-ES: online learning to rank with evolution strategies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, Self

import numpy as np

from foltr.components.learners._published_draws import PublishedDraws
from foltr.core import Array, Optimizer
from foltr.core.errors import require
from foltr.core.kinds import LearnerDefaults
from foltr.core.metrics import discounts
from foltr.core.ranking import best_first, scored
from foltr.core.seeds import Stream, below, key
from foltr.core.spec import learner
from foltr.core.stepwise import Start, Stepwise

# the key below which seeds are drawn; the same on device and server in all experiments
PERTURBATION = key(0, "perturbation")
PIECE = 1 << 18  # numbers drawn at a time


class Tried(NamedTuple):
    """The state of a client within a round."""

    seed: int
    step: Array  # (d,) sigma v
    sums: Array  # (2,) of rewards, for w + sigma v and for w - sigma v
    made: int  # searches so far


@learner
@dataclass(frozen=True)
class ES(Stepwise, LearnerDefaults):
    """Perturb the ranker by a random vector, and send the vector's seed and the mean rewards.

    Each round a client draws a 32-bit seed, and from it alone a vector v ~ N(0, I). It ranks best
    document first: with w + sigma v in the first half of its sessions, with w - sigma v in the
    second half. It sends (seed, f+, f-), where f+ and f- are the mean rewards of the two halves:
    12 bytes for any ranker. The server recomputes v from the seed; the direction of the message is
        v (f+ - f-) / (2 sigma)     or, with antithetic=False, v f / sigma
    where then all sessions use w + sigma v and the message is (seed, f), 8 bytes. The published
    server uses Adam(lr=0.001) on the mean direction.

    Rewards of a list, from its clicks (0 without a click): 'maxrr', the reciprocal rank of the
    first click; 'dcg', the sum of 1 / log2(rank + 1) over clicks; 'ctr', clicks / k; 'first' and
    'last', 1 - (rank - 1) / k of the first or last click. They take finitely many values, which
    RandomizedReward needs: k + 1, or 2^k for 'dcg', or `levels`.

    Fields
        sigma: standard deviation of the perturbation (> 0)
        sessions: searches per client and round (1 .. 10^9; even, if antithetic)
        k: documents shown per search (1 .. 100; at most 16 for 'dcg')
        antithetic: whether the second half of the sessions uses the negated perturbation
        objective: the reward: 'maxrr', 'dcg', 'ctr', 'first' or 'last'
        levels: round rewards to this many evenly spaced values (2 .. 10^6), or None for no
            rounding
        entropy: 'independent' draws queries and clicks independently of v. 'shared' is for
            reproducing published figures only: the published client draws v from one Mersenne
            Twister, and queries and clicks from a second one with the same seed. The two are then
            dependent, and the seed in a message reveals the user's random draws

    Reference: Kharitonov, WSDM 2019; reproduced by Wang, Zhuang & Zuccon, ECIR 2021."""

    sigma: float = 0.01
    sessions: int = 4
    k: int = 10
    antithetic: bool = True
    objective: Literal["maxrr", "dcg", "ctr", "first", "last"] = "maxrr"
    levels: int | None = None
    entropy: Literal["independent", "shared"] = "independent"

    separate_searches = True  # no search of a round changes the list or the reward of another

    def __post_init__(self) -> None:
        require(self.sigma > 0.0, f"sigma must be > 0, got {self.sigma}")
        require(1 <= self.sessions <= 10**9, f"sessions must be in 1 .. 10^9, got {self.sessions}")
        require(1 <= self.k <= 100, f"k must be in 1 .. 100, got {self.k}")
        many = f"2^{self.k} rewards are too many to list: give k <= 16"
        require(self.objective != "dcg" or self.k <= 16, many)
        require(
            self.levels is None or 2 <= self.levels <= 10**6,
            f"levels must be in 2 .. 10^6, got {self.levels}",
        )
        self.check_halves(self.sessions)

    def check_halves(self, sessions: int) -> None:
        odd = (
            f"antithetic halves need an even number of sessions, got {sessions}: or give"
            " antithetic=False"
        )
        require(not self.antithetic or sessions % 2 == 0, odd)

    @property
    def reward_levels(self) -> int:
        return len(self.reward_values()[0])

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self:
        none = "ES sends a seed and rewards, not weights that could be kept in a ball"
        require(ball is None, f"{none}: use RandomizedReward")
        return replace(self, sessions=1, antithetic=False) if single_search else self

    def user_draws(self, users: Stream, own: Stream) -> Stream:
        return PublishedDraws(seed_of(own)) if self.entropy == "shared" else users

    def fits(self, optimizer: Optimizer) -> tuple[str, ...]:
        if optimizer.step_size is None:
            return ()
        adam = f"ES is published with Adam(lr=0.001) on the server, this is {optimizer}"
        return (f"{adam}: add --optimizer 'Adam(lr=0.001)'",)

    def begin(self, start: Start) -> Tried:
        self.check_halves(start.sessions)
        seed = seed_of(start.rng)
        v = self.perturbations(np.array([seed]), len(start.params))[0]
        return Tried(seed, np.float32(self.sigma) * v, np.zeros(2), 0)

    def half(self, start: Start) -> int:
        """The number of searches with w + sigma v."""
        return start.sessions // 2 if self.antithetic else start.sessions

    def current(self, start: Start, sofar: Tried) -> Array:
        first = sofar.made < self.half(start)
        return start.params + sofar.step if first else start.params - sofar.step

    def show(self, start: Start, sofar: Tried, docs: Array) -> Array:
        scores = scored(start.ranker, self.current(start, sofar), docs)
        return best_first(scores, min(self.k, len(docs)), start.rng.at(sofar.made))

    def step(
        self, start: Start, sofar: Tried, docs: Array, ranking: Array, clicks: Array
    ) -> Tried:
        (values, coded), s = self.reward_values(), sofar.made
        which = start.send_reward(int(coded[self.code(clicks)]), len(values), s)
        sums = sofar.sums.copy()
        sums[int(s >= self.half(start))] += values[which]
        return sofar._replace(sums=sums, made=s + 1)

    def finish(self, start: Start, sofar: Tried) -> tuple[Array, float, Array]:
        few = f"{type(self).__name__} compares all {start.sessions} searches of a round"
        require(sofar.made == start.sessions, f"{few}, and {sofar.made} were made")
        means = sofar.sums[: 1 + self.antithetic] / self.half(start)
        return message(sofar.seed, means), float(sofar.made), start.memory

    def code(self, clicks: Array) -> int:
        """What the reward depends on, as one integer: the number of clicks ('ctr'), the set of
        clicked ranks as bits ('dcg'), or the rank of the first or last click (0 without a
        click)."""
        ranks = np.flatnonzero(clicks) + 1
        if self.objective == "ctr":
            return len(ranks)
        if self.objective == "dcg":
            return int((1 << (ranks - 1)).sum())
        return int(ranks[-1 if self.objective == "last" else 0]) if len(ranks) else 0

    def reward_values(self) -> tuple[Array, Array]:
        """The possible values of a reward (V,), and the index of the value for each code."""
        return reward_values(self.objective, self.k, self.levels)

    def decode(self, payloads: Array, params: Array) -> Array:
        seeds, means = read_messages(payloads)
        return self.directions(self.perturbations(seeds, len(params)), means)

    def check_message(self, payload: Array, weight: float, params: Array) -> None:
        long = f"a message of {self} has {2 + self.antithetic} words, got {payload.shape}"
        require(payload.shape == (2 + self.antithetic,), long)
        _, means = read_messages(payload[None])
        most = np.float32(self.reward_values()[0].max())
        inside = bool((means >= 0.0).all() and (means <= most).all())
        require(inside, f"mean rewards are in 0 .. {most:g}, got {means[0].tolist()}")
        if float(weight).is_integer():  # else the weight is refused by itself
            self.check_halves(int(weight))

    def perturbations(self, seeds: Array, d: int) -> Array:
        """The perturbation v of each seed."""  # (n,) -> (n, d) float32
        if self.entropy == "shared":
            drawn = [PublishedDraws(seed).gaussians(d) for seed in seeds.tolist()]
            return np.stack(drawn).astype(np.float32)
        keys = [below(PERTURBATION, seed) for seed in seeds.tolist()]
        found, rows = np.empty((len(keys), d), np.float32), max(1, PIECE // max(1, d))
        for first in range(0, len(keys), rows):
            some = np.array(keys[first : first + rows], np.uint64)[:, None]  # a stream in each row
            found[first : first + rows] = Stream(some).gaussians(d)  # type: ignore[arg-type]
        return found

    def directions(self, perturbations: Array, means: Array) -> Array:
        """v (f+ - f-) / (2 sigma), or v f / sigma, in float32."""  # (n, d), (n, 1 or 2) -> (n, d)
        gain = means[:, 0] - means[:, 1] if self.antithetic else means[:, 0]
        scale = gain / np.float32((1 + self.antithetic) * self.sigma)
        return perturbations * scale[:, None]


@lru_cache(maxsize=16)
def reward_values(objective: str, k: int, levels: int | None) -> tuple[Array, Array]:
    """As `ES.reward_values`, which is asked for every message that arrives; read-only."""
    if objective == "dcg":
        clicked = np.arange(2**k)[:, None] >> np.arange(k) & 1  # (2^k, k)
        worth = clicked @ discounts(k)
    else:
        rank = np.arange(1, k + 1)
        each = {"maxrr": 1.0 / rank, "ctr": rank / k}.get(objective, 1.0 - (rank - 1) / k)
        worth = np.append(0.0, each)
    values, coded = worth, np.arange(len(worth))
    if levels is not None:
        values = np.linspace(0.0, worth.max(), levels)
        coded = np.rint(worth / worth.max() * (levels - 1)).astype(int)
    values.setflags(write=False)
    coded.setflags(write=False)
    return values, coded


def seed_of(rng: Stream) -> int:
    """The 32-bit seed of a client's round: the upper half of a word at address -1 of its stream
    (sessions use addresses 0, 1, ...)."""
    return int(rng.at(-1).words(1)[0] >> np.uint64(32))


def message(seed: int, means: Array) -> Array:
    """A message of 4-byte words: the seed as an integer, the means as the bits of float32
    numbers."""
    # (p,) uint32
    require(0 <= seed < 2**32, f"a seed must be in 0 .. 2^32 - 1, got {seed}")
    return np.append(np.array([seed], np.uint32), np.asarray(means, np.float32).view(np.uint32))


def read_messages(payloads: Array) -> tuple[Array, Array]:
    """Seeds (n,) uint32 and means (n, 1 or 2) float32; raises for messages that no client can
    send."""
    fits = payloads.dtype == np.uint32 and payloads.ndim == 2 and payloads.shape[1] in (2, 3)
    require(fits, f"not messages of ES: {payloads.dtype} of shape {payloads.shape}")
    means = np.ascontiguousarray(payloads[:, 1:]).view(np.float32)
    require(bool(np.isfinite(means).all()), "a message of ES holds a reward that is not finite")
    return payloads[:, 0], means
