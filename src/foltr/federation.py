"""The round, written once. Engines decide where `client_step` runs; nothing else changes. Read
this second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foltr.cohorts import weighted_mean
from foltr.core import (
    Aggregator,
    Array,
    Channel,
    Cohort,
    Engine,
    Learner,
    Memory,
    Observed,
    Optimizer,
    Privatizer,
    Ranker,
    Update,
    User,
    Withheld,
    require,
)
from foltr.errors import Mistake
from foltr.seeds import Stream, stream

LARGEST = float(np.finfo(np.float32).max)  # that a device can hold
PRIVACY, AGGREGATOR = 0, 1  # addresses below the server's round


@dataclass(frozen=True)
class State:
    """All that the server carries from round to round."""

    params: Array  # (d,) float64; devices get and hold them as float32
    aggregator: Memory
    optimizer: Memory
    t: int = 0  # rounds done
    withheld: int = 0  # of those, the ones that the server got nothing from


@dataclass(frozen=True)
class Server:
    learner: Learner
    aggregator: Aggregator
    optimizer: Optimizer
    privacy: Privatizer | None = None

    def init(self, params: Array) -> State:
        d = len(params)
        aggregator, optimizer = self.aggregator.init(d), self.optimizer.init(d)
        _remembered(self.aggregator, aggregator)
        _remembered(self.optimizer, optimizer)
        return State(params.astype(np.float64), aggregator, optimizer)

    def step(self, state: State, cohort: Cohort, rng: Stream, arrived: int | None = None) -> State:
        """One update of the parameters. `arrived` is how many clients are behind a cohort that is
        their sum."""
        if self.privacy is not None and self.privacy.by_server:
            cohort = self._noisy(self.privacy, cohort, arrived or len(cohort), rng.at(PRIVACY))
        decoded = cohort.directions
        if decoded is None:
            decoded = self.learner.decode(cohort.updates, state.params.astype(np.float32))
        if decoded is not cohort.updates:
            cohort = Cohort(cohort.clients, decoded, cohort.weights, trusted=cohort.trusted)
        direction, aggregator = self.aggregator(
            cohort.sealed(), state.aggregator, rng.at(AGGREGATOR)
        )
        _fits(self.aggregator, direction, state.params)
        if aggregator is not state.aggregator:
            _remembered(self.aggregator, aggregator)
        params, optimizer = self.optimizer(state.params, direction, state.optimizer)
        _fits(self.optimizer, params, state.params)
        if (
            not np.vdot(params, params) <= LARGEST**2 and not np.abs(params).max() <= LARGEST
        ):  # NaN is not
            raise FloatingPointError(
                f"round {state.t}: the server's parameters are not finite on a device"
            )
        return State(params, aggregator, optimizer, state.t + 1, state.withheld)

    def _noisy(self, privacy: Privatizer, cohort: Cohort, n: int, rng: Stream) -> Cohort:
        """One row: the mean of what arrived, with the noise. Whatever the learner and the rule
        make of it, they make of what is already private."""
        rows = (
            privacy.on_arrival(cohort.updates) if len(cohort) == n else cohort.updates
        )  # a sum cannot be clipped
        mean = weighted_mean(rows, cohort.weights)
        noisy = privacy.on_server(mean, n, rng)
        _fits(privacy, noisy, mean)
        return Cohort(np.array([-1]), noisy[None], np.array([cohort.weights.sum()]))


def _fits(component: object, given: Array, params: Array) -> None:
    """NumPy would stretch a wrong shape over the right one without a word."""
    if isinstance(given, np.ndarray) and given.shape == params.shape and given.dtype.kind == "f":
        return
    shape, kind = np.shape(given), np.asarray(given).dtype.kind
    raise Mistake(
        f"{type(component).__name__} gave {shape} of kind {kind!r}, not {params.shape} real"
        " numbers"
    )


def _remembered(component: object, memory: Memory) -> None:
    """What goes into a checkpoint: arrays."""
    if type(memory) is not tuple or not all(isinstance(part, np.ndarray) for part in memory):
        raise Mistake(f"{type(component).__name__} remembers {memory!r}, not a tuple of arrays")


def client_step(
    learner: Learner,
    ranker: Ranker,
    privacy: Privatizer | None,
    params: Array,
    memory: Array,
    user: User,
    client: int,
    n: int,
    t: int,
    seed: int,
) -> tuple[Update, Array]:
    """Everything that happens on one device in one round of n clients, simulated or real."""
    rng, noise = stream(seed, "ranking", client, t), stream(seed, "privacy", client, t)

    name, declared, told = type(learner).__name__, learner.rewards, set[int]()

    def tell(which: int, values: int, session: int) -> int:
        """Of each session one reward, out of as many as the learner declared: the ledger counts on
        it."""
        require(
            values == declared, f"{name} tells one of {values} rewards, and declared {declared}"
        )
        require(
            0 <= which < values, f"{name} tells reward {which}, which is not in 0 .. {values - 1}"
        )
        once = 0 <= session < user.sessions and session not in told
        require(once, f"{name} tells of session {session} twice, or of one that was not made")
        told.add(session)
        if privacy is None:
            return which
        other = privacy.on_reward(which, values, noise.at(session))
        require(
            0 <= other < values,
            f"{type(privacy).__name__} tells reward {other}, not in 0 .. {values - 1}",
        )
        return other

    payload, weight, memory = learner.learn(ranker, params, memory, user, rng, t, tell)
    if privacy is not None:
        _as_promised(learner, privacy, payload, weight, params, user)
        payload = privatized(privacy, payload, n, noise)
    return Update(client, payload, weight), memory


def _as_promised(
    learner: Learner, privacy: Privatizer, payload: Array, weight: float, params: Array, user: User
) -> None:
    """What the ledger counts on: an update has as many numbers as the parameters, and where the
    privatizer needs even weights, a weight is the number of searches."""
    name = type(learner).__name__
    if learner.rewards == 0:
        whole = (
            f"{name} sends {np.shape(payload)} numbers, and the noise is made for updates of"
            f" {params.shape}"
        )
        require(np.shape(payload) == params.shape, whole)
    even = (
        f"{name} sends a weight of {weight:g} for {user.sessions} searches, and"
        f" {type(privacy).__name__} needs "
    )
    require(
        not privacy.even or weight == user.sessions, f"{even}the number of searches as the weight"
    )


def privatized(privacy: Privatizer, payload: Array, n: int, noise: Stream) -> Array:
    """What a client sends, surely as many numbers of the same kind."""
    sent = privacy.on_client(payload, n, noise)
    fits = (
        isinstance(sent, np.ndarray)
        and sent.shape == payload.shape
        and sent.dtype == payload.dtype
    )
    told = f"{np.shape(sent)} of {getattr(sent, 'dtype', type(sent).__name__)}"
    require(
        fits,
        f"{type(privacy).__name__}.on_client gave {told}, not {payload.shape} of {payload.dtype}",
    )
    return sent


def cohort_size(clients: int, participation: float) -> int:
    return max(1, round(participation * clients))


def participants(clients: int, participation: float, seed: int, t: int) -> Array:
    """Who takes part in round t: everybody, or a random part of `participation` x clients (at
    least one)."""
    if participation == 1.0:
        return np.arange(clients)
    return stream(seed, "participation", t).sample(clients, cohort_size(clients, participation))


def nobody(t: int, clients: Array) -> Array:
    """No client is malicious."""
    return np.zeros(len(clients), bool)


Rewrite = Callable[
    [Cohort, Array, int, Stream], Cohort
]  # (to be sent, params (d,) float32, t, rng) -> is sent


@dataclass(frozen=True)
class Delivery:
    """What becomes of a round's messages on their way to the server: some are other than an honest
    client would send, each is lost with probability `dropout`, after its client searched and
    clicked, and a channel may add the rest up. `host` is the server's own client, whose update is
    `Cohort.trusted`."""

    rewrite: Rewrite | None = None
    dropout: float | None = None
    channel: Channel | None = None
    host: int | None = None

    def asked(self, clients: Array) -> Array:
        return clients if self.host is None else np.append(clients, self.host)

    def apart(self, cohort: Cohort, observed: Observed | None) -> tuple[Cohort, Observed | None]:
        """The clients' messages, with that of the server's own client beside them."""
        if self.host is None:
            return cohort, observed
        clients = replace(cohort.only(np.arange(len(cohort) - 1)), trusted=cohort.updates[-1])
        return clients, (
            None if observed is None else Observed(observed.ndcg[:-1], observed.max_rr[:-1])
        )

    def left(self, cohort: Cohort, rng: Stream) -> Cohort:
        """What is not lost."""
        return (
            cohort if not self.dropout else cohort.only(rng.uniforms(len(cohort)) >= self.dropout)
        )

    def carried(self, cohort: Cohort, asked: int, params: Array, rng: Stream) -> Cohort:
        """What a channel gives, surely one row that can be used; it is told what the clients were
        sent, `params`."""
        if self.channel is None:
            return cohort
        got, name = (
            self.channel.carry(replace(cohort, params=params), asked, rng),
            type(self.channel).__name__,
        )
        one = got.updates.shape == (1, cohort.updates.shape[1]) and np.shape(got.weights) == (1,)
        require(one, f"{name}.carry gave {got.updates.shape}, not one row, the weighted mean")
        require(
            bool(got.weights[0] > 0.0), f"{name}.carry gave a whole weight of {got.weights[0]}"
        )
        return got


DIRECTLY = Delivery()


def federate(
    server: Server,
    engine: Engine,
    state: State,
    rounds: int,
    choose: Callable[[int], Array],
    seed: int,
    record: Callable[[State, Cohort, Observed | None], None],
    delivery: Delivery = DIRECTLY,
) -> State:
    """Rounds state.t .. rounds - 1; `record` sees the server's state after each, and what was
    sent. A round that the channel or the rule withholds leaves the parameters as they are."""
    draws, changes = stream(seed, "server"), stream(seed, "attack")
    lost, keys = stream(seed, "dropout"), stream(seed, "channel")
    while state.t < rounds:
        t, params = state.t, state.params.astype(np.float32)
        sent, observed = delivery.apart(*engine.collect(params, t, delivery.asked(choose(t))))
        if delivery.rewrite is not None:
            sent = delivery.rewrite(sent, params, t, changes.at(t))
        arrived = delivery.left(sent, lost.at(t))
        try:
            if not len(arrived):
                raise Withheld
            got = delivery.carried(arrived, len(sent), params, keys.at(t))
            state = server.step(state, got, draws.at(t), len(arrived))
        except Withheld:
            state = replace(state, t=t + 1, withheld=state.withheld + 1)
        record(state, sent, observed)
    return state
