"""A matrix as a table for a notebook: plain HTML without colours or scripts."""

from __future__ import annotations

import math
from html import escape

from foltr.core.system.tables import LEFT, NONE, RIGHT, paragraphs
from foltr.report.captions import caption, heading, mark_legend, refusals
from foltr.report.matrix import MARK_MEANING, Entry, Matrix

REASONS = 6  # more reasons than that are counted, not shown


def notebook_table(matrix: Matrix) -> str:
    """A row per method, a column per condition; then what was tested and what could not be."""
    study = matrix.study
    heads = "".join(f"<th{RIGHT}>{escape(each.label)}</th>" for each in study.conditions)
    rows = "".join(_row(matrix, i) for i in range(len(study.methods)))
    return (
        f"<p><b>{escape(heading(matrix))}</b></p>"
        f"<table><thead><tr><th{LEFT}>method</th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"{paragraphs(_notes(matrix))}"
    )


def _row(matrix: Matrix, i: int) -> str:
    study = matrix.study
    is_baseline = matrix.family and i == study.baseline
    name = escape(study.methods[i].label) + (" (b)" if is_baseline else "")
    places = [(i, j) for j in range(len(study.conditions))]
    cells = "".join(_cell(matrix, matrix.entries.get(place)) for place in places)
    return f"<tr><th{LEFT}>{name}</th>{cells}</tr>"


def _cell(matrix: Matrix, entry: Entry | None) -> str:
    if entry is None:
        return f"<td{RIGHT}>{NONE}</td>"
    digits = matrix.decimals
    mean = f"{entry.mean:.{digits}f}"
    mean = f"<b>{mean}</b>" if entry.best else mean
    sd = "" if math.isnan(entry.sd) else f" ±{entry.sd:.{digits}f}"
    n = f" {matrix.unusual_n(entry)}" if matrix.unusual_n(entry) else ""
    mark = entry.mark or ("?" if entry.refused else "")
    return f"<td{RIGHT}>{mean}{sd}{n}{f' {mark}' if mark else ''}</td>"


def _notes(matrix: Matrix) -> list[str]:
    best = any(entry.best for entry in matrix.entries.values())
    signs = ["bold: best mean of its condition"] if best else []
    signs += mark_legend(matrix, {mark: mark for mark in MARK_MEANING})
    reasons = refusals(matrix)
    told = [f"? not tested: {reason}" for reason in reasons[:REASONS]]
    if len(reasons) > REASONS:
        told.append(f"? and {len(reasons) - REASONS} more: the CSV has every reason")
    return [note for note in ("; ".join(signs), caption(matrix), *told) if note]
