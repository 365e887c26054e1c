"""Pairwise Differentiable Gradient Descent (Oosterhuis & de Rijke, CIKM 2018; arXiv:1809.08415),
and with several clients FPDGD (Wang, Liu, Zhuang & Zuccon, ICTIR 2021; thesis 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from foltr.core import Array, Ranker, SendReward, User
from foltr.errors import require
from foltr.kinds import SendsUpdates
from foltr.ranking import best_first, plackett_luce, scored
from foltr.seeds import Stream
from foltr.spec import learner

# radius of the ball / length of the weights: float32 can hardly scale by less, so they become 0
FARTHEST_OUT = 1e-30


@learner
@dataclass(frozen=True)
class PDGD(SendsUpdates):
    """Show a list sampled by Plackett and Luce, step along `document_weights`, after each of
    `sessions` searches.

    `lr` is multiplied by `decay` after every session, counted as if the client took part in every
    round: session s of round t is number t x sessions + s. `update='round'` is FedSGD: all
    sessions at the server's weights, gradients summed into one step. `explore=False` shows the
    best list instead of a sampled one. `max_norm` keeps the weights in an L2 ball after each step
    (FPDGD's clipping, thesis 3.2.1). `mu` adds -mu (weights - server's weights) to each step's
    gradient (FedProx; Li et al., MLSys 2020)."""

    lr: float = 0.1
    sessions: int = 4
    k: int = 10
    decay: float = 1.0
    pairs: Literal["examined", "shown"] = "examined"
    explore: bool = True
    max_norm: float | None = None
    mu: float = 0.0
    update: Literal["session", "round"] = "session"

    def __post_init__(self) -> None:
        require(self.lr > 0.0, f"lr must be > 0, got {self.lr}")
        require(1 <= self.sessions <= 10**9, f"sessions must be in 1 .. 10^9, got {self.sessions}")
        require(1 <= self.k <= 100, f"k must be in 1 .. 100, got {self.k}")
        require(0.0 < self.decay <= 1.0, f"decay must be in (0, 1], got {self.decay}")
        require(
            self.max_norm is None or self.max_norm > 0.0,
            f"max_norm must be > 0, got {self.max_norm}",
        )
        require(self.mu >= 0.0, f"mu must be >= 0, got {self.mu}")
        require(
            self.mu == 0.0 or self.update == "session",
            "mu pulls later steps back: update='round' makes only one",
        )

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self:
        other = f"max_norm={self.max_norm} is not the ball of {ball} that the privatizer sets"
        require(ball is None or self.max_norm in (None, ball), f"{other}: leave max_norm out")
        made = self if ball is None else replace(self, max_norm=ball)
        return replace(made, explore=False, sessions=1) if single_search else made

    def learn(
        self,
        ranker: Ranker,
        params: Array,
        memory: Array,
        user: User,
        rng: Stream,
        t: int,
        send_reward: SendReward,
    ) -> tuple[Array, float, Array]:
        local = params.copy()
        for s in range(user.sessions):
            at, draws = (local if self.update == "session" else params), rng.at(s)
            scores = np.empty(0)

            def show(docs: Array, at: Array = at, draws: Stream = draws) -> Array:
                nonlocal scores
                scores = scored(ranker, at, docs)
                policy = plackett_luce if self.explore else best_first
                return policy(scores, min(self.k, len(docs)), draws)

            docs, ranking, clicks = user.session(show)
            weights = document_weights(scores, ranking, clicks, self.pairs).astype(np.float32)
            gradient = ranker.pullback(at, docs, weights) - np.float32(self.mu) * (local - params)
            local = local + np.float32(self.rate(t, s, user.sessions)) * gradient
            if self.update == "session" or s == user.sessions - 1:
                local = self._in_ball(local)
        return local - params, float(user.sessions), memory

    def rate(self, t: int, s: int, sessions: int) -> float:
        return float(self.lr * self.decay ** (t * sessions + s))

    def _in_ball(self, local: Array) -> Array:
        norm = np.sqrt(np.square(local, dtype=np.float64).sum())
        if self.max_norm is None or norm <= self.max_norm:
            return local
        if self.max_norm < FARTHEST_OUT * norm:
            return np.zeros_like(local)
        return local * np.float32(self.max_norm / norm)


def document_weights(
    scores: Array, ranking: Array, clicks: Array, pairs: str = "examined"
) -> Array:
    """How much the score of each candidate should rise: the whole of PDGD, ranker-free (thesis
    3.9-3.12).

    Every clicked document (at rank a) is preferred to every unclicked one (at b) ranked above the
    last click, plus the one right after it (`pairs='shown'`: to every unclicked one). The pair
    weighs rho e^{s_a} e^{s_b} / (e^{s_a} + e^{s_b})^2, and rho = P(R*) / (P(R) + P(R*)) where R*
    swaps the two. With D_j the mass not yet placed before rank j, for a < b: P(R) / P(R*) =
    prod_{j=a+1..b} (1 + (e^{s_a} - e^{s_b}) / D_j)."""
    weights = np.zeros(len(scores))
    if not clicks.any():
        return weights
    scores = scores.astype(np.float64)
    shown, k = scores[ranking], len(ranking)
    left = np.delete(scores, ranking)
    never = np.logaddexp.reduce(left) if len(left) else -np.inf
    log_mass = np.logaddexp.accumulate(np.append(never, shown[::-1]))[:0:-1]  # (k,) log D_j
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite ratio means rho = 0
        share = np.exp(shown[:, None] - log_mass)  # (k, k): e^{s_a} / D_j
        a, b, j = np.ogrid[:k, :k, :k]
        between = (a < j) & (j <= b)
        odds = np.where(between, 1.0 + share[:, None, :] - share[None, :, :], 1.0).prod(axis=2)
    rho = 1.0 / (1.0 + np.where(np.arange(k)[:, None] < np.arange(k), odds, odds.T))
    closeness = np.exp(-np.abs(shown[:, None] - shown))
    examined = k if pairs == "shown" else min(int(np.flatnonzero(clicks)[-1]) + 2, k)
    preferred = clicks[:, None] & ~clicks & (np.arange(k) < examined)  # (k, k): row over column
    pair = np.where(preferred, rho * closeness / (1.0 + closeness) ** 2, 0.0)
    weights[ranking] = pair.sum(axis=1) - pair.sum(axis=0)
    return weights
