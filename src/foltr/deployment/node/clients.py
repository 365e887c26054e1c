"""The clients of a node, made from its settings and data: a `Participant` that answers asks."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import numpy as np

from foltr.core import Engine
from foltr.core.errors import require
from foltr.core.seeds import stream
from foltr.core.system.process import Threads
from foltr.core.world.dataset import Dataset
from foltr.core.world.population import Population
from foltr.deployment.keys.device_keys import keys_in
from foltr.deployment.node.logged import Log, Logged
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.deployment.protocol.sums import Known
from foltr.deployment.settings import NodeTable, beside
from foltr.simulation.runs.execution import from_system
from foltr.simulation.runs.unlearn import with_sessions

RECORDS = "records.db"


def records_in(state: Path, agreed: Agreement, with_log: bool) -> Records:
    """The records in a node's state folder. `with_log`: its clients learn from logged clicks."""

    def differs(text: str) -> list[str]:
        return agreed.differences(text, "in the settings", "in the folder")

    return Records(state / RECORDS, agreed.id, agreed.text, differs, with_log)


def learning(
    agreed: Agreement, table: NodeTable, file: Path, records: Records
) -> Callable[[int], Engine]:
    """Load the node's data. Returns a function from searches per client to the engine in which the
    clients learn."""
    data = table.data.load("train")
    wide, wanted = data.width, len(agreed.features)
    differ = f"this node's documents have {wide} features, and the agreement has {wanted}"
    require(wide == wanted, f"{differ}: use other data, or correct features in all settings files")
    seed = seed_of(table, records)
    if table.clicks is not None:
        return logged_engines(agreed, Log(beside(file, table.clicks), data, table.clients), seed)
    return engines(agreed, population_of_node(agreed, table, data, seed), seed)


def participant_with(
    agreed: Agreement,
    table: NodeTable,
    records: Records,
    engine_for: Callable[[int], Engine],
    tell: Callable[[str], None],
    sign_key: bytes | None,
    known: Known | None,
    forgotten: Callable[[], None] = lambda: None,
) -> Participant:
    """The clients of a node, which learn in the engines of `engine_for`. `sign_key` is the node's
    private key for secure sums; `known` returns the public keys of other clients."""
    sums = None
    if agreed.protocol is not None:
        from foltr.deployment.protocol.sums import SumParticipant  # needs cryptography

        sums = SumParticipant(agreed.protocol, agreed.fewest, sign_key, known)
    return Participant(
        agreed,
        None,
        engine_for,
        records,
        count=table.clients,
        offset=None if table.population is None else 0,
        sums=sums,
        tell=tell,
        forgotten=forgotten,
    )


def logged_engines(agreed: Agreement, log: Log, seed: int) -> Callable[[int], Engine]:
    """Engines that learn from logged clicks."""
    learner, noise = agreed.device_learner, 'noise = "address" is for simulated clicks only'
    require(agreed.noise == "system", f"{noise}: leave noise out of all settings files")
    params = agreed.ranker.init(len(agreed.features), stream(0))
    memory = np.tile(learner.remembered(agreed.ranker, params), (log.clients, 1))

    def engine_for(sessions: int) -> Engine:
        many = sessions or agreed.learner.sessions
        return Logged(learner, agreed.ranker, log, many, seed, memory.copy(), agreed.privacy)

    return engine_for


def seed_of(table: NodeTable, records: Records) -> int:
    """The seed of the users' random draws: from the settings, or drawn once and stored."""
    if table.seed is not None:
        return table.seed
    kept = records.about("seed")
    if kept is None:
        kept = str(secrets.randbits(63)).encode()
        records.set_about("seed", kept)
    return int(kept)


def population_of_node(
    agreed: Agreement, table: NodeTable, data: Dataset, seed: int
) -> Population:
    clients, sessions = table.population or table.clients, agreed.learner.sessions
    p = table.partition.population(data, table.users, clients, sessions, seed)
    differs = f"{table.partition!r} made {p.clients} clients, not {clients}"
    require(p.clients == clients, f"{differs}: set clients = {p.clients}, or another partition")
    most = int(p.sessions[:clients].max())
    often = f"a client of this node searches {most} times in a round, and the agreement allows"
    require(most <= agreed.sessions, f"{often} {agreed.sessions}: choose another partition")
    if agreed.privacy is not None and agreed.privacy.needs_equal_weights:
        equal = bool((p.sessions[:clients] == agreed.sessions).all())
        name = type(agreed.privacy).__name__
        require(
            equal,
            f"{name} needs equal weights, and {table.partition!r} gives other numbers of searches"
            f" than {agreed.sessions}: choose another partition",
        )
    return p


def engines(agreed: Agreement, p: Population, seed: int) -> Callable[[int], Engine]:
    """Engines that learn from simulated clicks, by searches per client (0: as the partition
    says)."""
    learner = agreed.device_learner
    params = agreed.ranker.init(len(agreed.features), stream(0))
    memory = np.tile(learner.remembered(agreed.ranker, params), (len(p.first), 1))
    noise = None if agreed.noise == "address" else from_system

    def engine_for(sessions: int) -> Engine:
        from foltr.simulation.engines.local import Local  # loads numba

        given = p if not sessions else with_sessions(p, agreed.learner.sessions, sessions)
        parts = learner, agreed.ranker, given, seed, memory.copy(), agreed.privacy
        return Local(*parts, noise=noise, threads=Threads(1))

    return engine_for


def keys_known(
    agreed: Agreement, table: NodeTable, file: Path, tell: Callable[[str], None]
) -> Known | None:
    """The public keys that sign for clients in a signed sum; None if there are none."""
    signs = agreed.protocol is not None and agreed.protocol.consistency
    unsigned = f"{file}: [node] needs roster, a copy of the roster: the channel says so"
    require(not signs or table.roster is not None, unsigned)
    if table.roster is None:
        return None
    pinned = None if table.device_keys is None else beside(file, table.device_keys)
    return keys_in(beside(file, table.roster), pinned, tell)
