"""A matrix as a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill, wrap

from foltr.report.captions import caption, heading, mark_legend, refusals
from foltr.report.matrix import MARK_MEANING, Entry, Matrix

WIDTH = 80
HEAD = 16  # a longer label of a condition is broken
REASONS = 6  # more reasons than that are counted, not shown
LABEL = 12  # the least width of the column of methods


def terminal_table(matrix: Matrix, width: int = WIDTH) -> str:
    """As many conditions side by side as fit, then what was tested and what could not be."""
    study = matrix.study
    cells = {place: _cell(matrix, entry) for place, entry in matrix.entries.items()}
    labels = [_label(matrix, i) for i in range(len(study.methods))]
    heads = [condition.label for condition in study.conditions]
    widths = [*map(len, cells.values()), *(min(len(head), HEAD) for head in heads)]
    column = max(widths) + 1
    room = max(LABEL, width - min(len(heads), 3) * column)
    label = min(max(map(len, labels)), room)
    fit = max(1, (width - label) // column)
    lines = [heading(matrix)]
    for first in range(0, len(heads), fit):
        block = range(first, min(first + fit, len(heads)))
        lines += ["", *_row("", [heads[j] + " " for j in block], label, column)]
        lines.append("─" * (label + len(block) * column))
        for i, name in enumerate(labels):
            lines += _row(name, [cells.get((i, j), "- ") for j in block], label, column)
    return "\n".join([*lines, "", *_notes(matrix, width)]) + "\n"


def _label(matrix: Matrix, i: int) -> str:
    is_baseline = matrix.family and i == matrix.study.baseline
    return matrix.study.methods[i].label + (" (b)" if is_baseline else "")


def _cell(matrix: Matrix, entry: Entry) -> str:
    digits = matrix.decimals
    best = "*" if entry.best else ""
    sd = "" if math.isnan(entry.sd) else f" ±{entry.sd:.{digits}f}"
    n = f" {matrix.unusual_n(entry)}" if matrix.unusual_n(entry) else ""
    return f"{best}{entry.mean:.{digits}f}{sd}{n}{entry.mark or ('?' if entry.refused else ' ')}"


def _row(label: str, cells: Sequence[str], label_width: int, column: int) -> list[str]:
    """A row of a table, in as many lines as its longest cell needs."""
    broken = [
        wrap(label, label_width),
        *([cell] if len(cell) < column else wrap(cell, column - 1) for cell in cells),
    ]
    lines = []
    for k in range(max(1, *map(len, broken))):
        first, *rest = [part[k] if k < len(part) else "" for part in broken]
        line = f"{first:<{label_width}}" + "".join(f"{cell:>{column}}" for cell in rest)
        lines.append(line.rstrip())
    return lines


def _notes(matrix: Matrix, width: int) -> list[str]:
    best = any(entry.best for entry in matrix.entries.values())
    signs = ["* best mean of its condition"] if best else []
    signs += mark_legend(matrix, {mark: mark for mark in MARK_MEANING})
    reasons = refusals(matrix)
    if reasons:
        signs.append("? not tested")
    notes = ["   ".join(signs), caption(matrix), *(f"? {reason}" for reason in reasons[:REASONS])]
    if len(reasons) > REASONS:
        notes.append(f"? and {len(reasons) - REASONS} more: the CSV has every reason")
    return [
        fill(note, width, subsequent_indent="  ", break_on_hyphens=False) for note in notes if note
    ]
