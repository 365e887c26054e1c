"""The data types and protocols that all other modules use. Read this first.

Shapes: n = clients in the round, d = parameters, p = numbers in a message, f = features, m =
documents of a query, k = documents shown. A round of messages is one matrix, a cohort (clients x
numbers); only a ranker knows what its parameters mean. Components need not inherit from the
protocols; `kinds.py` has base classes that implement most of each. State is passed as an argument
and never stored in components. Components are frozen dataclasses whose repr is their config (see
`spec.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np

from foltr.core.events import Event, Setting
from foltr.core.seeds import Stream

Array = np.ndarray
Memory = tuple[Array, ...]  # the state of a server component between rounds; part of a checkpoint
Show = Callable[[Array], Array]  # a ranking policy: documents (m, f) -> the list to show (k,)
# (which value a reward has, how many values there are, in which session) -> which value is sent
SendReward = Callable[[int, int, int], int]


@dataclass(frozen=True)
class Ask:
    """What the server sends to the clients of a round: the model and facts about the round."""

    params: Array  # (d,) float32
    t: int  # the round, from 0
    n: int  # how many clients are asked in this round


@dataclass(frozen=True)
class Update:
    """What one client sends in one round. Nothing else ever leaves a device."""

    client: int  # its id
    payload: Array  # (p,) numbers of four bytes; for learners that send updates p == d, float32
    weight: float  # interactions behind it


@dataclass(frozen=True)
class Cohort:
    """One round of updates, stacked: row i came from clients[i]."""

    clients: Array  # (n,)
    updates: Array  # (n, p)
    weights: Array  # (n,)
    # (n, d) the decoded `updates`, if the engine has computed them already; code that changes
    # messages must drop them: use `sending`
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
        """Some rows: (n,) bool, or their numbers."""
        directions = None if self.directions is None else self.directions[rows]
        kept = self.clients[rows], self.updates[rows], self.weights[rows]
        return Cohort(*kept, directions, self.trusted, self.mean_of)

    def sending(self, updates: Array) -> Cohort:
        """The same clients with other messages, without precomputed directions."""
        return Cohort(
            self.clients, updates, self.weights, trusted=self.trusted, mean_of=self.mean_of
        )

    def sealed(self) -> Cohort:
        """Itself, made read-only: other components will see the same arrays."""
        for part in (self.clients, self.updates, self.weights, self.directions, self.trusted):
            if part is not None:
                part.setflags(write=False)
        return self


class Withheld(RuntimeError):
    """Raised in a round with too few messages, or without one of the server's own client: the
    server then keeps its parameters."""


@dataclass(frozen=True)
class Observed:
    """What only a simulation can measure in a round: it goes to the recorder, never into an
    Update. Row i is of client `Answers.arrived.clients[i]`."""

    ndcg: Array  # (n,) mean nDCG@10 of the lists that each client was shown, by true labels
    max_rr: Array  # (n,) mean reciprocal rank of each client's first click


@dataclass(frozen=True)
class Answers:
    """The answers of the clients to an `Ask`."""

    asked: Array  # (m,) clients that the ask reached; fewer than `Ask.n` where some are offline
    arrived: Cohort  # of those who answered; bits repeat if the order is always the same
    observed: Observed | None  # None where clients are real


class User(Protocol):
    """The source of searches and clicks: a simulated user, a person with a phone, or a replayed
    log. It never reveals labels."""

    @property
    def sessions(self) -> int:
        """How many times this user searches in this round."""
        ...

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        """Call `show` once for a list, and return the list that was shown (that of a log may
        differ) with its clicks.

        Returns documents (m, f), ranking (k,) of indices into them, clicks (k,) bool."""
        ...


class ClickModel(Protocol):
    """How simulated users click: the `users` of an experiment."""

    def tables(self, grades: int, depth: int) -> tuple[Array, Array] | None:
        """P(click) and P(stop | click) by rank and grade, each (depth, grades): what kernels read.

        None for a model without such tables: it then runs as plain Python."""
        ...

    def clicks(self, shown: Array, grades: int, rng: Stream) -> Array:
        """Clicks (k,) on a list whose documents have the grades `shown` (k,); rank j draws 2j and
        2j + 1."""
        ...


class Ranker(Protocol):
    """Scores, and their gradient as a pullback. Parameters are one flat float32 vector. A ranker
    that is to be exported also has `layers` (`scoring.layers.Layered`)."""

    def init(self, features: int, rng: Stream) -> Array: ...  # (d,) before the first round
    def scores(self, params: Array, docs: Array) -> Array: ...  # one per document: (m, f) -> (m,)
    def pullback(self, params: Array, docs: Array, dscores: Array) -> Array:
        """sum_i dscores[i] x gradient of scores[i]: (m,) -> (d,), the vector-Jacobian product."""
        ...

    @property
    def head(self) -> int:
        """How many of the last parameters are the output layer; 0 for a ranker that has no other
        layer."""
        ...


class Learner(Protocol):
    """The algorithm that turns clicks into an update."""

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
        """The initial value of what a device keeps between rounds (often nothing: shape (0,))."""
        ...

    def personal(self, params: Array, memory: Array) -> Array:
        """The parameters that a client ranks with, computed from the server's parameters and what
        its device keeps: (d,) -> (d,). The server's parameters, if clients have no personal
        rankers."""
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
        """Convert the payloads of a cohort (n, p) into directions (n, d), on the server.

        Linear where `reward_levels` is 0, because a channel may give the mean of the payloads."""
        ...

    def check_message(self, payload: Array, weight: float, params: Array) -> None:
        """Raises a Mistake if no device that learns by this learner could have sent the payload
        (p,) in a round in which it was sent `params` (d,). For servers of real devices."""
        ...

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self | Learner:
        """The same learner under restrictions; raises a Mistake if it cannot satisfy one.

        ball: weights stay in the L2 ball of this radius. memory=False: nothing is kept on devices
        between rounds. single_search: one search on a list without exploration, as audits attack
        it."""
        ...

    def user_draws(self, users: Stream, own: Stream) -> Stream:
        """The stream that a simulated user draws from: `users`. (Published FOLtR-ES code draws
        the user's choices from the seed in the client's message, `own`.)"""
        ...

    def fits(self, optimizer: Optimizer) -> tuple[str, ...]:
        """Notes for the reader on its use with the server's optimizer, one sentence each."""
        ...


class Privatizer(Protocol):
    """A privacy mechanism: clipping and noise on rewards, on a client's message, or by the server.

    Simulated noise comes from the experiment's seed, by address. On real devices it must come from
    the operating system: a server that knows the seed can subtract it."""

    @property
    def acts_on(self) -> Literal["rewards", "updates"]: ...  # what it changes
    @property
    def ball(self) -> float | None:
        """The radius of the L2 ball in which the learner must keep its weights; None for none."""
        ...

    @property
    def needs_equal_weights(self) -> bool:
        """Whether its guarantee holds only if every client of a round has the same weight."""
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
        """The messages (n, p) after clipping by the server, if the server adds the noise and
        receives each message: no longer than the noise is calibrated for."""
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
    """How updates reach the server, so that it does not see single messages. A channel that
    machines can carry between them also has a `protocol` (`secure_sum.protocol.SumProtocol`)."""

    def withstands(self, asked: int) -> int | None:
        """The number of clients (of those asked) that a server can collude with and still learn
        nothing about a single message but what the sum reveals; None if messages are not hidden.
        The ledger relies on it."""
        ...

    @property
    def step(self) -> float:
        """The step to which the numbers of a message (weight x update) are rounded; 0 for no
        rounding."""
        ...

    def fewest(self, asked: int) -> int:
        """The smallest number of messages of which a sum is released, in a round of `asked`
        clients."""
        ...

    def carry(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        """What the server gets of the messages that arrived: one row, their weighted mean, with
        the sum of their weights. `ask` is what the clients were sent; `ask.n` clients were asked.
        Raises Withheld if too few arrived."""
        ...


class Aggregator(Protocol):
    """One round of updates -> one direction."""

    @property
    def looks_at(self) -> Literal["mean", "rows"]:
        """'mean' if it uses only the weighted mean of the updates, 'rows' if it uses single
        updates."""
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
        """The number of queries of the server's own client, whose update is `Cohort.trusted`; 0
        for rules that need no such client."""
        ...

    @property
    def knows_clients(self) -> bool:
        """Whether it remembers single clients; each row must then be the message of one client."""
        ...

    def fits(self, n: int) -> tuple[str, ...]:
        """Raises if the rule cannot be computed with n clients in a round; otherwise returns notes
        for the reader, one sentence each."""
        ...

    def init(self, dim: int) -> Memory: ...  # the memory before the first round

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        """The direction (d,) float64, and the memory for the next round."""
        ...


class Optimizer(Protocol):
    """The server's step: an ascent direction -> new parameters."""

    @property
    def step_size(self) -> float | None:
        """lr, where a step is params + lr x direction; None for any other step."""
        ...

    def init(self, dim: int) -> Memory: ...  # the memory before the first round
    def __call__(
        self, params: Array, direction: Array, memory: Memory
    ) -> tuple[Array, Memory]: ...  # the new parameters (d,) float64, and the memory


class Engine(Protocol):
    """Where clients run: in this process, compiled or not, or on other machines."""

    memory: Array  # (clients, numbers) what each device keeps between rounds

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader on how the results were computed."""
        ...

    def collect(self, ask: Ask, clients: Array) -> Answers:
        """Let these clients learn, and gather what they send. They may be a part of the round's
        cohort: noise and thresholds go by `ask.n`. A malformed message is left out, as if its
        client had not answered. An engine that carries the messages by the channel itself gives
        one row (`Cohort.mean_of`), or none where too few answered."""
        ...
