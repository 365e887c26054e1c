"""The few ideas that everything else is made of: nouns that are data, verbs that are protocols.
Read this first.

Shapes: n = clients in the round, d = parameters, p = numbers in a message, f = features, m =
documents of a query, k = documents shown. The federation knows one shape, a cohort (clients x
numbers): only a ranker knows what its parameters mean. Protocols describe; nobody must inherit.
Memory is passed, never kept. Components are frozen dataclasses whose repr is their config (see
`spec.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np

from foltr.errors import Mistake

if TYPE_CHECKING:
    from foltr.events import Event, Setting
    from foltr.seeds import Stream

Array = np.ndarray
Memory = tuple[
    Array, ...
]  # what a server component carries from round to round; checkpoints are made of it
Show = Callable[[Array], Array]  # a policy: documents (m, f) -> the list to show (k,)
Tell = Callable[
    [int, int, int], int
]  # (which value a reward has, of how many, in which session) -> which one is told


@dataclass(frozen=True)
class Update:
    """What one client sends in one round. Nothing else ever leaves a device."""

    client: int
    payload: Array  # (p,) numbers of four bytes; for learners that send updates p == d, float32
    weight: float  # interactions behind it


@dataclass(frozen=True)
class Cohort:
    """One round of updates, stacked: row i came from clients[i]."""

    clients: Array  # (n,)
    updates: Array  # (n, p)
    weights: Array  # (n,)
    directions: Array | None = (
        None  # (n, d) what the learner decodes `updates` to, where the engine knows it already;
    )
    # whoever changes messages must drop it: use `sending`
    trusted: Array | None = (
        None  # (d,) the update of the server's own client, for rules that ask for one
    )
    params: Array | None = (
        None  # (d,) float32, what these clients were sent: for a channel, which may bind it
    )

    @classmethod
    def stack(cls, updates: Sequence[Update]) -> Cohort:
        return cls(
            np.array([u.client for u in updates]),
            np.stack([u.payload for u in updates]),
            np.array([u.weight for u in updates], float),
        )

    def __len__(self) -> int:
        return len(self.clients)

    def only(self, rows: Array) -> Cohort:
        directions = None if self.directions is None else self.directions[rows]
        kept = self.clients[rows], self.updates[rows], self.weights[rows]
        return Cohort(*kept, directions, self.trusted, self.params)

    def sending(self, updates: Array) -> Cohort:
        """The same clients with other messages; what the engine knew of the old ones is
        dropped."""
        return Cohort(
            self.clients, updates, self.weights, trusted=self.trusted, params=self.params
        )

    def sealed(self) -> Cohort:
        """Itself, now read-only: what one component gets is still to be seen by others."""
        for part in (
            self.clients,
            self.updates,
            self.weights,
            self.directions,
            self.trusted,
            self.params,
        ):
            if part is not None:
                part.setflags(write=False)
        return self


class Withheld(RuntimeError):
    """A round that the server learns nothing from, because too few messages arrived for the
    channel or the rule."""


@dataclass(frozen=True)
class Observed:
    """What only a simulation may know of a round: it goes to the recorder, never into an
    Update."""

    ndcg: Array  # (n,) mean nDCG@10 of the lists that each client was shown, by true labels
    max_rr: Array  # (n,) mean reciprocal rank of each client's first click


class User(Protocol):
    """Whoever searches: a click model, a person with a phone, a replayed log. Never shows
    labels."""

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
        """Clicks (k,) on a list whose documents have the grades `shown` (k,); rank j draws 2j and
        2j + 1."""
        ...


class Ranker(Protocol):
    """Scores and their pullback, nothing else. Parameters are one flat float32 vector."""

    def init(self, features: int, rng: Stream) -> Array: ...  # (d,)
    def scores(self, params: Array, docs: Array) -> Array: ...  # (m, f) -> (m,)
    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        """sum_i dscores[i] x gradient of scores[i]: (m,) -> (d,), the vector-Jacobian product."""
        ...

    @property
    def head(self) -> int:
        """How many of the last parameters are the output layer; 0 for a ranker that has no other
        layer."""
        ...


class Learner(Protocol):
    """From clicks to an update. One that sends rewards may say `separate_searches = True`, if no
    search of a round shapes another one's list or reward: the ledger then promises more for one
    interaction than for a round."""

    @property
    def sessions(self) -> int:
        """How many sessions a client is asked for in a round, unless a partition says
        otherwise."""
        ...

    @property
    def rewards(self) -> int:
        """How many values the reward of a session can take, for learners that send rewards; 0 for
        those that send updates of the parameters, whose messages can be added up."""
        ...

    def remembered(self, ranker: Ranker, params: Array) -> Array:
        """What a device keeps between rounds, as it is before the first one (often nothing: shape
        (0,))."""
        ...

    def personal(self, params: Array, memory: Array) -> Array:
        """The parameters that a client ranks with, made of the server's and of what its device
        keeps: (d,) -> (d,). The server's own, where clients have no rankers of their own."""
        ...

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
        """All sessions of one client in round t -> payload (p,), weight, memory. Every reward
        passes through `tell`."""
        ...

    def decode(self, payloads: Array, params: Array) -> Array:
        """What the payloads of a cohort (n, p) mean as directions (n, d); the server's work.

        Linear where `rewards` is 0, because a channel may give the mean of the payloads."""
        ...

    def in_ball(self, radius: float) -> Self:
        """The same learner, keeping its weights in an L2 ball; refuses where it cannot."""
        ...

    def luck(self, users: Stream, own: Stream) -> Stream:
        """What the simulated user draws from: the user's own stream. (As published, FOLtR-ES mixes
        the two.)"""
        ...


class Privatizer(Protocol):
    """What is done so that messages tell less: to rewards, to what a client sends, or by the
    server.

    Simulated noise comes from the experiment's seed, by address. On real devices it must come from
    the operating system: a server that knows the seed can subtract it."""

    @property
    def acts_on(self) -> Literal["rewards", "updates"]: ...
    @property
    def ball(self) -> float | None:
        """The L2 ball in which it wants the learner to keep its weights."""
        ...

    @property
    def even(self) -> bool:
        """Whether it holds only if every client of a round has the same weight."""
        ...

    @property
    def by_server(self) -> bool:
        """Whether the server adds noise: `on_server` is then given the mean, and the rule gets
        what it returns."""
        ...

    def on_reward(self, which: int, values: int, rng: Stream) -> int:
        """Which of the values 0 .. values - 1 is told instead of `which`."""
        ...

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        """What is sent instead of an update (d,), in a round of n clients."""
        ...

    def on_arrival(self, updates: Array) -> Array:
        """What the server adds up instead of the messages (n, p), where it adds the noise and gets
        each: none that is longer than the noise is made for."""
        ...

    def on_server(self, mean: Array, n: int, rng: Stream) -> Array:
        """What the server uses instead of the mean (p,) of n messages."""
        ...

    def events(self, setting: Setting) -> tuple[Event, ...]:
        """What happens in one round, for the ledger."""
        ...

    def nominal(self) -> str:
        """What the paper that it comes from states, in one line."""
        ...


class Channel(Protocol):
    """How updates reach the server, where not each in the clear."""

    def withstands(self, asked: int) -> int | None:
        """With how many of the clients asked a server can collude and still learn nothing of a
        single message but what the sum tells; None where messages are not hidden. The ledger
        relies on it."""
        ...

    @property
    def step(self) -> float:
        """To which steps the numbers of a message (the weight times the update) are rounded; 0 for
        not at all."""
        ...

    def fewest(self, asked: int) -> int:
        """Of the clients asked in a round, the fewest whose messages make a sum that is
        released."""
        ...

    def carry(self, cohort: Cohort, asked: int, rng: Stream) -> Cohort:
        """What the server gets of a round: one row, the weighted mean, with the whole weight.
        Raises Withheld."""
        ...


class Aggregator(Protocol):
    """One round of updates -> one direction."""

    @property
    def looks_at(self) -> Literal["mean", "rows"]:
        """Whether the weighted mean of the updates is all it uses, or whether it looks at single
        ones."""
        ...

    @property
    def keeps_agreement(self) -> bool:
        """Whether n equal updates give that update."""
        ...

    @property
    def trusted(self) -> int:
        """How many queries the server's own client must hold, whose update is `Cohort.trusted`; 0
        for none."""
        ...

    @property
    def knows_clients(self) -> bool:
        """Whether it remembers single clients: then rows must be what these clients sent."""
        ...

    def fits(self, n: int) -> tuple[str, ...]:
        """Refuses n clients in a round where that leaves nothing to compute; else what a reader
        should know of it."""
        ...

    def init(self, dim: int) -> Memory: ...
    def __call__(
        self, cohort: Cohort, memory: Memory, rng: Stream
    ) -> tuple[Array, Memory]: ...  # (d,) float64


class Optimizer(Protocol):
    """The server's step: an ascent direction -> new parameters."""

    def init(self, dim: int) -> Memory: ...
    def __call__(
        self, params: Array, direction: Array, memory: Memory
    ) -> tuple[Array, Memory]: ...


class Engine(Protocol):
    """Where `client_step` runs."""

    def collect(self, params: Array, t: int, clients: Array) -> tuple[Cohort, Observed | None]: ...


def require(ok: bool, message: str) -> None:
    """Refuse an impossible setting."""
    if not ok:
        raise Mistake(message)
