"""Learning one search at a time.

A learner that is written in steps can be called days apart, as on a device, or in a loop, as in a
simulation: `Stepwise.learn` is that loop. So both compute the same bits. `ReplayedUser` repeats
searches from a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from foltr.core import Array, Learner, Ranker, SendReward, Show, User
from foltr.core.errors import Mistake
from foltr.core.seeds import Stream


@dataclass(frozen=True)
class Start:
    """What a client's round starts from.

    Fields
        ranker: the model
        params: the server's parameters (d,)
        memory: what the device keeps between rounds
        sessions: how many searches the round has
        rng: the client's stream of this round; search s draws at address s
        t: the round, from 0
        send_reward: every reward that is sent goes through it"""

    ranker: Ranker
    params: Array
    memory: Array
    sessions: int
    rng: Stream
    t: int
    send_reward: SendReward


@runtime_checkable
class LearnsStepwise(Learner, Protocol):
    """A learner that a device can call one search at a time. A learner need not be one, but only
    such learners rank on devices.

    The state of a round (`sofar`) is a value that the learner defines. It is never changed in
    place: `step` returns a new one."""

    def begin(self, start: Start) -> Any:
        """The state before the first search."""
        ...

    def current(self, start: Start, sofar: Any) -> Array:
        """The parameters that score the documents of the next search (d,)."""
        ...

    def show(self, start: Start, sofar: Any, docs: Array) -> Array:
        """The list to show for the next search: documents (m, f) -> (k,). The same state gives the
        same list."""
        ...

    def step(self, start: Start, sofar: Any, docs: Array, ranking: Array, clicks: Array) -> Any:
        """The state after a search. `ranking` is the list that was shown, which may differ from
        that of `show`."""
        ...

    def finish(self, start: Start, sofar: Any) -> tuple[Array, float, Array]:
        """Payload (p,), weight and memory after the last search."""
        ...


class Stepwise:
    """Base of learners that are written in steps: implement `begin`, `current`, `show`, `step` and
    `finish`."""

    begin: Callable[..., Any]
    show: Callable[..., Array]
    step: Callable[..., Any]
    finish: Callable[..., tuple[Array, float, Array]]

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
        start = Start(ranker, params, memory, user.sessions, rng, t, send_reward)
        sofar = self.begin(start)
        for _ in range(user.sessions):
            searched = user.session(partial(self.show, start, sofar))
            sofar = self.step(start, sofar, *searched)
        return self.finish(start, sofar)


@dataclass
class ReplayedUser:
    """A user whose searches were made before: documents (m, f), the list that was shown (k,), and
    its clicks (k,)."""

    searches: Sequence[tuple[Array, Array, Array]]
    made: int = 0

    @property
    def sessions(self) -> int:
        return len(self.searches)

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        docs, ranking, clicks = self.searches[self.made]
        self.made += 1
        show(docs)
        return docs, ranking, clicks


def stepwise(learner: Learner) -> LearnsStepwise:
    """The learner, if it is written in steps; otherwise a Mistake says what it lacks."""
    if not isinstance(learner, LearnsStepwise):
        name = type(learner).__name__
        raise Mistake(
            f"{name} learns whole rounds only: to rank on a device it needs begin, current, show,"
            " step and finish (foltr.core.stepwise)"
        )
    return learner
