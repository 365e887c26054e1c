"""PDGD, and FPDGD when several clients use it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np

from foltr.core import Array
from foltr.core.errors import require
from foltr.core.guards import check_gradient
from foltr.core.kinds import SendsUpdates
from foltr.core.ranking import best_first, plackett_luce, scored
from foltr.core.spec import learner
from foltr.core.stepwise import Start, Stepwise

# smallest max_norm / |weights|: below, scaling in float32 is inexact and the weights become 0
FARTHEST_OUT = 1e-30


class Local(NamedTuple):
    """The state of a client within a round."""

    weights: Array  # (d,) of its own ranker
    made: int  # searches so far


@learner
@dataclass(frozen=True)
class PDGD(Stepwise, SendsUpdates):
    """Learn from clicks by pairwise differentiable gradient descent (PDGD; federated: FPDGD).

    Each session shows k documents sampled without replacement from the Plackett-Luce model of all
    candidates, P(d) ~ exp(score of d). Every clicked document a is then preferred to unclicked
    ones b of the list, and the weights make a step over all such pairs:

        w <- w + lr sum_{(a, b)} g_ab (grad s_a - grad s_b)
        g_ab = rho_ab e^{s_a} e^{s_b} / (e^{s_a} + e^{s_b})^2
        rho_ab = P(R*) / (P(R) + P(R*))

    s are the scores. rho removes position bias: R is the list that was shown, R* the same list
    with a and b swapped. If document u of a pair stands at rank i, and l below it at rank j,

        P(R) / P(R*) = prod_{r = i+1..j} (1 + (e^{s_u} - e^{s_l}) / D_r)

    where D_r is the sum of e^s over all candidates that do not stand above rank r. The client
    steps after each session, and sends its weights minus the server's.

    Fields
        lr: step size (> 0)
        sessions: searches per client and round (1 .. 10^9)
        k: documents shown per search (1 .. 100)
        decay: factor of lr after every session (0 < decay <= 1); session s of round t uses lr x
            decay^(t x sessions + s), whether or not the client took part in earlier rounds
        pairs: unclicked documents that are compared. 'examined': those above the last click and
            the one after it; 'shown': all in the list
        explore: True samples the list, False shows the documents with the highest scores
        max_norm: radius of the L2 ball that the weights are scaled into after each step (> 0), or
            None; the clipping of FPDGD
        mu: FedProx term (>= 0): each step's gradient gets -mu (w - server's w)
        update: 'session' steps after every session; 'round' (FedSGD) sums the gradients of all
            sessions at the server's weights into one step

    Reference: Oosterhuis & de Rijke, CIKM 2018 (arXiv:1809.08415); FPDGD: Wang, Liu, Zhuang &
    Zuccon, ICTIR 2021; FedProx: Li et al., MLSys 2020."""

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
            "mu has no effect on the single step of update='round': take update='session'",
        )

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self:
        other = f"max_norm={self.max_norm} is not the ball of {ball} that the privatizer sets"
        require(ball is None or self.max_norm in (None, ball), f"{other}: leave max_norm out")
        made = self if ball is None else replace(self, max_norm=ball)
        return replace(made, explore=False, sessions=1) if single_search else made

    def begin(self, start: Start) -> Local:
        return Local(start.params.copy(), 0)

    def current(self, start: Start, sofar: Local) -> Array:
        return sofar.weights if self.update == "session" else start.params

    def show(self, start: Start, sofar: Local, docs: Array) -> Array:
        scores = scored(start.ranker, self.current(start, sofar), docs)
        policy = plackett_luce if self.explore else best_first
        return policy(scores, min(self.k, len(docs)), start.rng.at(sofar.made))

    def step(
        self, start: Start, sofar: Local, docs: Array, ranking: Array, clicks: Array
    ) -> Local:
        at, (local, s) = self.current(start, sofar), sofar
        scores = scored(start.ranker, at, docs)
        weights = document_weights(scores, ranking, clicks, self.pairs).astype(np.float32)
        back = np.float32(self.mu) * (local - start.params)
        pulled = start.ranker.pullback(at, docs, weights)
        check_gradient(start.ranker, pulled, at, docs)
        local = local + np.float32(self.rate(start.t, s, start.sessions)) * (pulled - back)
        return Local(self._in_ball(local) if self.update == "session" else local, s + 1)

    def finish(self, start: Start, sofar: Local) -> tuple[Array, float, Array]:
        local = sofar.weights if self.update == "session" else self._in_ball(sofar.weights)
        return local - start.params, float(sofar.made), start.memory

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
    """The derivative of PDGD's objective with respect to the score of each candidate: (m,).

    Every clicked document (at rank a) is preferred to every unclicked one (at rank b) above the
    last click and to the one right after it; with pairs='shown', to every unclicked one in the
    list. The pair has the weight rho e^{s_a} e^{s_b} / (e^{s_a} + e^{s_b})^2, with rho = P(R*) /
    (P(R) + P(R*)) where R* is the list R with a and b swapped. For a < b, and D_j the sum of e^s
    over all candidates not placed before rank j,
        P(R) / P(R*) = prod_{j = a+1..b} (1 + (e^{s_a} - e^{s_b}) / D_j).
    These are equations 3.9 to 3.12 of Wang (PhD thesis 2024)."""
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
    # (k, k): row preferred to column
    preferred = clicks[:, None] & ~clicks & (np.arange(k) < examined)
    pair = np.where(preferred, rho * closeness / (1.0 + closeness) ** 2, 0.0)
    weights[ranking] = pair.sum(axis=1) - pair.sum(axis=0)
    return weights
