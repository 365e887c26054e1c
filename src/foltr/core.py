"""The few ideas that everything else is made of: nouns that are data, verbs that are protocols. Read this first.

Shapes: n = clients in the round, d = parameters, p = numbers in a message, f = features, m = documents of a query,
k = documents shown. The federation knows one shape, a cohort (clients x numbers): only a ranker knows what its
parameters mean. Protocols describe; nobody must inherit. Memory is passed, never kept. Components are frozen
dataclasses whose repr is their config (see `spec.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from foltr.errors import Mistake

if TYPE_CHECKING:
    from foltr.data.dataset import Dataset
    from foltr.seeds import Stream

Array = np.ndarray
Memory = tuple[Array, ...]  # what a server component carries from round to round; checkpoints are made of it
Show = Callable[[Array], Array]  # a policy: documents (m, f) -> the list to show (k,)


@dataclass(frozen=True)
class Update:
    """What one client sends in one round. Nothing else ever leaves a device."""

    client: int
    payload: Array  # (p,) float32; for gradient learners p == d
    weight: float  # interactions behind it


@dataclass(frozen=True)
class Cohort:
    """One round of updates, stacked: row i came from clients[i]."""

    clients: Array  # (n,)
    updates: Array  # (n, p)
    weights: Array  # (n,)

    @classmethod
    def stack(cls, updates: Sequence[Update]) -> Cohort:
        return cls(
            np.array([u.client for u in updates]),
            np.stack([u.payload for u in updates]),
            np.array([u.weight for u in updates], float),
        )

    def __len__(self) -> int:
        return len(self.clients)


@dataclass(frozen=True)
class Observed:
    """What only a simulation may know of a round: it goes to the recorder, never into an Update."""

    ndcg: Array  # (n,) mean nDCG@10 of the lists that each client was shown, by true labels
    max_rr: Array  # (n,) mean reciprocal rank of each client's first click


class User(Protocol):
    """Whoever searches: a click model, a person with a phone, a replayed log. Never shows labels."""

    @property
    def sessions(self) -> int:
        """How many times this user searches in this round."""
        ...

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        """Ask `show` once for a list, look at the list really shown (a log's may differ), click.

        Returns documents (m, f), ranking (k,) of indices into them, clicks (k,) bool.
        """
        ...


class ClickModel(Protocol):
    """How simulated users click: the `users` of an experiment."""

    def tables(self, grades: int, depth: int) -> tuple[Array, Array] | None:
        """P(click) and P(stop | click) by rank and grade, each (depth, grades): what kernels read.

        None for a model that is no such table: it then runs plainly.
        """
        ...

    def clicks(self, shown: Array, grades: int, rng: Stream) -> Array:
        """Clicks (k,) on a list whose documents have the grades `shown` (k,); rank j draws 2j and 2j + 1."""
        ...


class Ranker(Protocol):
    """Scores and their pullback, nothing else. Parameters are one flat float32 vector."""

    def init(self, features: int, rng: Stream) -> Array: ...  # (d,)
    def scores(self, params: Array, docs: Array) -> Array: ...  # (m, f) -> (m,)
    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        """sum_i dscores[i] x gradient of scores[i]: (m,) -> (d,), the vector-Jacobian product."""
        ...


class Learner(Protocol):
    """From clicks to an update."""

    @property
    def sessions(self) -> int:
        """How many sessions a client is asked for in a round, unless a partition says otherwise."""
        ...

    def remembered(self, params: Array) -> Array:
        """What a device keeps between rounds, as it is before the first one (often nothing: shape (0,))."""
        ...

    def learn(
        self, ranker: Ranker, params: Array, memory: Array, user: User, rng: Stream, t: int
    ) -> tuple[Array, float, Array]:
        """All sessions of one client in round t -> payload (p,), weight, memory."""
        ...

    def decode(self, payloads: Array, params: Array) -> Array:
        """What the payloads of a cohort (n, p) mean as directions (n, d); the server's work."""
        ...


class Aggregator(Protocol):
    """One round of updates -> one direction."""

    def init(self, dim: int) -> Memory: ...
    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]: ...  # (d,) float64


class Optimizer(Protocol):
    """The server's step: an ascent direction -> new parameters."""

    def init(self, dim: int) -> Memory: ...
    def __call__(self, params: Array, direction: Array, memory: Memory) -> tuple[Array, Memory]: ...


class Source(Protocol):
    """Where ranked data comes from: a published collection, anyone's folder, or a synthetic one."""

    @property
    def splits(self) -> tuple[str, ...]: ...
    def load(self, split: str) -> Dataset: ...


class Engine(Protocol):
    """Where `client_step` runs."""

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed | None]: ...


class Memoryless(ABC):
    """Of aggregators that forget each round: write `combine`, get the protocol."""

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
        draws = rng.uniforms(2 * len(shown))
        clicked = np.zeros(len(shown), bool)
        for j, grade in enumerate(shown):
            clicked[j] = draws[2 * j] < click[j, grade]
            if clicked[j] and draws[2 * j + 1] < stop[j, grade]:
                break
        return clicked


def require(ok: bool, message: str) -> None:
    """Refuse an impossible setting."""
    if not ok:
        raise Mistake(message)
