"""The spine that all of foltr shares: the data and the protocols of a round, the round itself,
random draws, specs, errors. Read `types.py` first, then `federation.py`.

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
