"""Kinds of components that share most of their protocol: inherit one, and write only what is your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Self

import numpy as np

from foltr.core import Array, Cohort, Memory
from foltr.errors import Mistake
from foltr.seeds import Stream


class SendsUpdates:
    """Of learners whose message is the update itself, and that remember nothing: write `sessions` and `learn`."""

    rewards = 0

    def remembered(self, params: Array) -> Array:
        return np.empty(0, np.float32)

    def decode(self, payloads: Array, params: Array) -> Array:
        return payloads

    def in_ball(self, radius: float) -> Self:
        raise Mistake(f"{type(self).__name__} cannot keep its weights in a ball, which this privatizer needs")

    def luck(self, users: Stream, own: Stream) -> Stream:
        return users


class Untouched:
    """Of privatizers, all that they leave alone: write `nominal`, `events` and what you change."""

    acts_on: Literal["rewards", "updates"] = "updates"

    @property
    def even(self) -> bool:
        return False

    @property
    def ball(self) -> float | None:
        return None

    def on_reward(self, which: int, values: int, rng: Stream) -> int:
        return which

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        return payload

    def on_server(self, direction: Array, n: int, rng: Stream) -> Array:
        return direction


class Memoryless(ABC):
    """Of aggregators that forget each round: write `combine`, get the protocol."""

    @property
    def looks_at(self) -> Literal["mean", "rows"]:
        return "rows"

    @abstractmethod
    def combine(self, cohort: Cohort) -> Array: ...

    def init(self, dim: int) -> Memory:
        return ()

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        return self.combine(cohort), memory


class Tabled(ABC):
    """Of click models that are two tables: scan top-down, click with P(click | rank, grade), and only after a click
    stop with P(stop | rank, grade)."""

    @abstractmethod
    def tables(self, grades: int, depth: int) -> tuple[Array, Array]: ...

    def clicks(self, shown: Array, grades: int, rng: Stream) -> Array:
        click, stop = self.tables(grades, len(shown))
        clicked = np.zeros(len(shown), bool)
        for j, grade in enumerate(shown):
            clicked[j] = rng.uniform() < click[j, grade]
            if not clicked[j]:
                rng.skip()
            elif rng.uniform() < stop[j, grade]:
                break
        return clicked
