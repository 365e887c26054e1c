"""FOLtR-ES: evolution strategies whose message is a seed and one or two numbers (Kharitonov, WSDM
2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from foltr.components.learners._published_draws import MersenneTwister
from foltr.core import Array, Ranker, Tell, User, require
from foltr.errors import Mistake
from foltr.metrics import discounts
from foltr.ranking import best_first, scored
from foltr.seeds import Stream, key
from foltr.spec import learner

PERTURBATION = key(
    0, "perturbation"
)  # where seeds lie: device and server must agree, so no experiment's seed is in it


@learner
@dataclass(frozen=True)
class ES:
    """Rank by weights that are perturbed, tell how users liked it, and let the server follow what
    they liked.

    Each round a client draws a 32-bit seed, v = N(0, I) from it alone, ranks by w + sigma v in the
    first half of its sessions and by w - sigma v in the second, best document first, and sends
    (seed, f+, f-): the mean reward of each half, 12 bytes whatever the ranker. It means the
    direction v (f+ - f-) / (2 sigma). Without `antithetic` all sessions use w + sigma v, the
    message is (seed, f), and the direction v f / sigma. The server goes on by Adam(lr= 0.001), as
    published.

    The reward of a list of `k`, from its clicks: `maxrr`, the reciprocal rank of the first; `dcg`,
    sum of 1 / log2(rank + 1); `ctr`, the share of clicked documents; `first` and `last`, 1 - (rank
    - 1) / k of the first or last click. No click is 0. All take finitely many values, so that each
    can be told at random (RandomizedReward): k + 1 of them, but 2^k for `dcg`, unless `levels`
    rounds rewards to so many evenly spaced ones.

    `entropy='shared'` repeats published figures. The published client has two generators, one for
    v and one for queries and clicks, and starts both from the seed of the message: luck and
    perturbation go together, and a message tells the user's luck."""

    sigma: float = 0.01
    sessions: int = 4
    k: int = 10
    antithetic: bool = True
    objective: Literal["maxrr", "dcg", "ctr", "first", "last"] = "maxrr"
    levels: int | None = None
    entropy: Literal["independent", "shared"] = "independent"

    separate_searches = True  # no search of a round shapes the list or the reward of another one

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
    def rewards(self) -> int:
        return len(self.reward_values()[0])

    def personal(self, params: Array, memory: Array) -> Array:
        return params

    def remembered(self, ranker: Ranker, params: Array) -> Array:
        return np.empty(0, np.float32)

    def in_ball(self, radius: float) -> Self:
        raise Mistake(
            "ES sends a seed and rewards, not weights that could be kept in a ball: use"
            " RandomizedReward"
        )

    def luck(self, users: Stream, own: Stream) -> Stream:
        return MersenneTwister(seed_of(own)) if self.entropy == "shared" else users  # type: ignore[return-value]

    def learn(
        self,
        ranker: Ranker,
        params: Array,
        memory: Array,
        user: User,
        rng: Stream,
        t: int,
        tell: Tell,
    ) -> tuple[Array, float, Array]:
        self.check_halves(user.sessions)
        seed, half = seed_of(rng), user.sessions // 2 if self.antithetic else user.sessions
        step = np.float32(self.sigma) * self.perturbations(np.array([seed]), len(params))[0]
        values, coded = self.reward_values()
        sums = np.zeros(2)
        for s in range(user.sessions):
            draws, perturbed = rng.at(s), params + step if s < half else params - step

            def show(docs: Array, draws: Stream = draws, perturbed: Array = perturbed) -> Array:
                return best_first(scored(ranker, perturbed, docs), min(self.k, len(docs)), draws)

            _, _, clicks = user.session(show)
            sums[int(s >= half)] += values[tell(int(coded[self.code(clicks)]), len(values), s)]
        return message(seed, sums[: 1 + self.antithetic] / half), float(user.sessions), memory

    def code(self, clicks: Array) -> int:
        """What the objective looks at: how many clicks, which of them, or the rank of one (0
        without any)."""
        ranks = np.flatnonzero(clicks) + 1
        if self.objective == "ctr":
            return len(ranks)
        if self.objective == "dcg":
            return int((1 << (ranks - 1)).sum())
        return int(ranks[-1 if self.objective == "last" else 0]) if len(ranks) else 0

    def reward_values(self) -> tuple[Array, Array]:
        """The values that a reward can take (V,), ascending or as coded, and which of them each
        code has."""
        if self.objective == "dcg":
            clicked = np.arange(2**self.k)[:, None] >> np.arange(self.k) & 1  # (2^k, k)
            worth = clicked @ discounts(self.k)
        else:
            rank = np.arange(1, self.k + 1)
            each = {"maxrr": 1.0 / rank, "ctr": rank / self.k}.get(
                self.objective, 1.0 - (rank - 1) / self.k
            )
            worth = np.append(0.0, each)
        if self.levels is None:
            return worth, np.arange(len(worth))
        return np.linspace(0.0, worth.max(), self.levels), np.rint(
            worth / worth.max() * (self.levels - 1)
        ).astype(int)

    def decode(self, payloads: Array, params: Array) -> Array:
        seeds, means = read_messages(payloads)
        return self.directions(self.perturbations(seeds, len(params)), means)

    def perturbations(self, seeds: Array, d: int) -> Array:
        """v of each seed."""  # (n,) -> (n, d) float32
        return np.stack([self._perturbation(int(seed), d) for seed in seeds])

    def _perturbation(self, seed: int, d: int) -> Array:
        if self.entropy == "shared":
            twister = MersenneTwister(seed)
            return np.array([twister.normal() for _ in range(d)], np.float32)
        return Stream(PERTURBATION).at(seed).gaussians(d).astype(np.float32)

    def directions(self, perturbations: Array, means: Array) -> Array:
        """v (f+ - f-) / (2 sigma), or v f / sigma, in float32."""  # (n, d), (n, 1 or 2) -> (n, d)
        gain = means[:, 0] - means[:, 1] if self.antithetic else means[:, 0]
        scale = gain / np.float32((1 + self.antithetic) * self.sigma)
        return perturbations * scale[:, None]


def seed_of(rng: Stream) -> int:
    """The 32-bit seed of a client's round: the upper half of a word below its stream (where
    sessions are 0, 1, ...)."""
    return int(rng.at(-1).words(1)[0] >> np.uint64(32))


def message(seed: int, means: Array) -> Array:
    """Four bytes each: the seed as a whole number, the means as the bits of float32."""
    # (p,) uint32
    require(0 <= seed < 2**32, f"a seed must be in 0 .. 2^32 - 1, got {seed}")
    return np.append(np.array([seed], np.uint32), np.asarray(means, np.float32).view(np.uint32))


def read_messages(payloads: Array) -> tuple[Array, Array]:
    """Seeds (n,) uint32 and means (n, 1 or 2) float32; refuses what no client can have sent."""
    fits = payloads.dtype == np.uint32 and payloads.ndim == 2 and payloads.shape[1] in (2, 3)
    require(fits, f"not messages of ES: {payloads.dtype} of shape {payloads.shape}")
    means = np.ascontiguousarray(payloads[:, 1:]).view(np.float32)
    require(bool(np.isfinite(means).all()), "a message of ES holds a reward that is not finite")
    return payloads[:, 0], means
