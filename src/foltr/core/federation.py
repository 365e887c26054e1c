"""A round of the federation, simulated or over a network. Read this second.

federate: Ask -> Engine.collect (Client.step on every device) -> Delivery -> Server.step -> Ask
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foltr.core import (
    Aggregator,
    Answers,
    Array,
    Ask,
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
    guards,
)
from foltr.core.cohorts import weighted_mean
from foltr.core.errors import Mistake
from foltr.core.seeds import Stream, stream

PRIVACY, AGGREGATOR = 0, 1  # addresses below the server's round


@dataclass(frozen=True)
class Client:
    """One device, simulated or real, with its random streams: addressed streams in a simulation;
    on a real device `noise` comes from the operating system."""

    id: int
    learner: Learner
    ranker: Ranker
    privacy: Privatizer | None
    ranking: Stream
    noise: Stream

    def step(self, ask: Ask, memory: Array, user: User) -> tuple[Update, Array]:
        """Everything that happens on the device in one round: what it sends, and what it keeps."""
        rng, noise = self.ranking.at(ask.t), self.noise.at(ask.t)
        send = guards.sending_rewards(self.learner, self.privacy, user.sessions, noise)
        made = self.learner.learn(self.ranker, ask.params, memory, user, rng, ask.t, send)
        payload, weight, kept = guards.learned(self.learner, made)
        if self.privacy is not None:
            guards.check_as_counted(self.learner, self.privacy, payload, weight, ask.params, user)
            payload = guards.privatized(self.privacy, payload, ask.n, noise)
        update = Update(self.id, payload, weight)
        guards.check_update(self.learner, update, kept, memory, ask.params)
        return update, kept


def on_devices(learner: Learner, privacy: Privatizer | None) -> Learner:
    """The learner as it runs on devices: in the ball that the privatizer sets."""
    ball = None if privacy is None else privacy.ball
    return learner if ball is None else learner.restricted(ball=ball)


@dataclass(frozen=True)
class State:
    """The state of the server between rounds."""

    params: Array  # (d,) float64; devices get and hold them as float32
    aggregator: Memory
    optimizer: Memory
    t: int = 0  # rounds done
    withheld: int = 0  # rounds in which too few messages arrived to update the parameters


@dataclass(frozen=True)
class Server:
    learner: Learner
    aggregator: Aggregator
    optimizer: Optimizer
    privacy: Privatizer | None = None
    noise: Stream | None = None  # of a privatizer that adds noise here; None for one by address

    def init(self, params: Array) -> State:
        d = len(params)
        aggregator, optimizer = self.aggregator.init(d), self.optimizer.init(d)
        guards.check_memory(self.aggregator, aggregator)
        guards.check_memory(self.optimizer, optimizer)
        return State(params.astype(np.float64), aggregator, optimizer)

    def step(self, state: State, cohort: Cohort, rng: Stream) -> State:
        """One update of the parameters, by the messages that arrived or by their mean."""
        if self.privacy is not None and self.privacy.adds_noise_on_server:
            noise = rng.at(PRIVACY) if self.noise is None else self.noise
            cohort = self._noisy(self.privacy, cohort, noise)
        decoded = cohort.directions
        if decoded is None:
            decoded = self.learner.decode(cohort.updates, state.params.astype(np.float32))
            if decoded is not cohort.updates:
                guards.check_decoded(self.learner, decoded, len(cohort), len(state.params))
        if decoded is not cohort.updates:
            cohort = cohort.sending(decoded)
        combined = self.aggregator(cohort.sealed(), state.aggregator, rng.at(AGGREGATOR))
        direction, aggregator = guards.pair(self.aggregator, combined, "direction")
        guards.check_vector(self.aggregator, direction, state.params)
        if aggregator is not state.aggregator:
            guards.check_memory(self.aggregator, aggregator)
        stepped = self.optimizer(state.params, direction, state.optimizer)
        params, optimizer = guards.pair(self.optimizer, stepped, "parameters")
        guards.check_vector(self.optimizer, params, state.params)
        guards.check_on_device(self, state.t, state.params, params, direction, cohort)
        return State(params, aggregator, optimizer, state.t + 1, state.withheld)

    def _noisy(self, privacy: Privatizer, cohort: Cohort, rng: Stream) -> Cohort:
        """One row: the mean of what arrived, with the noise. Learner and rule see nothing else."""
        n, rows = cohort.mean_of, cohort.updates
        if n is None:  # single messages are clipped here; their mean cannot be
            n, rows = len(cohort), privacy.on_arrival(rows)
            guards.check_clipped(privacy, rows, cohort.updates)
        mean = weighted_mean(rows, cohort.weights)
        noisy = privacy.on_server(mean, n, rng)
        guards.check_noisy(privacy, noisy, mean)
        return Cohort(np.array([-1]), noisy[None], np.array([cohort.weights.sum()]), mean_of=n)


Rewrite = Callable[[Cohort, Ask, Stream], Cohort]  # what clients would send -> what they send


@dataclass(frozen=True)
class Delivery:
    """What happens to messages on their way to the server: `rewrite` replaces some of them, each
    is lost with probability `dropout` after its client has learned, and a `channel` may sum the
    rest. `host` is the server's own client, whose update is `Cohort.trusted`. A cohort that an
    engine carried already (`Cohort.mean_of`) is passed on as it is."""

    rewrite: Rewrite | None = None
    dropout: float | None = None
    channel: Channel | None = None
    host: int | None = None

    def asked(self, clients: Array) -> Array:
        return clients if self.host is None else np.append(clients, self.host)

    def without_host(self, answers: Answers) -> Answers:
        """The clients' messages, with the update of the server's own client beside them."""
        if self.host is None:
            return answers
        cohort, observed = answers.arrived, answers.observed
        others = cohort.clients != self.host
        own = cohort.updates[~others]
        clients = replace(cohort.only(others), trusted=own[0] if len(own) else None)
        if observed is not None:
            observed = Observed(observed.ndcg[others], observed.max_rr[others])
        return Answers(answers.asked[answers.asked != self.host], clients, observed)

    def sent(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        """What clients send, malicious ones among them."""
        if self.rewrite is None or not len(cohort) or cohort.mean_of is not None:
            return cohort
        return self.rewrite(cohort, ask, rng.at(ask.t))

    def not_lost(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        if not self.dropout or cohort.mean_of is not None:
            return cohort
        return cohort.only(rng.at(ask.t).uniforms(len(cohort)) >= self.dropout)

    def carried(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        """What the server gets; raises Withheld where too few messages are left, or where the
        server's own client is missing."""
        if not len(cohort) or (self.host is not None and cohort.trusted is None):
            raise Withheld
        if self.channel is None:
            return cohort
        if cohort.mean_of is not None:  # the engine has carried the messages
            guards.check_enough(self.channel, cohort.mean_of, ask.n)
            return cohort
        got = self.channel.carry(cohort, ask, rng.at(ask.t))
        guards.check_carried(self.channel, got, cohort.updates.shape[1])
        return got if got.mean_of is not None else replace(got, mean_of=len(cohort))


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
    n: int | None = None,
) -> State:
    """Rounds state.t .. rounds - 1. `choose` says who is asked in a round; `record` sees the
    server's state after each round, and what was sent. A round with too few messages leaves the
    parameters unchanged. Thresholds and noise depend on the n of the ask: devices make their noise
    for it, and the ledger counts on it. It is the number of clients that are asked, or `n` where
    that was agreed and some have left."""
    draws, changes = stream(seed, "server"), stream(seed, "attack")
    losses, keys = stream(seed, "dropout"), stream(seed, "channel")
    while state.t < rounds:
        t, clients = state.t, choose(state.t)
        ask = Ask(state.params.astype(np.float32), t, len(clients) if n is None else n)
        asked = delivery.asked(clients)
        answers = engine.collect(ask, asked)
        guards.check_answers(answers, asked)
        answers = delivery.without_host(answers)
        try:
            sent = delivery.sent(answers.arrived, ask, changes)
            arrived = delivery.not_lost(sent, ask, losses)
            got = delivery.carried(arrived, ask, keys)
            state = server.step(state, got, draws.at(t))
        except Mistake as mistake:
            raise Mistake(f"round {t}: {mistake}") from mistake
        except Withheld:
            state = replace(state, t=t + 1, withheld=state.withheld + 1)
        record(state, sent, answers.observed)
    return state


def cohort_size(clients: int, participation: float) -> int:
    return max(1, round(participation * clients))


def participants(clients: int, participation: float, seed: int, t: int) -> Array:
    """Who takes part in round t: everybody, or a random part of `participation` x clients (at
    least one)."""
    if participation == 1.0:
        return np.arange(clients)
    return stream(seed, "participation", t).sample(clients, cohort_size(clients, participation))


@dataclass(frozen=True)
class Participants:
    """`participants` of a simulation: some of the clients `pool` in each round."""

    pool: Array  # (clients,) in ascending order
    participation: float
    seed: int

    @property
    def count(self) -> int:
        """How many are asked in a round."""
        return cohort_size(len(self.pool), self.participation)

    def __call__(self, t: int) -> Array:
        chosen: Array = self.pool[participants(len(self.pool), self.participation, self.seed, t)]
        return chosen
