"""How a run is executed: its threads and its engine. Results do not depend on the threads, and on
the engine only by rounding."""

from __future__ import annotations

from typing import Any

from foltr.errors import require
from foltr.spec import coerce

ENGINES = ("local", "debug")  # compiled kernels; plain definitions


def checked_threads(threads: Any) -> int:
    number: int = coerce(threads, int, "threads")
    require(number >= 1, f"threads must be >= 1, got {number}")
    return number


def check_engine(engine: str) -> None:
    known = " or ".join(map(repr, ENGINES))
    require(engine in ENGINES, f"engine must be {known}, got {engine!r}")


def compiling_notice() -> str:
    """A line for the user if the kernels must be compiled first, which takes a while; else
    nothing."""
    from foltr.kernels import COMPILING, nothing_compiled

    return COMPILING if nothing_compiled() else ""
