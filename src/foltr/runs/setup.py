"""From an experiment to what a federation is made of: its people, who of them lies, what becomes
of messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.components.learners._personal import Residual
from foltr.core import Array, require
from foltr.engines.debug import Debug
from foltr.experiment import Experiment
from foltr.federation import Delivery, Server, federate, nobody
from foltr.seeds import stream
from foltr.simulation.malicious import Attacked, Malicious
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset
from foltr.world.population import Population, with_deceit, with_host


def population_of(e: Experiment, data: Dataset) -> Population:
    """Who searches in the experiment's data, or in another split of it."""
    p = e.partition.population(data, e.users, e.clients, e.learner.sessions, e.seed)
    name = type(e.partition).__name__
    require(
        isinstance(p, Population), f"{name}.population gave no Population, but {type(p).__name__}"
    )
    require(
        p.clients == e.clients,
        f"{name} made {p.clients} clients, and the experiment has {e.clients}",
    )
    often = (
        f"{name}.most says {e.sessions} searches in a round, and a client makes"
        f" {p.sessions[: p.clients].max()}"
    )
    require(bool((p.sessions[: p.clients] <= e.sessions).all()), often)
    if e.privacy is not None and e.privacy.even:
        uneven = (
            f"{type(e.privacy).__name__} needs equal weights: every client must search equally"
            " often"
        )
        require(bool((p.sessions[: p.clients] == p.sessions[0]).all()), uneven)
    if e.aggregator.trusted:
        rule = type(e.aggregator).__name__
        many = (
            f"{rule} wants {e.aggregator.trusted} trusted queries, and there are {data.queries}:"
            " take fewer"
        )
        require(e.aggregator.trusted < data.queries, many)
        queries = stream(e.seed, "trusted").sample(data.queries, e.aggregator.trusted)
        p = with_host(p, queries, e.users, e.learner.sessions)
    return p if e.attack is None or e.attack.users is None else with_deceit(p, e.attack.users)


def malicious_of(e: Experiment) -> Callable[[int, Array], Array]:
    return nobody if e.attack is None else Malicious(e.clients, e.malicious, e.roaming, e.seed)


def delivery_of(e: Experiment, p: Population) -> Delivery:
    rewrite = (
        Attacked(e.attack, malicious_of(e)) if e.attack is not None and e.attack.rewrites else None
    )
    return Delivery(
        rewrite, e.dropout, e.channel, len(p.first) - 1 if e.aggregator.trusted else None
    )


def engine_of(
    e: Experiment,
    p: Population,
    params: Array,
    threads: Threads,
    kind: str,
    seed: int | None = None,
) -> Any:
    """`seed` is that of the rounds' luck, if not the experiment's own."""
    kept = e.device_learner.remembered(e.ranker, params.astype(np.float32))
    memory = np.tile(kept, (len(p.first), 1))  # (clients, numbers kept on each device)
    malicious, parts = (
        malicious_of(e),
        (
            e.device_learner,
            e.ranker,
            p,
            e.seed if seed is None else seed,
            memory,
        ),
    )
    if kind == "debug":
        return Debug(*parts, privacy=e.privacy, malicious=malicious)
    from foltr.engines.local import Local

    return Local(*parts, threads, privacy=e.privacy, malicious=malicious)


def warmed(e: Experiment, p: Population, params: Array, threads: Threads, kind: str) -> Array:
    """The first parameters, after the server's own client has learned alone, where a partition
    gives it data. Nobody is to be protected from the server by noise on the server's own data."""
    if not p.warmup:
        return params
    own = e.device_learner
    # what a device keeps to itself, nobody would get
    learner = own.learner if isinstance(own, Residual) else own
    engine = engine_of(replace(e, privacy=None, learner=learner), p, params, threads, kind)
    host, server = np.array([p.clients]), Server(learner, Mean(), e.optimizer)
    done = federate(
        server, engine, server.init(params), p.warmup, lambda t: host, e.seed, lambda *seen: None
    )
    return done.params
