"""The round, written once. Engines decide where `client_step` runs; nothing else changes. Read this second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

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
)
from foltr.errors import Mistake
from foltr.seeds import Stream, stream

LARGEST = float(np.finfo(np.float32).max)  # that a device can hold
PRIVACY = 0  # the address of noise below the server's round


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
        return State(params.astype(np.float64), self.aggregator.init(d), self.optimizer.init(d))

    def step(self, state: State, cohort: Cohort, rng: Stream, arrived: int | None = None) -> State:
        """One update of the parameters. `arrived` is how many clients are behind a cohort that is their sum."""
        decoded = cohort.directions
        if decoded is None:
            decoded = self.learner.decode(cohort.updates, state.params.astype(np.float32))
        cohort = Cohort(cohort.clients, decoded, cohort.weights)
        direction, aggregator = self.aggregator(cohort, state.aggregator, rng)
        _fits(self.aggregator, direction, state.params)
        if self.privacy is not None:
            direction = self.privacy.on_server(direction, arrived or len(cohort), rng.at(PRIVACY))
        params, optimizer = self.optimizer(state.params, direction, state.optimizer)
        _fits(self.optimizer, params, state.params)
        if not np.abs(params).max() <= LARGEST:  # NaN is not
            raise FloatingPointError(f"round {state.t}: the server's parameters are not finite on a device")
        return replace(state, params=params, aggregator=aggregator, optimizer=optimizer, t=state.t + 1)


def _fits(component: object, given: Array, params: Array) -> None:
    """NumPy would stretch a wrong shape over the right one without a word."""
    if isinstance(given, np.ndarray) and given.shape == params.shape and given.dtype.kind == "f":
        return
    shape, kind = np.shape(given), np.asarray(given).dtype.kind
    raise Mistake(f"{type(component).__name__} gave {shape} of kind {kind!r}, not {params.shape} real numbers")


def client_step(
    learner: Learner, ranker: Ranker, privacy: Privatizer | None, params: Array, memory: Array, user: User,
    client: int, n: int, t: int, seed: int,
) -> tuple[Update, Array]:  # fmt: skip
    """Everything that happens on one device in one round of n clients, simulated or real."""
    rng, noise = stream(seed, "ranking", client, t), stream(seed, "privacy", client, t)

    def tell(which: int, values: int, session: int) -> int:
        return which if privacy is None else privacy.on_reward(which, values, noise.at(session))

    payload, weight, memory = learner.learn(ranker, params, memory, user, rng, t, tell)
    if privacy is not None:
        payload = privacy.on_client(payload, n, noise)
    return Update(client, payload, weight), memory


def cohort_size(clients: int, participation: float) -> int:
    return max(1, round(participation * clients))


def participants(clients: int, participation: float, seed: int, t: int) -> Array:
    """Who takes part in round t: everybody, or a random part of `participation` x clients (at least one)."""
    if participation == 1.0:
        return np.arange(clients)
    return stream(seed, "participation", t).sample(clients, cohort_size(clients, participation))


def federate(
    server: Server,
    engine: Engine,
    state: State,
    rounds: int,
    choose: Callable[[int], Array],
    seed: int,
    record: Callable[[State, Cohort, Observed | None], None],
    channel: Channel | None = None,
    dropout: float | None = None,
) -> State:
    """Rounds state.t .. rounds - 1; `record` sees the server's state after each, and what was sent.

    Each message is lost with probability `dropout`, after its client searched and clicked. A round whose sum is
    withheld leaves the parameters as they are.
    """
    draws, lost, keys = stream(seed, "server"), stream(seed, "dropout"), stream(seed, "channel")
    while state.t < rounds:
        t = state.t
        sent, observed = engine.collect(state.params.astype(np.float32), t, choose(t))
        arrived = sent.only(lost.at(t).uniforms(len(sent)) >= dropout) if dropout else sent
        try:
            if not len(arrived):
                raise Withheld
            got = arrived if channel is None else channel.carry(arrived, len(sent), keys.at(t))
        except Withheld:
            state = replace(state, t=t + 1, withheld=state.withheld + 1)
        else:
            state = server.step(state, got, draws.at(t), len(arrived))
        record(state, sent, observed)
    return state
