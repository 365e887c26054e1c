"""A matrix as a table to read at once: in a terminal, and in a notebook as plain HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from textwrap import fill, wrap

from foltr.core.system.tables import LEFT, NONE, RIGHT, paragraphs
from foltr.report.captions import caption, heading, mark_legend, refusals
from foltr.report.matrix import MARK_MEANING, Entry, Matrix
from foltr.report.study import Place

WIDTH = 80
MAX_HEAD_WIDTH = 16  # a longer label of a condition is broken
MIN_LABEL_WIDTH = 12  # of the column of methods
REASONS = 6  # more reasons than that are counted, not shown


def terminal_table(matrix: Matrix, width: int = WIDTH) -> str:
    """As many conditions side by side as fit, then what was tested and what could not be."""
    cells = {
        place: f"{'*' * entry.best}{_mean(matrix, entry)}{_behind(matrix, entry)}"
        f"{_mark(entry) or ' '}"
        for place, entry in matrix.entries.items()
    }
    labels = _labels(matrix)
    heads = [condition.label for condition in matrix.study.conditions]
    widths = [*map(len, cells.values()), *(min(len(head), MAX_HEAD_WIDTH) for head in heads)]
    column = max(widths) + 1
    room = max(MIN_LABEL_WIDTH, width - min(len(heads), 3) * column)
    label = min(max(map(len, labels)), room)
    fit = max(1, (width - label) // column)
    lines = [heading(matrix)]
    for first in range(0, len(heads), fit):
        block = range(first, min(first + fit, len(heads)))
        lines += ["", *_row("", [heads[j] + " " for j in block], label, column)]
        lines.append("─" * (label + len(block) * column))
        for i, name in enumerate(labels):
            lines += _row(name, [cells.get((i, j), "- ") for j in block], label, column)
    not_tested = ["? not tested"] if refusals(matrix) else []
    signs = [*_signs(matrix, "* best mean of its condition"), *not_tested]
    lines.append("")
    for note in ("   ".join(signs), caption(matrix), *_reasons(matrix, "? ")):
        if note:
            lines.append(fill(note, width, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(lines) + "\n"


def notebook_table(matrix: Matrix) -> str:
    """A row per method, a column per condition; then what was tested and what could not be."""
    conditions = matrix.study.conditions
    heads = "".join(f"<th{RIGHT}>{escape(each.label)}</th>" for each in conditions)
    rows = "".join(
        f"<tr><th{LEFT}>{escape(label)}</th>"
        + "".join(
            f"<td{RIGHT}>{_notebook_cell(matrix, (i, j))}</td>" for j in range(len(conditions))
        )
        + "</tr>"
        for i, label in enumerate(_labels(matrix))
    )
    signs = "; ".join(_signs(matrix, "bold: best mean of its condition"))
    notes = [signs, caption(matrix), *_reasons(matrix, "? not tested: ")]
    return (
        f"<p><b>{escape(heading(matrix))}</b></p>"
        f"<table><thead><tr><th{LEFT}>method</th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"{paragraphs(note for note in notes if note)}"
    )


def _notebook_cell(matrix: Matrix, place: Place) -> str:
    entry = matrix.entries.get(place)
    if entry is None:
        return NONE
    mean = _mean(matrix, entry)
    mark = f" {_mark(entry)}" if _mark(entry) else ""
    return (f"<b>{mean}</b>" if entry.best else mean) + _behind(matrix, entry) + mark


def _labels(matrix: Matrix) -> list[str]:
    base = matrix.study.baseline if matrix.family else None
    return [
        f"{method.label} (b)" if i == base else method.label
        for i, method in enumerate(matrix.study.methods)
    ]


def _mean(matrix: Matrix, entry: Entry) -> str:
    return f"{entry.mean:.{matrix.decimals}f}"


def _behind(matrix: Matrix, entry: Entry) -> str:
    """The standard deviation, and the number of runs where it is unusual."""
    sd = "" if math.isnan(entry.sd) else f" ±{entry.sd:.{matrix.decimals}f}"
    n = matrix.unusual_n(entry)
    return f"{sd} {n}" if n else sd


def _mark(entry: Entry) -> str:
    return entry.mark or ("?" if entry.refused else "")


def _signs(matrix: Matrix, best: str) -> list[str]:
    """What the signs of a table mean. `best`: the sign of the best mean, explained."""
    signs = [best] if any(entry.best for entry in matrix.entries.values()) else []
    return signs + mark_legend(matrix, {mark: mark for mark in MARK_MEANING})


def _reasons(matrix: Matrix, before: str) -> list[str]:
    reasons = refusals(matrix)
    lines = [f"{before}{reason}" for reason in reasons[:REASONS]]
    if len(reasons) > REASONS:
        lines.append(f"? and {len(reasons) - REASONS} more: the CSV has every reason")
    return lines


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
