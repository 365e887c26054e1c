"""Protocols that only a simulation needs: sources, partitions, attacks, unlearners and
baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from foltr.core import Array, Ask, ClickModel, Cohort
from foltr.core.seeds import Stream
from foltr.core.world.dataset import Dataset
from foltr.core.world.history import History
from foltr.core.world.population import Population


class Source(Protocol):
    """A source of labelled data: a published collection, a user's folder, or synthetic data."""

    @property
    def splits(self) -> tuple[str, ...]: ...  # the names that `load` takes: train, test, ...
    def load(self, split: str) -> Dataset: ...  # one split of the data


class Partition(Protocol):
    """How data and behaviour are distributed over clients. A partition makes tables
    (`population.Population`) and copies no data."""

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population: ...  # the clients, each with its queries, its users and its sessions
    @property
    def identical_clients(self) -> bool:
        """Whether clients hold the same queries and judge and click alike by construction, so that
        measures of single clients would say nothing new."""
        ...

    def most_sessions(self, sessions: int) -> int:
        """The most searches of a client in a round, where the learner asks for `sessions`."""
        ...


class Attack(Protocol):
    """What malicious clients do. They can change only their own clicks and their own messages."""

    @property
    def users(self) -> ClickModel | None:
        """The click model of malicious clients' users, or None if they click honestly."""
        ...

    @property
    def rewrites(self) -> bool:
        """Whether messages are changed by `craft`."""
        ...

    @property
    def overhears(self) -> bool:
        """Whether malicious messages depend on honest clients' messages. Noise on a sum then gives
        no guarantee (`privacy/guarantee.py`)."""
        ...

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        """Raises where m malicious of n clients leave nothing to compute; otherwise returns notes
        for the reader."""
        ...

    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array:
        """The messages (m, d) float32 that the malicious rows send instead of their honest
        updates.

        `malicious` (n,) bool marks at least one row. `cohort` holds the honest updates of all
        clients, `ask` what they were sent: the parameters `ask.params` (d,) float32 and the round
        `ask.t`. An attack that knows only its own updates reads no other row."""
        ...


@dataclass(frozen=True, eq=False)
class Past:
    """A finished training, as an unlearner sees it when clients leave."""

    initial: Array  # (d,) float64, the parameters before the first round
    final: Array  # (d,) float64, the current parameters, which include the leaving clients
    rounds: int  # of training
    sessions: int  # searches per client and round that the learner asks for
    weights: Array  # (clients,) interactions of each client in a round of training
    leaving: Array  # (l,) the clients that leave now
    remaining: Array  # (r,) the clients that stay, without those that left earlier
    history: History | None = None  # the updates that devices stored
    step: float = 1.0  # the server's lr, if it makes plain steps


@dataclass(frozen=True)
class Phase:
    """A number of equal rounds of unlearning.

    `who` says which clients take part: those that leave, those that remain (a share of them, by
    `participation`), or the remaining clients of each stored round in turn."""

    rounds: int  # how many
    # searches per client and round, for a client that makes `Past.sessions` in training; the
    # others in proportion
    sessions: int
    who: Literal["remaining", "leaving", "stored"] = "remaining"  # take part
    # (updates (n, d), clients, t) -> messages (n, d)
    send: Callable[[Array, Array, int], Array] | None = None
    # parameters (d,) after a round -> parameters that the server keeps
    keep: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class PlannedPhase:
    """A phase of unlearning as the privacy ledger counts it, before anything runs."""

    rounds: int  # of a phase of stored rounds: at most
    sessions: int  # as in `Phase`
    who: Literal["remaining", "leaving", "stored"] = "remaining"  # as in `Phase`
    changed: bool = False  # whether the phase has a `send`, which changes messages


class Unlearner(Protocol):
    """How a ranker forgets clients: rounds from given parameters, in which devices may send
    something else than their updates."""

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        """What a device must have stored of the updates that it sent, every `history` rounds."""
        ...

    @property
    def handed(self) -> int:
        """How many vectors (d,) each leaving client sends from its store before the first
        round."""
        ...

    @property
    def subtracts(self) -> bool:
        """Whether contributions are subtracted from the parameters, which needs a training of
        plain steps along means."""
        ...

    @property
    def restarts(self) -> bool:
        """Whether it starts from the initial parameters. Later unlearning then uses only what
        devices store of its rounds; otherwise these are added to the earlier ones."""
        ...

    @property
    def repetition(self) -> int:
        """The number of the random draws: unlearners with equal numbers get the same random draws
        for queries and clicks (0 by default)."""
        ...

    def fits(self, sessions: int) -> tuple[str, ...]:
        """Raises for a training with so many sessions in a round that cannot be unlearned;
        otherwise returns notes for the reader."""
        ...

    def start(self, past: Past) -> Array:
        """The parameters (d,) float64 that unlearning starts from."""
        ...

    def phases(self, past: Past) -> tuple[Phase, ...]: ...  # its rounds, in order

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...] | None:
        """Its phases, for the privacy ledger, which counts them before the first round: of a
        training of so many rounds, with so many sessions in each, of which devices stored at most
        `stored` rounds. None if they are not known: a run with a privatizer is then refused."""
        ...


@dataclass(frozen=True)
class Ranked:
    """A ranker trained on labels."""

    scores: Callable[[Array], Array]  # (m, f) -> (m,)
    params: Array | None  # (f,) the weights, if it is a linear ranker
    model: bytes = b""  # otherwise the model in its library's format


class Baseline(Protocol):
    """A ranker trained on labels, which no device could see: a reference level."""

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked:
        """The ranker trained on the labels of `data`; `validation` is None if there is none."""
        ...
