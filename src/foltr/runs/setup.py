"""From an experiment to the parts of a federation: clients, delivery of messages, engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.core import Array, Engine
from foltr.errors import require
from foltr.experiment import Experiment
from foltr.federation import Delivery, Server, federate
from foltr.runs.execution import ENGINES, MakeEngine, Simulated, engine_maker
from foltr.seeds import stream
from foltr.simulation.malicious import MaliciousRewrite
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset
from foltr.world.population import Population, nobody, with_malicious_model, with_server_client


def population_of(e: Experiment, data: Dataset) -> Population:
    """The clients of an experiment on its data, or on another split of it."""
    p = e.partition.population(data, e.users, e.clients, e.learner.sessions, e.seed)
    name = type(e.partition).__name__
    given = f"{name}.population gave no Population, but {type(p).__name__}"
    require(isinstance(p, Population), given)
    many = f"{name} made {p.clients} clients, and the experiment has {e.clients}"
    require(p.clients == e.clients, many)
    sessions = p.sessions[: p.clients]
    often = f"{name}.most_sessions says {e.sessions} searches in a round, and a client makes"
    require(bool((sessions <= e.sessions).all()), f"{often} {sessions.max()}")
    if e.privacy is not None and e.privacy.needs_equal_weights:
        uneven = f"{type(e.privacy).__name__} needs equal weights"
        equal = bool((sessions == sessions[0]).all())
        require(equal, f"{uneven}: every client must search equally often")
    if e.aggregator.trusted_queries:
        count, rule = e.aggregator.trusted_queries, type(e.aggregator).__name__
        many = f"{rule} wants {count} trusted queries, and there are {data.queries}: take fewer"
        require(count < data.queries, many)
        queries = stream(e.seed, "trusted").sample(data.queries, count)
        p = with_server_client(p, queries, e.users, e.learner.sessions)
    return (
        p
        if e.attack is None or e.attack.users is None
        else with_malicious_model(p, e.attack.users)
    )


def malicious_of(e: Experiment) -> Callable[[int, Array], Array]:
    return nobody if e.attackers is None else e.attackers


def delivery_of(e: Experiment, p: Population) -> Delivery:
    changed = e.attack is not None and e.attack.rewrites
    rewrite = (
        MaliciousRewrite(e.attack, malicious_of(e)) if e.attack is not None and changed else None
    )
    host = len(p.first) - 1 if e.aggregator.trusted_queries else None
    return Delivery(rewrite, e.dropout, e.channel, host)


def engine_of(
    e: Experiment,
    p: Population,
    params: Array,
    threads: Threads,
    engine: str | MakeEngine,
    seed: int | None = None,
) -> Engine:
    """`seed` is that of the rounds' draws, if not the experiment's own."""
    return engine_maker(engine)(e, p, params, threads, e.seed if seed is None else seed)


def warmed_up(
    e: Experiment, p: Population, params: Array, threads: Threads, engine: str | MakeEngine
) -> Array:
    """The first parameters, after the server's own client has learned alone, where a partition
    gives it data. It needs no noise: the data is the server's own."""
    if not p.warmup:
        return params
    # nobody would get what this client's device keeps
    learner = e.device_learner.restricted(memory=False)
    made = engine_maker(engine)
    here = made if made.name in ENGINES else Simulated()  # the server's data is not elsewhere
    alone = engine_of(replace(e, privacy=None, learner=learner), p, params, threads, here)
    host, server = np.array([p.clients]), Server(learner, Mean(), e.optimizer)
    start = server.init(params)
    done = federate(
        server, alone, start, p.warmup, lambda t: host, e.seed, lambda state, sent, seen: None
    )
    return done.params
