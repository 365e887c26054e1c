"""A node's side: its clients from its own data, as a `Device` that answers asks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from foltr.core import Array, Engine
from foltr.errors import require
from foltr.federated.agreement import Agreement
from foltr.federated.device import Device
from foltr.federated.records import Records
from foltr.federated.roster_file import read_roster
from foltr.runs.execution import from_system
from foltr.runs.unlearn import with_sessions
from foltr.seeds import stream
from foltr.serving.logged import Log, Logged
from foltr.serving.settings import NodeTable, beside
from foltr.system.threads import Threads
from foltr.world.dataset import Dataset
from foltr.world.population import Population

RECORDS = "records.db"


def device_of(
    agreed: Agreement,
    table: NodeTable,
    file: Path,
    tell: Callable[[str], None],
    sign_key: bytes | None = None,
    known: Callable[[Array], Mapping[int, bytes]] | None = None,
) -> Device:
    """The clients of a node, by its settings `file`. `sign_key` and `known` are its private key
    and the others' public ones, for secure sums. Their data is loaded now."""
    state = beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    records = Records(state / RECORDS, agreed.id)
    engine_for = learning(agreed, table, file, records)
    return device_with(agreed, table, records, engine_for, tell, sign_key, known)


def learning(
    agreed: Agreement, table: NodeTable, file: Path, records: Records
) -> Callable[[int], Engine]:
    """Where the node's clients learn, from its data."""
    data = table.data.load("train")
    wide, wanted = data.width, len(agreed.features)
    differ = f"this node's documents have {wide} features, and {wanted} are agreed"
    require(wide == wanted, f"{differ}: its data does not fit the federation's model")
    seed = seed_of(table, records)
    if table.clicks is not None:
        return logged_engines(agreed, Log(beside(file, table.clicks), data, table.clients), seed)
    return engines(agreed, population_of_node(agreed, table, data, seed), seed)


def device_with(
    agreed: Agreement,
    table: NodeTable,
    records: Records,
    engine_for: Callable[[int], Engine],
    tell: Callable[[str], None],
    sign_key: bytes | None,
    known: Callable[[Array], Mapping[int, bytes]] | None,
) -> Device:
    """A device whose clients learn where `engine_for` says."""
    offset = None if table.population is None else 0
    device = Device(
        agreed, None, engine_for, records, count=table.clients, offset=offset, tell=tell
    )
    if agreed.protocol is not None:
        from foltr.federated.sum_device import SumDevice  # needs cryptography

        device.sums = SumDevice(agreed.protocol, agreed.fewest, sign_key, known)
    return device


def logged_engines(agreed: Agreement, log: Log, seed: int) -> Callable[[int], Engine]:
    """Where clients learn from logged clicks. One more number is kept: the place in the log."""
    learner, noise = agreed.device_learner, "noise by address is for simulated clicks"
    require(agreed.noise == "system", f"{noise}: leave it out of the settings")
    params = agreed.ranker.init(len(agreed.features), stream(0))
    kept = np.append(learner.remembered(agreed.ranker, params), np.float32(0.0))
    memory = np.tile(kept, (log.clients, 1)).astype(np.float32)

    def engine_for(sessions: int) -> Engine:
        many = sessions or agreed.learner.sessions
        return Logged(learner, agreed.ranker, log, many, seed, memory.copy(), agreed.privacy)

    return engine_for


def seed_of(table: NodeTable, records: Records) -> int:
    """The seed of the users' draws: from the settings, or drawn once and kept on this node."""
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
    require(p.clients == clients, f"{table.partition!r} made {p.clients} clients, not {clients}")
    most = int(p.sessions[:clients].max())
    often = f"a client of this node searches {most} times in a round"
    require(most <= agreed.sessions, f"{often}, and {agreed.sessions} are agreed")
    if agreed.privacy is not None and agreed.privacy.needs_equal_weights:
        equal = bool((p.sessions[:clients] == agreed.sessions).all())
        name = type(agreed.privacy).__name__
        require(
            equal, f"{name} needs equal weights: every client searches {agreed.sessions} times"
        )
    return p


def engines(agreed: Agreement, p: Population, seed: int) -> Callable[[int], Engine]:
    """Where the clients learn, by searches per client (0: as their partition says)."""
    learner = agreed.device_learner
    params = agreed.ranker.init(len(agreed.features), stream(0))
    memory = np.tile(learner.remembered(agreed.ranker, params), (len(p.first), 1))
    noise = None if agreed.noise == "address" else from_system

    def engine_for(sessions: int) -> Engine:
        from foltr.engines.local import Local  # loads numba

        given = p if not sessions else with_sessions(p, agreed.learner.sessions, sessions)
        parts = learner, agreed.ranker, given, seed, memory.copy(), Threads(1)
        return Local(*parts, privacy=agreed.privacy, noise=noise)

    return engine_for


def signers(roster_file: Path) -> Callable[[Array], Mapping[int, bytes]]:
    """The public keys that sign for clients, by a roster that this node has pinned."""
    return read_roster(roster_file).signers
