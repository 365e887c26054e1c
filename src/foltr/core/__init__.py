"""The spine that all of foltr shares. Read `types.py` first: the data of a round and the protocols
of its components. Then `federation.py`: the round itself.

The names of `types` can be imported from here. They are loaded when they are first used, because
they need NumPy, and errors and files do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foltr.core.types import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import foltr.core.types as types

    globals()[name] = value = getattr(types, name)  # found here from now on
    return value
