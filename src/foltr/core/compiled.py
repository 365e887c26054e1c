"""Which code computes a definition: its own, or a compiled kernel that stands for it.

Everybody calls definitions. Whoever chooses the engine chooses the kernels (`using`), for a block
of code and the threads that share its work (`system.process.Threads`): the local engine has a
table of them, the debug engine has none. Without such a block, definitions compute themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar

Definition = TypeVar("Definition", bound=Callable[..., Any])
Kernels = Mapping[Callable[..., Any], Callable[..., Any]]
NO_KERNELS: Kernels = MappingProxyType({})

_kernels: ContextVar[Kernels] = ContextVar("kernels", default=NO_KERNELS)


def replaceable(definition: Definition) -> Definition:
    """A function that a kernel with the same arguments and result can stand for."""

    @wraps(definition)
    def computed(*args: Any, **kwargs: Any) -> Any:
        return _kernels.get().get(computed, definition)(*args, **kwargs)

    return computed  # type: ignore[return-value]


@contextmanager
def using(kernels: Kernels) -> Iterator[None]:
    """Within the block, kernels[f] computes what the replaceable f defines; others compute
    themselves."""
    token = _kernels.set(kernels)
    try:
        yield
    finally:
        _kernels.reset(token)


def uses_kernels() -> bool:
    """Whether this code is in a block where kernels stand for definitions."""
    return bool(_kernels.get())
