"""The chapters of the page: those of this folder, and those of users' files (`foltr report --use
my_chapter.py`). A chapter is a function of the runs with `@chapter` above it. It returns blocks: a
titled text with a table each."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from foltr.core.errors import Mistake, require, shown
from foltr.core.system.tables import NONE, SHADES
from foltr.report.matrix import MARK_MEANING
from foltr.report.results import Runs

SHOWN = 50  # more rows of a kind than that are counted, not shown
UNFOLDED = 3  # if a chapter has more detailed tables than that, they are folded
TOGETHER = 3  # conditions side by side in a summary
T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than text."""

    text: str
    aside: str = ""  # smaller, behind the text
    below: str = ""  # smaller, in a line of its own
    mark: str = ""  # of a test, see `matrix.MARK_MEANING`
    best: bool = False  # the highest value of those it is compared with
    shade: int = 0  # 1 .. 4: how large the loss is


TableCell = str | Cell
Column = tuple[str, Sequence[TableCell]]  # its head and its cells


@dataclass(frozen=True)
class Block:
    title: str
    text: str  # a few sentences
    rows: tuple[tuple[TableCell, ...], ...] = ()  # the first row names the columns
    chapter: str = ""  # the heading it stands under, before the curves; "" for a note at the end
    folded: bool = False  # shown when the reader opens it


def side_by_side(columns: Sequence[T]) -> Iterator[tuple[str, Sequence[T]]]:
    """Divide the columns of a summary into parts that fit on the page. Each part comes with what
    its title adds: " (1 of 2)"."""
    starts = range(0, len(columns), TOGETHER)
    for i, start in enumerate(starts):
        part = f" ({i + 1} of {len(starts)})" if len(starts) > 1 else ""
        yield part, columns[start : start + TOGETHER]


def table_block(title: str, text: str, columns: Sequence[Column], chapter: str) -> Block:
    """A block of columns, of which the first names the rows. A row without any other value is left
    out."""
    heads = tuple(head for head, _ in columns)
    rows = zip(*(cells for _, cells in columns), strict=True)
    known = [row for row in rows if any(cell != NONE for cell in row[1:])]
    return Block(title, text, (heads, *known), chapter)


# looks at the runs: a block, several blocks, or None if the runs are not of its kind
Contribution = Callable[[Runs], Block | Iterable[Block] | None]
FOLDER = Path(__file__).parent
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
    def file(self) -> Path:
        return Path(self.function.__code__.co_filename)

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
    modules = [import_module(f"{__package__}.{each.name}") for each in iter_modules([str(FOLDER)])]
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


def blocks(runs: Runs) -> list[Block]:
    """The blocks of all chapters, in the order of the page. An error of a user's chapter names its
    file and line."""
    found: list[Block] = []
    for each in chapters():
        try:
            made = each.function(runs)
            several: Any = [made] if isinstance(made, Block) else () if made is None else made
            found += several if each.is_ours else _checked(each, several)
        except Mistake:
            raise
        except Exception as error:
            if each.is_ours:
                raise
            lines = [
                line
                for frame, line in traceback.walk_tb(error.__traceback__)
                if frame.f_code.co_filename == str(each.file)
            ]
            where = f"{each.file.name}, line {lines[-1] if lines else '?'}"
            raise Mistake(
                f"the chapter {each.name} failed ({where}): {type(error).__name__}: {error}"
            ) from error
    return found


def _checked(chapter: Chapter, made: Any) -> list[Block]:
    """What a user's chapter returns: blocks, whose parts are text."""
    who = f"the chapter {chapter.name} ({chapter.file.name})"
    if not isinstance(made, list | tuple) or not all(isinstance(each, Block) for each in made):
        raise Mistake(f"{who} must return a Block, a list of them or None, got {shown(made)}")
    for block in made:
        for name in ("title", "text", "chapter"):
            if not isinstance(getattr(block, name), str):
                raise Mistake(f"{who}: the {name} of a Block is text, got {shown(block)}")
        if not isinstance(block.rows, list | tuple):
            raise Mistake(f"{who}: the rows of a Block are a tuple of rows, got {shown(block)}")
        for row in block.rows:
            if not isinstance(row, list | tuple) or not row or len(row) != len(block.rows[0]):
                raise Mistake(f"{who}: every row needs as many cells as the first, got {row!r}")
            for cell in row:
                _check_cell(who, cell)
        if block.rows and not all(isinstance(head, str) for head in block.rows[0]):
            raise Mistake(f"{who}: the first row names the columns, got {block.rows[0]!r}")
        if block.chapter and not all(isinstance(row[0], str) for row in block.rows):
            raise Mistake(f"{who}: the first cell of a row is its name, and plain text")
    return list(made)


def _check_cell(who: str, cell: Any) -> None:
    texts = [cell.text, cell.aside, cell.below] if isinstance(cell, Cell) else [cell]
    if not all(isinstance(text, str) for text in texts):
        raise Mistake(f'{who}: a cell is text, got {shown(cell)}: write f"{{value:.3f}}"')
    if isinstance(cell, Cell):
        if cell.mark and cell.mark not in MARK_MEANING:
            raise Mistake(f"{who}: a mark is one of {' '.join(MARK_MEANING)}, got {cell.mark!r}")
        if type(cell.shade) is not int or not 0 <= cell.shade <= len(SHADES):
            raise Mistake(f"{who}: a shade is 0 .. {len(SHADES)}, got {cell.shade!r}")
