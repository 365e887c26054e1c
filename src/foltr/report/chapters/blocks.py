"""The block: a titled text with a table, which is what a chapter adds to the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
