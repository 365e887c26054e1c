"""How a run is executed: its threads, its engine, and what is recorded besides the usual. Results
do not depend on the threads, and on the engine only by rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from foltr.core import Array, Engine
from foltr.core.compiled import Kernels
from foltr.core.errors import require
from foltr.core.seeds import Stream, SystemStream
from foltr.core.spec import coerce
from foltr.core.system.process import Threads
from foltr.core.world.measures import Measure
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
        kept = e.device_learner.remembered(e.ranker, params.astype(np.float32))
        memory = np.tile(kept, (len(p.first), 1))  # (clients, numbers) before the first round
        parts = e.device_learner, e.ranker, p, seed, memory
        noise = None if self.noise == "address" else from_system
        how: dict[str, Any] = {
            "privacy": e.privacy, "malicious": e.attackers or nobody, "noise": noise,
        }  # fmt: skip
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


def engine_maker(engine: str | MakeEngine) -> MakeEngine:
    return Simulated(engine) if isinstance(engine, str) else engine


def checked_threads(threads: Any) -> int:
    number: int = coerce(threads, int, "threads")
    require(number >= 1, f"threads must be >= 1, got {number}")
    return number


def check_engine(engine: str) -> None:
    known = " or ".join(map(repr, ENGINES))
    require(engine in ENGINES, f"engine must be {known}, got {engine!r}")


@dataclass(frozen=True)
class RunOptions:
    """What may be chosen for a run beside its experiment. Its identity does not depend on it."""

    threads: int = 1
    engine: str | MakeEngine = ENGINES[0]
    per_query: bool = False  # keep the final ranker's measures on each held-out query
    measures: str | Sequence[str | Measure] = ()  # recorded besides the usual columns
    log: str | Sequence[str] = ()  # tools that log the run: `runs.sinks`

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", checked_threads(self.threads))
        if isinstance(self.engine, str):
            check_engine(self.engine)


USUAL = RunOptions()


def compiling_notice(engine: str = ENGINES[0]) -> str:
    """A line for the user if the engine's kernels must be compiled first, which takes a while;
    else nothing."""
    if engine == PLAIN:
        return ""
    from foltr.kernels import COMPILING, nothing_compiled

    return COMPILING if nothing_compiled() else ""
