"""The chapters of the page: those of this folder, and those of users' files (`foltr report --use
my_chapter.py`). A chapter is a function of the runs with `@chapter` above it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from foltr.errors import Mistake, require
from foltr.report.chapters.blocks import Block
from foltr.results import Runs

# looks at the runs: a block, several blocks, or None if the runs are not of its kind
Contribution = Callable[[Runs], Block | Sequence[Block] | None]
FOLDER = [str(Path(__file__).parent)]
MARK = "__foltr_chapter__"  # the attribute of a function of foltr's that is a chapter
LAST = 100.0  # the place of a chapter that says nothing about it: behind those of foltr
_of_users: list[Chapter] = []  # also those of files that were loaded again since


@dataclass(frozen=True)
class Chapter:
    """A function that adds blocks to the page, and its place among the others."""

    function: Contribution
    place: float = LAST

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def file(self) -> str:
        return self.function.__code__.co_filename

    @property
    def is_ours(self) -> bool:
        return self.function.__module__.startswith("foltr.")

    @property
    def is_replaced(self) -> bool:
        """Whether the user's file was loaded again since (`foltr.use`)."""
        name = self.function.__module__
        module = sys.modules.get(name)
        gone = module is None or self.function.__globals__ is not vars(module)
        return gone and name != "__main__"  # code of a notebook or of a prompt is in no file


def chapter(function: Contribution | None = None, *, place: float = LAST) -> Any:
    """Register a function of the runs as a chapter: `@chapter`, or `@chapter(place=5)`. Chapters
    stand in the order of their places; those of equal places by name."""
    if function is None:
        number = isinstance(place, int | float) and not isinstance(place, bool)
        require(number, f"@chapter: the place is a number, got {place!r}")
        return partial(chapter, place=place)
    wanted = "@chapter is for a function of the runs: write def my_chapter(runs):"
    require(inspect.isfunction(function), f"{function!r} is no function: {wanted}")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise Mistake(f"{function.__name__}: {error}: {wanted}") from None
    made = Chapter(function, place)
    if made.is_ours:
        vars(function)[MARK] = made  # found in its module, whoever imported that first
    else:
        _of_users.append(made)
    return function


def chapters() -> list[Chapter]:
    """All chapters, in the order of the page: always all of foltr's own, and those of users' files
    as these were last loaded."""
    modules = [import_module(f"{__package__}.{each.name}") for each in iter_modules(FOLDER)]
    ours = [
        vars(function)[MARK]
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if inspect.getmodule(function) is module and MARK in vars(function)
    ]
    users = {  # a notebook's cell that runs again replaces its chapter
        (each.function.__module__, each.function.__qualname__): each
        for each in _of_users
        if not each.is_replaced
    }
    return sorted([*ours, *users.values()], key=lambda each: (each.place, each.name))
