"""A matrix as text for a terminal, as LaTeX for a paper, as CSV for everything else."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from textwrap import fill, wrap
from typing import Any

from foltr.report.latex import escaped
from foltr.report.matrix import BETTER, MEASURES, WORSE, Entry, Matrix
from foltr.tidy import Tidy

WIDTH = 80
NO_RUN = "no run has a value"
SUPERSCRIPT = {BETTER: r"$^{\blacktriangle}$", WORSE: r"$^{\blacktriangledown}$", "": ""}


def decimals(matrix: Matrix) -> int:
    """So many that the largest mean has four digits: 0.571 is rounded as 87.51 is."""
    largest = max(abs(entry.mean) for entry in matrix.entries.values())
    return max(0, 3 - max(0, math.floor(math.log10(largest)) if largest > 0.0 else 0))


def csv(*matrices: Matrix) -> str:
    """A row per measure, method and condition, with all numbers; empty where there is none."""
    rows = [
        _row(m, i, j) for m in matrices for i in range(len(m.study.methods)) for j in range(len(m.study.conditions))
    ]
    return Tidy.of(rows).csv()


def _row(matrix: Matrix, i: int, j: int) -> dict[str, Any]:
    study, entry = matrix.study, matrix.entries.get((i, j))
    nothing = Entry(0, math.nan, math.nan, (math.nan, math.nan), refused=NO_RUN)
    e = entry or nothing
    test = e.test
    row = {
        "measure": matrix.measure,
        "method": study.methods[i].label,
        "condition": study.conditions[j].label,
        "baseline": i == study.baseline,
        "n": e.n,
        "mean": e.mean,
        "sd": e.sd,
        "low": e.interval[0],
        "high": e.interval[1],
        "best": e.best,
        "pairs": test.n if test else None,
        "paired_by": " ".join(study.paired_by),
        "difference": test.difference if test else None,
        "difference_sd": test.sd if test else None,
        "difference_low": test.interval[0] if test else None,
        "difference_high": test.interval[1] if test else None,
        "effect_dz": test.effect if test else None,
        "t": test.t if test else None,
        "p": test.p if test else None,
        "family": matrix.family,
        "p_bonferroni": e.corrected,
        "alpha": matrix.alpha,
        "mark": e.mark,
        "refused": e.refused,
    }
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def latex(*matrices: Matrix) -> str:
    """A booktabs table per matrix, each complete with caption and label."""
    runs = len(matrices[0].study.runs)
    return "\n".join(
        [
            rf"% Made by `foltr report` from {runs} runs. Needs \usepackage{{booktabs}} and \usepackage{{amssymb}}.",
            *(_table(matrix) for matrix in matrices),
        ]
    )


def _table(matrix: Matrix) -> str:
    study = matrix.study
    heads = [rf"\multicolumn{{2}}{{c}}{{{escaped(condition.label)}}}" for condition in study.conditions]
    marks = (
        rf"Best in bold; {SUPERSCRIPT[BETTER]} significantly better, {SUPERSCRIPT[WORSE]} worse than the baseline (b)."
    )
    caption = f"{escaped(_title(matrix))}. {escaped(matrix.told)} {marks if matrix.family else 'Best in bold.'}"
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', matrix.measure)}}}",
        rf"\begin{{tabular}}{{l{'r@{ }l' * len(heads)}}}",
        r"\toprule",
        rf" & {' & '.join(heads)} \\",
        r"\midrule",
    ]
    for i, method in enumerate(study.methods):
        name = escaped(method.label) + (r"\textsuperscript{b}" if matrix.family and i == study.baseline else "")
        cells = [_latex_cell(matrix, i, j) for j in range(len(heads))]
        lines.append(rf"{name} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_cell(matrix: Matrix, i: int, j: int) -> str:
    """Two columns: the mean, then its spread and mark."""
    entry, digits = matrix.entries.get((i, j)), decimals(matrix)
    if entry is None:
        return "-- & "
    mean = f"{entry.mean:.{digits}f}"
    sd = "" if math.isnan(entry.sd) else rf"{{\scriptsize $\pm$ {entry.sd:.{digits}f}}}"
    bold = rf"\textbf{{{mean}}}" if entry.best else mean
    return f"{bold} & {sd}{SUPERSCRIPT[entry.mark]}"


def text(matrix: Matrix, width: int = WIDTH) -> str:
    """For a terminal: as many conditions side by side as fit, then what was tested and what could not be."""
    study = matrix.study
    cells = {place: _text_cell(matrix, entry) for place, entry in matrix.entries.items()}
    heads = [condition.label for condition in study.conditions]
    column = max([len(cell) for cell in cells.values()] + [min(len(head), 18) for head in heads])
    longest = max(len(_row_label(matrix, i)) for i in range(len(study.methods)))
    label = max(12, min(longest, width - 3 * (column + 2), 40))
    fit = max(1, (width - label) // (column + 2))
    lines = [_title(matrix)]
    for first in range(0, len(heads), fit):
        block = range(first, min(first + fit, len(heads)))
        lines += ["", *_text_row("", [heads[j] for j in block], label, column)]
        lines.append("-" * (label + len(block) * (column + 2)))
        for i in range(len(study.methods)):
            lines += _text_row(_row_label(matrix, i), [cells.get((i, j), "-") for j in block], label, column)
    return "\n".join([*lines, "", *_notes(matrix, width)]) + "\n"


def _row_label(matrix: Matrix, i: int) -> str:
    return matrix.study.methods[i].label + (" (b)" if matrix.family and i == matrix.study.baseline else "")


def _text_cell(matrix: Matrix, entry: Entry) -> str:
    digits = decimals(matrix)
    sd = "" if math.isnan(entry.sd) else f" ±{entry.sd:.{digits}f}"
    return f"{'*' if entry.best else ' '}{entry.mean:.{digits}f}{sd}{entry.mark or ('?' if entry.refused else ' ')}"


def _text_row(label: str, cells: Sequence[str], label_width: int, column: int) -> list[str]:
    """A row of a table, in as many lines as its longest part needs."""
    parts = [wrap(label, label_width) or [""], *(wrap(cell, column, drop_whitespace=False) or [""] for cell in cells)]
    parts = [parts[0], *([line.strip() if len(part) > 1 else line for line in part] for part in parts[1:])]
    lines = []
    for k in range(max(map(len, parts))):
        row = [part[k] if k < len(part) else "" for part in parts]
        lines.append((row[0].ljust(label_width) + "".join(f"  {cell:>{column}}" for cell in row[1:])).rstrip())
    return lines


def _notes(matrix: Matrix, width: int) -> list[str]:
    study = matrix.study
    legend = "* best of its condition"
    if matrix.family:
        legend += f"   {BETTER} significantly better, {WORSE} worse than the baseline (b)   ? not tested"
    reasons = [
        f"? {study.methods[i].label}, {study.conditions[j].label}: {entry.refused}"
        for (i, j), entry in matrix.entries.items()
        if entry.refused
    ]
    return [fill(line, width, subsequent_indent="  ") for line in [legend, matrix.told, *reasons]]


def _title(matrix: Matrix) -> str:
    title = matrix.study.runs.title
    name = MEASURES[matrix.measure]
    return f"{title}: {name}" if title else name[0].upper() + name[1:]
