"""How a run is executed: its threads and its engine. Results do not depend on the threads, and on
the engine only by rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from foltr.core import Array, Engine
from foltr.core.compiled import Kernels
from foltr.core.errors import require
from foltr.core.seeds import Stream, SystemStream
from foltr.core.spec import coerce
from foltr.core.system.process import Threads
from foltr.core.world.population import Population, nobody
from foltr.experiment import Experiment
from foltr.simulation.engines.debug import Debug
from foltr.simulation.runs.identity import PLAIN

ENGINES = ("local", PLAIN)  # compiled kernels; plain definitions


class MakeEngine(Protocol):
    """Makes the engine of a run. Anything that has these members can be given as `engine`."""

    @property
    def name(self) -> str:
        """The engine's name in result.json."""
        ...

    @property
    def checkpoint_seconds(self) -> float | None:
        """The seconds from one checkpoint to the next; 0 for one after every round, before the
        next one is sent; None for the default of simulations."""
        ...

    def __call__(
        self, e: Experiment, p: Population, params: Array, threads: Threads, seed: int
    ) -> Engine: ...


@dataclass(frozen=True)
class Simulated:
    """All clients in this process, by an engine of one of the names `ENGINES`."""

    name: str = ENGINES[0]
    checkpoint_seconds: float | None = None
    noise: Literal["address", "system"] = "address"  # 'system' on real devices

    def __post_init__(self) -> None:
        check_engine(self.name)

    def __call__(
        self, e: Experiment, p: Population, params: Array, threads: Threads, seed: int
    ) -> Engine:
        parts = e.device_learner, e.ranker, p, seed, first_memory(e, p, params)
        malicious = nobody if e.attackers is None else e.attackers
        noise = None if self.noise == "address" else from_system
        how: dict[str, Any] = {"privacy": e.privacy, "malicious": malicious, "noise": noise}
        if self.name == PLAIN:
            return Debug(*parts, **how)
        from foltr.simulation.engines.local import Local  # loads numba

        return Local(*parts, threads=threads, **how)


def kernels_of(engine: MakeEngine) -> Kernels:
    """The kernels that compute a run's results: none in the plain engine."""
    if engine.name == PLAIN:
        return {}
    from foltr.simulation.engines.twins import KERNELS  # loads numba

    return KERNELS


def from_system(client: int) -> Stream:
    """The stream of a real device's noise: nobody can repeat it."""
    return SystemStream()


def first_memory(e: Experiment, p: Population, params: Array) -> Array:
    """What each device keeps before the first round."""  # (clients, numbers)
    kept = e.device_learner.remembered(e.ranker, params.astype(np.float32))
    return np.tile(kept, (len(p.first), 1))


def engine_maker(engine: str | MakeEngine) -> MakeEngine:
    return Simulated(engine) if isinstance(engine, str) else engine


def checked_threads(threads: Any) -> int:
    number: int = coerce(threads, int, "threads")
    require(number >= 1, f"threads must be >= 1, got {number}")
    return number


def check_engine(engine: str) -> None:
    known = " or ".join(map(repr, ENGINES))
    require(engine in ENGINES, f"engine must be {known}, got {engine!r}")


def compiling_notice(engine: str = ENGINES[0]) -> str:
    """A line for the user if the engine's kernels must be compiled first, which takes a while;
    else nothing."""
    if engine == PLAIN:
        return ""
    from foltr.kernels import COMPILING, nothing_compiled

    return COMPILING if nothing_compiled() else ""
