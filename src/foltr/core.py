"""The nouns (data) and verbs (protocols) that everything else is made of. Read this first.

Shapes: n = clients in the round, d = parameters, p = numbers in a message, f = features, m =
documents of a query, k = documents shown. The federation knows one shape, a cohort (clients x
numbers); only a ranker knows what its parameters mean. Protocols describe: nobody must inherit
them, and `kinds.py` has bases that give most of each. State is passed, never stored in components.
Components are frozen dataclasses whose repr is their config (see `spec.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np

from foltr.events import Event, Setting
from foltr.seeds import Stream

Array = np.ndarray
Memory = tuple[Array, ...]  # the state of a server component between rounds; part of a checkpoint
Show = Callable[[Array], Array]  # a ranking policy: documents (m, f) -> the list to show (k,)
# (which value a reward has, how many values there are, in which session) -> which value is sent
SendReward = Callable[[int, int, int], int]


@dataclass(frozen=True)
class Ask:
    """What the server sends to the clients of a round: the model, and what they must know of the
    round."""

    params: Array  # (d,) float32
    t: int  # the round, from 0
    n: int  # how many clients are asked in this round


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
    # (n, d) what the learner decodes `updates` to, where the engine knows it already; whoever
    # changes messages must drop it: use `sending`
    directions: Array | None = None
    trusted: Array | None = None  # (d,) update of the server's own client, for rules that need one
    # of how many clients' messages the one row is the weighted mean; None where each row is one
    # client's message
    mean_of: int | None = None

    @classmethod
    def stack(cls, updates: Sequence[Update]) -> Cohort:
        """At least one update."""
        return cls(
            np.array([u.client for u in updates]),
            np.stack([u.payload for u in updates]),
            np.array([u.weight for u in updates], float),
        )

    @classmethod
    def empty(cls, p: int) -> Cohort:
        """A round in which no message arrived."""
        return cls(np.empty(0, np.int64), np.empty((0, p), np.float32), np.empty(0))

    def __len__(self) -> int:
        return len(self.clients)

    def only(self, rows: Array) -> Cohort:
        directions = None if self.directions is None else self.directions[rows]
        kept = self.clients[rows], self.updates[rows], self.weights[rows]
        return Cohort(*kept, directions, self.trusted)

    def sending(self, updates: Array) -> Cohort:
        """The same clients with other messages, of which the engine knows no directions."""
        return Cohort(self.clients, updates, self.weights, trusted=self.trusted)

    def sealed(self) -> Cohort:
        """Itself, made read-only: other components will see the same arrays."""
        for part in (self.clients, self.updates, self.weights, self.directions, self.trusted):
            if part is not None:
                part.setflags(write=False)
        return self


class Withheld(RuntimeError):
    """A round from which the server learns nothing, because too few messages arrived."""


@dataclass(frozen=True)
class Observed:
    """What only a simulation can measure in a round: it goes to the recorder, never into an
    Update."""

    ndcg: Array  # (n,) mean nDCG@10 of the lists that each client was shown, by true labels
    max_rr: Array  # (n,) mean reciprocal rank of each client's first click


@dataclass(frozen=True)
class Answers:
    """What came of an `Ask`."""

    asked: Array  # (m,) clients that the ask was sent to; an engine may not reach all of `Ask.n`
    arrived: Cohort  # messages of those who answered, in any order
    observed: Observed | None  # None where clients are real


class User(Protocol):
    """Whoever searches: a click model, a person with a phone, a replayed log. Never shows
    labels."""

    @property
    def sessions(self) -> int:
        """How many times this user searches in this round."""
        ...

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        """Ask `show` once for a list, look at the list really shown (a log's may differ), click.

        Returns documents (m, f), ranking (k,) of indices into them, clicks (k,) bool."""
        ...


class ClickModel(Protocol):
    """How simulated users click: the `users` of an experiment."""

    def tables(self, grades: int, depth: int) -> tuple[Array, Array] | None:
        """P(click) and P(stop | click) by rank and grade, each (depth, grades): what kernels read.

        None for a model that is no such table: it then runs without a kernel."""
        ...

    def clicks(self, shown: Array, grades: int, rng: Stream) -> Array:
        """Clicks (k,) on a list whose documents have the grades `shown` (k,); rank j draws 2j and
        2j + 1."""
        ...


class Ranker(Protocol):
    """Scores, and their gradient as a pullback. Parameters are one flat float32 vector."""

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
    """From clicks to an update."""

    @property
    def sessions(self) -> int:
        """How many searches a client makes in a round, unless a partition says otherwise."""
        ...

    @property
    def reward_levels(self) -> int:
        """How many values the reward of a search can take, for learners that send rewards; 0 for
        those that send updates of the parameters, whose messages can be added up."""
        ...

    @property
    def separate_searches(self) -> bool:
        """Whether no search of a round influences the list or the reward of another one. The
        ledger then guarantees more for one interaction than for a round."""
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
        send_reward: SendReward,
    ) -> tuple[Array, float, Array]:
        """All searches of one client in round t -> payload (p,), weight, memory. Every reward goes
        through `send_reward`."""
        ...

    def decode(self, payloads: Array, params: Array) -> Array:
        """What the payloads of a cohort (n, p) mean as directions (n, d); the server's work.

        Linear where `reward_levels` is 0, because a channel may give the mean of the payloads."""
        ...

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self | Learner:
        """The same learner under restrictions; a Mistake where it cannot keep one.

        ball: weights stay in the L2 ball of this radius. memory=False: nothing is kept on devices
        between rounds. single_search: one search on a list without exploration, as audits attack
        it."""
        ...

    def user_draws(self, users: Stream, own: Stream) -> Stream:
        """The stream that a simulated user draws from: `users`. (Published FOLtR-ES code draws
        the user's choices from the seed in the client's message, `own`.)"""
        ...

    def fits(self, optimizer: Optimizer) -> tuple[str, ...]:
        """What a reader should know of it together with the server's optimizer, one sentence
        each."""
        ...


class Privatizer(Protocol):
    """What is done so that messages reveal less: to rewards, to what a client sends, or by the
    server.

    Simulated noise comes from the experiment's seed, by address. On real devices it must come from
    the operating system: a server that knows the seed can subtract it."""

    @property
    def acts_on(self) -> Literal["rewards", "updates"]: ...
    @property
    def ball(self) -> float | None:
        """The radius of the L2 ball in which the learner must keep its weights; None for none."""
        ...

    @property
    def needs_equal_weights(self) -> bool:
        """Whether it holds only if every client of a round has the same weight."""
        ...

    @property
    def adds_noise_on_server(self) -> bool:
        """Whether the server adds the noise: `on_server` is then given the mean, and the rule gets
        what it returns."""
        ...

    def on_reward(self, which: int, values: int, rng: Stream) -> int:
        """Which of the values 0 .. values - 1 is sent instead of `which`."""
        ...

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        """What is sent instead of an update (d,), in a round of n clients."""
        ...

    @property
    def clips_on_arrival(self) -> bool:
        """Whether `on_arrival` limits the length of each message, whatever its sender did. The
        ledger relies on it."""
        ...

    def on_arrival(self, updates: Array) -> Array:
        """What the server adds up instead of the messages (n, p), where it adds the noise and gets
        each: clipped to the length that the noise is made for."""
        ...

    def on_server(self, mean: Array, n: int, rng: Stream) -> Array:
        """What the server uses instead of the mean (p,) of n messages."""
        ...

    def events(self, setting: Setting) -> tuple[Event, ...]:
        """What happens in one round, for the ledger."""
        ...

    def nominal(self) -> str:
        """The guarantee as the paper states it, in one line."""
        ...


class Channel(Protocol):
    """How updates reach the server, where not each in the clear."""

    def withstands(self, asked: int) -> int | None:
        """With how many of the clients asked a server can collude and still learn nothing of a
        single message but what the sum reveals; None where messages are not hidden. The ledger
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

    def carry(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        """What the server gets of the messages that arrived: one row, the weighted mean, with the
        whole weight. `ask` is what the clients were sent; `ask.n` of them were asked. Raises
        Withheld."""
        ...


class Aggregator(Protocol):
    """One round of updates -> one direction."""

    @property
    def looks_at(self) -> Literal["mean", "rows"]:
        """Whether the weighted mean of the updates is all it uses, or whether it looks at single
        ones."""
        ...

    @property
    def is_mean(self) -> bool:
        """Whether its direction is the weighted mean itself."""
        ...

    @property
    def keeps_agreement(self) -> bool:
        """Whether n equal updates give that update."""
        ...

    @property
    def trusted_queries(self) -> int:
        """How many queries the server's own client must hold, whose update is `Cohort.trusted`; 0
        for rules that need none."""
        ...

    @property
    def knows_clients(self) -> bool:
        """Whether it remembers single clients: then rows must be what these clients sent."""
        ...

    def fits(self, n: int) -> tuple[str, ...]:
        """Refuses n clients in a round where that leaves nothing to compute; else what a reader
        should know of it, one sentence each."""
        ...

    def init(self, dim: int) -> Memory: ...

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        """The direction (d,) float64, and the memory for the next round."""
        ...


class Optimizer(Protocol):
    """The server's step: an ascent direction -> new parameters."""

    @property
    def step_size(self) -> float | None:
        """lr, where a step is params + lr x direction; None for any other step."""
        ...

    def init(self, dim: int) -> Memory: ...
    def __call__(
        self, params: Array, direction: Array, memory: Memory
    ) -> tuple[Array, Memory]: ...


class Engine(Protocol):
    """Where clients run: in this process, compiled or not, or on other machines."""

    memory: Array  # (clients, numbers) what each device keeps between rounds

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the results should know of how they were computed."""
        ...

    def collect(self, ask: Ask, clients: Array) -> Answers:
        """Let these clients learn, and gather what they send."""
        ...
