"""Base classes of components, which implement most of a protocol: inherit from one, and implement
the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Self

import numpy as np

from foltr.core import (
    Aggregator,
    Array,
    Ask,
    ClickModel,
    Cohort,
    Learner,
    Memory,
    Optimizer,
    Ranker,
    Withheld,
)
from foltr.core.cohorts import check_pairs, in_order
from foltr.core.errors import Mistake, require
from foltr.core.seeds import Stream
from foltr.core.world.protocols import Past, Phase, PlannedPhase


class LearnerDefaults:
    """Base of learners without memory, with default properties: implement `sessions`,
    `reward_levels`, `learn` and `decode`."""

    separate_searches = False

    def remembered(self, ranker: Ranker, params: Array) -> Array:
        return np.empty(0, np.float32)

    def personal(self, params: Array, memory: Array) -> Array:
        return params

    def check_message(self, payload: Array, weight: float, params: Array) -> None:
        """A message that can be decoded, into a finite direction."""
        name = type(self).__name__
        try:
            decoded = self.decode(payload[None], params)  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001  # made for messages of this learner only
            raise Mistake(f"not a message of {name}: {error}") from None
        fits = decoded.shape == (1, len(params)) and decoded.dtype.kind == "f"
        if not fits:
            raise Mistake(f"not a message of {name}: {payload.dtype} of shape {payload.shape}")
        require(bool(np.isfinite(decoded).all()), f"a message of {name} that is not finite")

    def restricted(
        self, ball: float | None = None, memory: bool = True, single_search: bool = False
    ) -> Self | Learner:
        name = type(self).__name__
        cannot = f"{name} cannot keep its weights in a ball, which this privatizer needs"
        require(ball is None, cannot)
        unknown = f"the audit attacks messages of PDGD and ES, and does not know those of {name}"
        require(not single_search, unknown)
        return self

    def user_draws(self, users: Stream, own: Stream) -> Stream:
        return users

    def fits(self, optimizer: Optimizer) -> tuple[str, ...]:
        return ()


class SendsUpdates(LearnerDefaults):
    """Base of learners whose message is the update itself: implement `sessions` and `learn`."""

    reward_levels = 0

    def decode(self, payloads: Array, params: Array) -> Array:
        return payloads


class OptimizerDefaults:
    """Base of optimizers whose step is not params + lr x direction: implement `init` and
    `__call__`."""

    step_size: float | None = None


class PartitionDefaults:
    """Base of partitions whose clients search as often as the learner asks: implement
    `population`."""

    identical_clients = False

    def most_sessions(self, sessions: int) -> int:
        return sessions


class PrivatizerDefaults:
    """Base of privatizers, which changes nothing: implement `nominal`, `events` and what you
    change."""

    acts_on: Literal["rewards", "updates"] = "updates"

    @property
    def needs_equal_weights(self) -> bool:
        return False

    @property
    def ball(self) -> float | None:
        return None

    @property
    def adds_noise_on_server(self) -> bool:
        """True if the class defines `on_server`."""
        return type(self).on_server is not PrivatizerDefaults.on_server

    @property
    def clips_on_arrival(self) -> bool:
        return False

    def on_reward(self, which: int, values: int, rng: Stream) -> int:
        return which

    def on_client(self, payload: Array, n: int, rng: Stream) -> Array:
        return payload

    def on_arrival(self, updates: Array) -> Array:
        return updates

    def on_server(self, mean: Array, n: int, rng: Stream) -> Array:
        return mean


class AggregatorDefaults:
    """What most aggregators declare."""

    @property
    def looks_at(self) -> Literal["mean", "rows"]:
        return "rows"

    @property
    def is_mean(self) -> bool:
        return False

    @property
    def keeps_agreement(self) -> bool:
        return True

    @property
    def trusted_queries(self) -> int:
        return 0

    @property
    def knows_clients(self) -> bool:
        return False

    def fits(self, n: int) -> tuple[str, ...]:
        return ()


class Memoryless(AggregatorDefaults, ABC):
    """Base of aggregators without memory: implement `combine`."""

    @abstractmethod
    def combine(self, cohort: Cohort) -> Array: ...  # the direction (d,) float64

    def init(self, dim: int) -> Memory:
        return ()

    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]:
        return self.combine(cohort), memory


class Remembering(AggregatorDefaults, ABC):
    """Base of aggregators with memory or random draws: implement `init` and `__call__`."""

    @abstractmethod
    def init(self, dim: int) -> Memory: ...

    @abstractmethod
    def __call__(self, cohort: Cohort, memory: Memory, rng: Stream) -> tuple[Array, Memory]: ...


class AssumesMalicious:
    """Base of aggregators that assume a number of `malicious` clients."""

    malicious: int  # how many clients are assumed to be malicious

    def __post_init__(self) -> None:
        require(self.malicious >= 0, f"malicious must be >= 0, got {self.malicious}")


class WrapsRule(Remembering):
    """Base of aggregators that change the rows before another `rule` gets them: implement
    `__call__` and `fits`."""

    rule: Aggregator  # gets the changed rows

    def __post_init__(self) -> None:
        single = (
            f"{self.rule!r} remembers single clients, and {type(self).__name__} mixes them first"
        )
        require(
            not self.rule.knows_clients, f"{single}: put it outside, as in Gated(fallback=...)"
        )

    @property
    def keeps_agreement(self) -> bool:
        return self.rule.keeps_agreement

    @property
    def trusted_queries(self) -> int:
        return self.rule.trusted_queries

    def init(self, dim: int) -> Memory:
        return self.rule.init(dim)


class NeedsMany(AggregatorDefaults, ABC):
    """Second base, beside one of the above, of aggregators that need a minimum number of updates:
    implement `fewest`, call `arrived` first in `combine` or `__call__`, and implement `notes` if a
    proof needs more clients. Too few clients are refused before anything runs; a round with too
    few messages is withheld."""

    @property
    @abstractmethod
    def fewest(self) -> tuple[int, str]:
        """The smallest number of updates that it needs, and its formula: (4, "n > m + 2")."""

    def notes(self, n: int) -> tuple[str, ...]:
        """Notes for the reader on n clients in a round, one sentence each."""
        return ()

    def fits(self, n: int) -> tuple[str, ...]:
        fewest, bound = self.fewest
        require(
            n >= fewest,
            f"{self!r} needs {bound}, at least {fewest} clients in a round: here n = {n}",
        )
        return self.notes(n)

    def arrived(self, cohort: Cohort) -> Cohort:
        """The cohort in the order of client ids; raises Withheld if it has too few updates."""
        if len(cohort) < self.fewest[0]:
            raise Withheld(f"{self!r} got {len(cohort)} updates, and needs {self.fewest[0]}")
        return in_order(cohort)


class ComparesPairs(NeedsMany):
    """`NeedsMany` for aggregators that hold the distances of all pairs of updates: more clients
    than fit in memory are refused before anything runs."""

    bytes_per_pair = 8  # of memory; a distance is a number of eight bytes

    def fits(self, n: int) -> tuple[str, ...]:
        notes = super().fits(n)
        check_pairs(self, n, self.bytes_per_pair)
        return notes


class ChangesMessages(ABC):
    """Base of attacks whose users click honestly: implement `craft`, and `fits` if there is
    something to check or to note. Its messages may depend on those of honest clients, unless the
    class says `overhears = False`."""

    rewrites = True

    @property
    def overhears(self) -> bool:
        return True

    @property
    def users(self) -> ClickModel | None:
        return None

    def fits(self, n: int, m: int) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def craft(self, cohort: Cohort, malicious: Array, ask: Ask, rng: Stream) -> Array: ...


class HasKnowledge(ChangesMessages):
    """Base of attacks with a field `knowledge`: 'own' (the updates of malicious clients) or 'all'
    (those of all clients)."""

    knowledge: Literal["own", "all"]  # whose updates it reads

    @property
    def overhears(self) -> bool:
        return self.knowledge == "all"


class TableClickModel(ABC):
    """Base of click models that are two tables: scan top-down, click with P(click | rank, grade),
    and only after a click stop with P(stop | rank, grade)."""

    @abstractmethod
    def tables(self, grades: int, depth: int) -> tuple[Array, Array]: ...

    def clicks(self, shown: Array, grades: int, rng: Stream) -> Array:
        tables = self.tables(grades, len(shown))
        if tables is None:
            name = type(self).__name__
            raise Mistake(f"{name}.tables gave nothing: return two tables, or write {name}.clicks")
        click, stop = tables
        clicked = np.zeros(len(shown), bool)
        for j, grade in enumerate(shown):
            clicked[j] = rng.uniform() < click[j, grade]
            if not clicked[j]:
                rng.skip()
            elif rng.uniform() < stop[j, grade]:
                break
        return clicked


class UnlearnerDefaults(ABC):
    """Base of unlearners that continue from the final parameters and need no stored updates:
    implement `phases`, and `planned` for use with a privatizer."""

    subtracts = False
    restarts = False

    @property
    def repetition(self) -> int:
        return 0

    @property
    def handed(self) -> int:
        return 0

    @property
    def stores(self) -> Literal["nothing", "norms", "updates"]:
        return "nothing"

    def fits(self, sessions: int) -> tuple[str, ...]:
        return ()

    def start(self, past: Past) -> Array:
        return past.final

    @abstractmethod
    def phases(self, past: Past) -> tuple[Phase, ...]: ...

    def planned(self, rounds: int, sessions: int, stored: int) -> tuple[PlannedPhase, ...] | None:
        return None
