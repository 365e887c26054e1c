"""The round, written once. Engines decide where `client_step` runs; nothing else changes. Read this second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from foltr.core import (
    Aggregator,
    Array,
    Cohort,
    Engine,
    Learner,
    Memory,
    Observed,
    Optimizer,
    Ranker,
    Update,
    User,
)
from foltr.errors import Mistake
from foltr.seeds import Stream, stream

LARGEST = float(np.finfo(np.float32).max)  # that a device can hold


@dataclass(frozen=True)
class State:
    """All that the server carries from round to round."""

    params: Array  # (d,) float64; devices get and hold them as float32
    aggregator: Memory
    optimizer: Memory
    t: int = 0  # rounds done


@dataclass(frozen=True)
class Server:
    learner: Learner
    aggregator: Aggregator
    optimizer: Optimizer

    def init(self, params: Array) -> State:
        d = len(params)
        return State(params.astype(np.float64), self.aggregator.init(d), self.optimizer.init(d))

    def step(self, state: State, cohort: Cohort, rng: Stream) -> State:
        decoded = self.learner.decode(cohort.updates, state.params.astype(np.float32))
        cohort = Cohort(cohort.clients, decoded, cohort.weights)
        direction, aggregator = self.aggregator(cohort, state.aggregator, rng)
        _fits(self.aggregator, direction, state.params)
        params, optimizer = self.optimizer(state.params, direction, state.optimizer)
        _fits(self.optimizer, params, state.params)
        if not np.abs(params).max() <= LARGEST:  # NaN is not
            raise FloatingPointError(f"round {state.t}: the server's parameters are not finite on a device")
        return State(params, aggregator, optimizer, state.t + 1)


def _fits(component: object, given: Array, params: Array) -> None:
    """NumPy would stretch a wrong shape over the right one without a word."""
    if isinstance(given, np.ndarray) and given.shape == params.shape and given.dtype.kind == "f":
        return
    shape, kind = np.shape(given), np.asarray(given).dtype.kind
    raise Mistake(f"{type(component).__name__} gave {shape} of kind {kind!r}, not {params.shape} real numbers")


def client_step(
    learner: Learner, ranker: Ranker, params: Array, memory: Array, user: User, client: int, t: int, seed: int
) -> tuple[Update, Array]:
    """Everything that happens on one device in one round, simulated or real."""
    rng = stream(seed, "ranking", client, t)
    payload, weight, memory = learner.learn(ranker, params, memory, user, rng, t)
    return Update(client, payload, weight), memory


def participants(clients: int, participation: float, seed: int, t: int) -> Array:
    """Who takes part in round t: everybody, or a random part of `participation` x clients (at least one)."""
    if participation == 1.0:
        return np.arange(clients)
    return stream(seed, "participation", t).sample(clients, max(1, round(participation * clients)))


def federate(
    server: Server,
    engine: Engine,
    state: State,
    rounds: int,
    choose: Callable[[int], Array],
    seed: int,
    record: Callable[[State, Cohort, Observed | None], None],
) -> State:
    """Rounds state.t .. rounds - 1; `record` sees the server's state after each."""
    draws = stream(seed, "server")
    while state.t < rounds:
        t = state.t
        cohort, observed = engine.collect(state.params.astype(np.float32), t, choose(t))
        state = server.step(state, cohort, draws.at(t))
        record(state, cohort, observed)
    return state
