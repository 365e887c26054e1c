"""What only a simulated world has: data with labels, who holds it, who attacks, and rankers
trained on labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from foltr.core import Array, ClickModel, Cohort

if TYPE_CHECKING:
    from foltr.seeds import Stream
    from foltr.world.dataset import Dataset
    from foltr.world.history import History
    from foltr.world.population import Population


class Source(Protocol):
    """Where ranked data comes from: a published collection, anyone's folder, or a synthetic
    one."""

    @property
    def splits(self) -> tuple[str, ...]: ...
    def load(self, split: str) -> Dataset: ...


class Partition(Protocol):
    """Who holds which documents, judges and clicks how, and searches how often. A partition is
    tables, see `foltr.world.population`; it copies no data."""

    def population(
        self, data: Dataset, users: ClickModel, clients: int, sessions: int, seed: int
    ) -> Population: ...
    def most(self, sessions: int) -> int:
        """The most searches of a client in a round, where the learner asks for `sessions`."""
        ...


class Attack(Protocol):
    """What malicious clients do. They touch nothing but their own clicks and their own
    messages."""

    @property
    def users(self) -> ClickModel | None:
        """How the users of malicious clients click; None for honestly."""
        ...

    @property
    def rewrites(self) -> bool:
        """Whether messages are changed: by `craft`."""
        ...

    @property
    def overhears(self) -> bool:
        """Whether what malicious clients send depends on what honest clients send: then noise on a
        sum promises nothing (`privacy/ledger.py`)."""
        ...

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        """Refuses m malicious of n clients where there is nothing to compute; else what a reader
        should know of it."""
        ...

    def craft(self, cohort: Cohort, malicious: Array, params: Array, rng: Stream) -> Array:
        """What the malicious rows (n,) bool, at least one, send instead of their honest updates:
        (m, d) float32.

        `cohort` holds what all clients would send honestly, `params` (d,) float32 is what they
        got. Who knows only their own updates looks at no other row."""
        ...


@dataclass(frozen=True, eq=False)
class Past:
    """What a federation looks back on when clients leave it."""

    initial: Array  # (d,) float64, the parameters before the first round
    final: Array  # (d,) float64, those with the leaving clients in them
    rounds: int  # of training
    sessions: int  # that the learner asks a client for in a round
    weights: Array  # (clients,) interactions of each client in a round of training
    leaving: Array  # (l,) those who leave now
    remaining: Array  # (r,) without those who left before
    history: History | None = None  # what devices stored
    step: float = 1.0  # the server's lr, where it makes plain steps


@dataclass(frozen=True)
class Phase:
    """Rounds of unlearning that are made alike. Asked are all clients who leave, the remaining
    ones (a part of them, as `participation` says), or of the latter those who took part in the
    stored rounds, one after the other."""

    rounds: int
    # of each client in a round, where the learner asks for as many as in training; others in
    # proportion
    sessions: int
    who: Literal["remaining", "leaving", "stored"] = "remaining"
    send: Callable[[Array, Array, int], Array] | None = (
        None  # (updates (n, d), clients, t) -> what is sent
    )
    keep: Callable[[Array], Array] | None = (
        None  # parameters (d,) after a round -> those that the server keeps
    )


class Unlearner(Protocol):
    """How a ranker forgets clients: rounds from some parameters, in which devices may change what
    they send."""

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        """What a device must have stored of the updates that it sent, every so many rounds."""
        ...

    @property
    def handed(self) -> int:
        """How many vectors (d,) each leaving client takes from its store and hands to the server,
        before round 0."""
        ...

    @property
    def subtracts(self) -> bool:
        """Whether it takes contributions out of a sum, so that training must be plain steps along
        means."""
        ...

    @property
    def restarts(self) -> bool:
        """Whether it begins anew, so that what devices store of its rounds is all that counts;
        else it is added to what was stored before."""
        ...

    @property
    def luck(self) -> int:
        """Unlearners of equal luck meet users of equal luck; 0 for all who do not ask for
        another."""
        ...

    def fits(self, sessions: int) -> tuple[str, ...]:
        """Refuses a training of so many sessions in a round; else what a reader should know of
        it."""
        ...

    def start(self, past: Past) -> Array:
        """The parameters (d,) float64 that unlearning begins with."""
        ...

    def phases(self, past: Past) -> tuple[Phase, ...]: ...


@dataclass(frozen=True)
class Ranked:
    """A ranker that was trained on labels."""

    scores: Callable[[Array], Array]  # (m, f) -> (m,)
    params: Array | None  # (f,) of the linear ranker that it is, if it is one
    model: bytes = b""  # else what its library writes and reads


class Baseline(Protocol):
    """A ranker trained on labels, which no device could see: a level to compare with."""

    def fit(self, data: Dataset, validation: Dataset | None, seed: int) -> Ranked: ...
