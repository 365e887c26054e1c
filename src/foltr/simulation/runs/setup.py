"""From an experiment to the parts of a federation: clients, delivery of messages, engine; with
checks of the experiment and its data before it runs, and notes for readers of its results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foltr.components.aggregators.mean import Mean
from foltr.core import Array, Engine
from foltr.core.errors import require
from foltr.core.federation import Delivery, Server, federate
from foltr.core.guards import check_initial, check_notes
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import (
    Population,
    nobody,
    with_malicious_model,
    with_server_client,
)
from foltr.experiment import Experiment
from foltr.experiment.compatibility import remarks
from foltr.experiment.malicious import MaliciousRewrite
from foltr.simulation.runs.execution import ENGINES, MakeEngine, Simulated, engine_maker


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
    if e.attack is None or e.attack.users is None:
        return p
    return with_malicious_model(p, e.attack.users)


def delivery_of(e: Experiment, p: Population) -> Delivery:
    rewrite = None
    if e.attack is not None and e.attack.rewrites:
        rewrite = MaliciousRewrite(e.attack, e.attackers or nobody)
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


def validation_of(e: Experiment, train: Dataset) -> Dataset | None:
    """The validation queries, if the experiment uses them; raises if the data has none."""
    if e.evaluate_on is None:
        return None
    name = type(e.data).__name__
    there = f"{name} has no validation queries (vali), only {', '.join(e.data.splits)}"
    require("vali" in e.data.splits, f"evaluate_on='validation': {there}: leave evaluate_on out")
    found: Dataset = e.data.load("vali")
    check_splits(train, found, name, "validation")
    relevant = f"patience={e.patience}: no validation query of {name} has a relevant document"
    require(e.patience is None or bool(found.labels.any()), f"{relevant}: leave patience out")
    return found


def checked_population(e: Experiment, train: Dataset, test: Dataset) -> Population:
    """The clients, if the experiment can be run on this data. Every command that runs an
    experiment or states its guarantee asks here: what a run refuses, no command guarantees."""
    check_splits(train, test, type(e.data).__name__)
    first = e.ranker.init(train.width, stream(e.seed, "init"))
    check_initial(e.ranker, first, train.width)
    return population_of(e, train)


def check_splits(train: Dataset, test: Dataset, source: str, second: str = "test") -> None:
    """Kernels trust that both splits have the same features and grades, and labels that are such
    grades. `second` is the name of the second one."""
    shapes = f"features {train.width} and {test.width}, grades {train.grades} and {test.grades}"
    same = train.width == test.width and train.grades == test.grades
    require(same, f"{source}: train and {second} do not fit together: {shapes}")
    for name, data in (("train", train), (second, test)):
        low, high = int(data.labels.min()), int(data.labels.max())
        reach = f"{source}: labels of {name} reach from {low} to {high}"
        wrong = f"{reach}, but grades are 0 .. {data.grades - 1}"
        require(0 <= low and high < data.grades, wrong)


def notes_of(e: Experiment, train: Dataset, test: Dataset) -> tuple[str, ...]:
    """What a reader of the results should know."""
    notes, size = list(remarks(e)), float(np.abs(train.features[:2000]).max())
    if e.baseline is None:
        notes += check_notes(e.learner, e.learner.fits(e.optimizer))
    if size > 10.0:
        notes.append(
            f"features reach {size:.3g}: raw ones learn badly, most sources have normalize=True"
        )
    if train.content == test.content:
        notes.append("this source has no held-out queries: measured on the training queries")
    if not test.labels[0].any():
        notes.append("no held-out query has a relevant document: nDCG and MRR are undefined")
    if len(train.labels) > 1:
        notes.append(
            f"judged by each of {len(train.labels)} labellings; merged: relevant in any of them"
        )
    return tuple(notes)
