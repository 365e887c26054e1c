"""The blocks of all chapters and notes of the page, in their order."""

from __future__ import annotations

import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, shown
from foltr.core.system.tables import SHADES
from foltr.report.chapters.registry import SHOWN, Block, Cell, Chapter, chapter, chapters
from foltr.report.matrix import MARK_MEANING
from foltr.report.measures import column
from foltr.report.results import Runs
from foltr.report.tuning import chosen_before
from foltr.simulation.runs.columns import VALIDATION


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


# Notes that runs recorded, and runs that a report leaves out.


@chapter(place=10)
def recorded_notes(runs: Runs) -> Block | None:
    """The notes of the runs, each with the number of its runs."""
    counts = Counter(str(note) for run in runs for note in run.final.get("notes") or ())
    if not counts:
        return None
    rows = [(note, f"{n:,} of {len(runs):,}") for note, n in counts.most_common(SHOWN)]
    return Block(
        "Notes of the runs",
        "What runs recorded while they were made, and how many of them did.",
        (("note", "runs"), *rows),
    )


@chapter(place=20)
def runs_left_out(runs: Runs) -> Block | None:
    """The runs that are part of no number on the page, by name."""
    rows = [(skipped.path.name, skipped.why) for skipped in runs.skipped[:SHOWN]]
    rows += [
        (path.name, "unfinished: the same command continues it")
        for path in runs.unfinished[:SHOWN]
    ]
    if not rows:
        return None
    parts = [(len(runs.skipped), "skipped"), (len(runs.unfinished), "unfinished")]
    counted = " and ".join(f"{n:,} {what}" for n, what in parts if n)
    left = len(runs.skipped) + len(runs.unfinished) - len(rows)
    more = f" {left:,} more are not listed here." if left else ""
    text = f"{counted}. No number on this page includes them.{more}"
    return Block("Runs left out", text, (("run", "why"), *rows))


# The settings that `foltr tune` chose.


@chapter(place=5)
def chosen_settings(runs: Runs) -> Block | None:
    """A row for each choice; nothing if the runs are not those of a tuned record."""
    found = chosen_before(runs)
    if found is None:
        return None
    table = found.table()
    measured = (VALIDATION + found.by, found.by)
    names = [name for name in table.columns if name != "settings"]
    heads = [column(runs, name).curve_label if name in measured else name for name in names]
    rows = [
        tuple(
            f"{value:.4f}" if name in measured and value is not None else str(value)
            for name, value in row.items()
            if name in names
        )
        for row in list(table.rows())[:SHOWN]
    ]
    return Block("Chosen settings", runs.note, (tuple(heads), *rows), chapter="Tuning")
