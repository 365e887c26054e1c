"""Personal: a shared ranker plus a residual on each client. `Residual` is the base of such
learners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from foltr.components.learners.pdgd import PDGD
from foltr.core import Array, Learner, Optimizer, Ranker, SendReward, User
from foltr.core.errors import require
from foltr.core.kinds import SendsUpdates
from foltr.core.seeds import Stream
from foltr.core.spec import learner
from foltr.core.stepwise import Start, stepwise

NOTHING = np.empty(0, np.float32)


class Inner(NamedTuple):
    """The round of the inner learner."""

    start: Start
    sofar: Any


class Residual(SendsUpdates, ABC):
    """Client c keeps a residual r_c (p,), which is added to the last p parameters and starts at 0.

    In a round the client starts from the server's parameters with r_c added, and `learner`
    computes an update u from there. The client sends u with its last p numbers multiplied by
    `send`, and keeps keep x (r_c + the last p numbers of u). The inner learner does not know of
    the residual: it gets the client's starting point as its parameters, and FedProx (`mu`) pulls
    back to that point."""

    learner: Learner

    @property
    @abstractmethod
    def send(self) -> float: ...

    @property
    @abstractmethod
    def keep(self) -> float: ...

    @abstractmethod
    def kept(self, ranker: Ranker, d: int) -> int:
        """How many of the d parameters have a residual; raises for rankers that allow none."""

    def check(self) -> None:
        name, inner = type(self).__name__, type(self.learner).__name__
        rewards = (
            f"{name} needs a learner that sends updates, and {inner} sends rewards: use PDGD()"
        )
        require(self.learner.reward_levels == 0, rewards)

    @property
    def sessions(self) -> int:
        return self.learner.sessions

    def remembered(self, ranker: Ranker, params: Array) -> Array:
        name, inner = type(self).__name__, type(self.learner).__name__
        twice = (
            f"{inner} keeps numbers on the device already, and {name} would lose them: use one of"
            " the two"
        )
        require(not len(self.learner.remembered(ranker, params)), twice)
        return np.zeros(self.kept(ranker, len(params)), np.float32)

    def personal(self, params: Array, memory: Array) -> Array:
        start, shared = params.copy(), len(params) - len(memory)
        start[shared:] += memory
        return start

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
        own = self.personal(params, memory)
        update, weight, _ = self.learner.learn(ranker, own, NOTHING, user, rng, t, send_reward)
        return self._divided(update, weight, memory)

    def begin(self, start: Start) -> Inner:
        own = self.personal(start.params, start.memory)
        inner = replace(start, params=own, memory=NOTHING)
        return Inner(inner, stepwise(self.learner).begin(inner))

    def current(self, start: Start, sofar: Inner) -> Array:
        return stepwise(self.learner).current(*sofar)

    def show(self, start: Start, sofar: Inner, docs: Array) -> Array:
        return stepwise(self.learner).show(*sofar, docs)

    def step(
        self, start: Start, sofar: Inner, docs: Array, ranking: Array, clicks: Array
    ) -> Inner:
        after = stepwise(self.learner).step(*sofar, docs, ranking, clicks)
        return Inner(sofar.start, after)

    def finish(self, start: Start, sofar: Inner) -> tuple[Array, float, Array]:
        update, weight, _ = stepwise(self.learner).finish(*sofar)
        return self._divided(update, weight, start.memory)

    def _divided(self, update: Array, weight: float, memory: Array) -> tuple[Array, float, Array]:
        """What is sent of an update, and what is kept."""
        shared = len(update) - len(memory)
        own = update[shared:]
        sent = np.append(update[:shared], np.float32(self.send) * own)
        return sent, weight, np.float32(self.keep) * (memory + own)

    def decode(self, payloads: Array, params: Array) -> Array:
        return self.learner.decode(payloads, params)

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Learner:
        if not memory:
            return self.learner.restricted(ball, single_search=single_search)
        own = f"{type(self).__name__} starts from weights of the client's own"
        larger = "which lie in no ball of a privatizer: updates could be larger than it counts on"
        require(ball is None, f"{own}, {larger}. Use one that clips (Laplace, Gaussian)")
        super().restricted(single_search=single_search)
        return self

    def fits(self, optimizer: Optimizer) -> tuple[str, ...]:
        return self.learner.fits(optimizer)

    def user_draws(self, users: Stream, own: Stream) -> Stream:
        return self.learner.user_draws(users, own)


@learner
@dataclass(frozen=True)
class Personal(Residual):
    """Rank with the shared weights plus a residual that stays on the client's device.

    Client c ranks with w + r_c. Each round its learner computes an update u from there. The client
    sends u and keeps
        r_c <- (1 - pull) (r_c + u).
    The server's weights w learn what clients have in common, the residuals how they differ.

    Fields
        learner: the learner that computes updates (one that sends updates, as PDGD does)
        pull: share of the residual that is dropped each round (0 .. 1); 1 is `learner` alone, 0
            keeps everything

    Reference: mean-regularised personalisation (Hanzely & Richtarik 2020, arXiv:2002.05516;
    Agarwal, Langford & Wei 2020, arXiv:2003.12880), related to Ditto (Li et al., ICML 2021)."""

    learner: Learner = PDGD()
    pull: float = 0.01

    def __post_init__(self) -> None:
        require(0.0 <= self.pull <= 1.0, f"pull must be in 0 .. 1, got {self.pull}")
        self.check()

    @property
    def send(self) -> float:
        return 1.0

    @property
    def keep(self) -> float:
        return 1.0 - self.pull

    def kept(self, ranker: Ranker, d: int) -> int:
        return d
