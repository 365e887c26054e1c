"""A matrix as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill, wrap

from foltr.report.entries import BETTER, BETTER_HERE, WORSE, WORSE_HERE, Entry, Matrix
from foltr.report.captions import heading, refusals

WIDTH = 80
HEAD = 16  # a condition's label is broken beyond
REASONS = 6  # that are told
LABEL = 12  # a method's label gets at least so much


def text(matrix: Matrix, width: int = WIDTH) -> str:
    """As many conditions side by side as fit, then what was tested and what could not be."""
    study = matrix.study
    cells = {place: _cell(matrix, entry) for place, entry in matrix.entries.items()}
    labels, heads = (
        [_label(matrix, i) for i in range(len(study.methods))],
        [c.label for c in study.conditions],
    )
    column = (
        max([len(cell) for cell in cells.values()] + [min(len(head), HEAD) for head in heads]) + 1
    )
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
    return matrix.study.methods[i].label + (
        " (b)" if matrix.family and i == matrix.study.baseline else ""
    )


def _cell(matrix: Matrix, entry: Entry) -> str:
    digits = matrix.decimals
    best = "*" if entry.best else ""
    sd = "" if math.isnan(entry.sd) else f" ±{entry.sd:.{digits}f}"
    odd = f" {matrix.odd(entry)}" if matrix.odd(entry) else ""
    return f"{best}{entry.mean:.{digits}f}{sd}{odd}{entry.mark or ('?' if entry.refused else ' ')}"


def _row(label: str, cells: Sequence[str], label_width: int, column: int) -> list[str]:
    """A row of a table, in as many lines as its longest part needs."""
    broken = [
        wrap(label, label_width),
        *([cell] if len(cell) < column else wrap(cell, column - 1) for cell in cells),
    ]
    lines = []
    for k in range(max(1, *map(len, broken))):
        first, *rest = [part[k] if k < len(part) else "" for part in broken]
        lines.append(
            (f"{first:<{label_width}}" + "".join(f"{cell:>{column}}" for cell in rest)).rstrip()
        )
    return lines


def _notes(matrix: Matrix, width: int) -> list[str]:
    marks = {entry.mark for entry in matrix.entries.values()}
    signs = (
        ["* highest mean of its condition"]
        if any(entry.best for entry in matrix.entries.values())
        else []
    )
    if marks & {BETTER, WORSE}:
        signs.append(f"{BETTER} significantly better, {WORSE} worse than the baseline (b)")
    if marks & {BETTER_HERE, WORSE_HERE}:
        here = f"{BETTER_HERE} better, {WORSE_HERE} worse than the baseline (b)"
        signs.append(f"{here} on these splits, not significantly on other queries")
    if marks == {""} and any(entry.test for entry in matrix.entries.values()):
        signs.append("none differs significantly from the baseline (b)")
    reasons = refusals(matrix)
    if reasons:
        signs.append("? not tested")
    notes = ["   ".join(signs), matrix.told, *(f"? {reason}" for reason in reasons[:REASONS])]
    if len(reasons) > REASONS:
        notes.append(f"? and {len(reasons) - REASONS} more: the CSV has every reason")
    return [
        fill(note, width, subsequent_indent="  ", break_on_hyphens=False) for note in notes if note
    ]
