"""The blocks of all chapters and notes of the page, in their order."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, shown
from foltr.report.chapters.blocks import Block, Cell
from foltr.report.chapters.registry import Chapter, chapters
from foltr.report.matrix import MARK_MEANING
from foltr.report.number_format import SHADES
from foltr.results import Runs


def blocks(runs: Runs) -> list[Block]:
    """The blocks of all chapters. An error of a user's chapter names its file and line."""
    found: list[Block] = []
    for each in chapters():
        try:
            made = each.function(runs)
        except Mistake:
            raise
        except Exception as error:
            if each.is_ours:
                raise
            raise Mistake(_failure(each, error)) from error
        several: Any = [made] if isinstance(made, Block) else () if made is None else made
        found += several if each.is_ours else _checked(each, several)
    return found


def _failure(chapter: Chapter, error: Exception) -> str:
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == chapter.file
    ]
    where = f"{Path(chapter.file).name}, line {lines[-1] if lines else '?'}"
    return f"the chapter {chapter.name} failed ({where}): {type(error).__name__}: {error}"


def _checked(chapter: Chapter, made: Any) -> list[Block]:
    """What a user's chapter returns: blocks, whose parts are text."""
    who = f"the chapter {chapter.name} ({Path(chapter.file).name})"
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
