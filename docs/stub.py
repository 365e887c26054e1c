"""Writes src/foltr/__init__.pyi, which tells editors and type checkers what `foltr.PDGD` or
`foltr.compare` is: at run time these names are imported when they are first used.

    python docs/stub.py

A test (tests/unit/test_typing.py) fails if the file is not what this would write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules

import foltr
from foltr.core.spec import FAMILIES

STUB = Path(__file__).resolve().parents[1] / "src" / "foltr" / "__init__.pyi"
FIRST = "# Made by docs/stub.py from the registries: run it after adding a component.\n"


def order(home: tuple[str, str]) -> tuple[str, int, str]:
    """The order in which ruff sorts imports: constants, classes, and then the rest."""
    module, name = home
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return module, kind, name


def homes() -> Iterator[tuple[str, str]]:
    """(module, name) of everything that can be had as `foltr.name`, but for what is not foltr's
    own."""
    for module in iter_modules(foltr.__path__):
        if not module.ispkg and not module.name.startswith("_"):
            yield "foltr", module.name
    for name, module in foltr._HOMES.items():
        yield module, name
    for family in FAMILIES:
        for name, cls in family.members().items():
            if cls.__module__.startswith("foltr."):
                yield cls.__module__, name


def stub() -> str:
    lines = [
        f"from {module} import {name} as {name}\n" for module, name in sorted(homes(), key=order)
    ]
    return "".join([FIRST, "\n", *lines, "\n__version__: str\n"])


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
