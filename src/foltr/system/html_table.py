"""Small tables as HTML, for notebooks. They have no colours of their own, so that they fit a light
and a dark page. Every text passes `escape`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

ROWS = 10  # of a table; the others are counted
LENGTH = 60  # of a text in a cell
LEFT, RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def html_table(
    columns: Mapping[str, Sequence[Any]], measured: Collection[str] = (), rows: int = ROWS
) -> str:
    """The first rows, numbers rounded and to the right; a line counts the rows that are left out.
    `measured` columns have four decimals; others too, if their numbers are not short."""
    total = len(next(iter(columns.values()), ()))
    cells = [_cells(list(values), name in measured, rows) for name, values in columns.items()]
    heads = "".join(
        f"<th{RIGHT if any(map(_is_number, values)) else LEFT}>{escape(name)}</th>"
        for name, values in columns.items()
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    more = f"<p>... and {total - rows:,} more rows</p>" if total > rows else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def paragraphs(lines: Iterable[str]) -> str:
    """Each line as a paragraph."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _cells(values: list[Any], measured: bool, rows: int) -> list[str]:
    fixed = measured or _needs_four_decimals(values)
    return [_cell(value, fixed) for value in values[:rows]]


def _cell(value: Any, fixed: bool) -> str:
    if _is_number(value):
        return f"<td{RIGHT}>{rounded(value, fixed)}</td>"
    text = "" if value is None else str(value)
    short = text if len(text) <= LENGTH else f"{text[: LENGTH - 3]}..."
    title = f' title="{escape(text)}"' if short != text else ""
    return f"<td{LEFT}{title}>{escape(short)}</td>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _needs_four_decimals(values: list[Any]) -> bool:
    """Whether a column holds numbers that are not short. Settings, such as 0.1 and 0.01, are
    written as they are."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    ordinary = all(0.001 <= size < 1000.0 for size in sizes)
    return ordinary and any(round(size, 4) != size for size in sizes)


def rounded(value: float, fixed: bool = True) -> str:
    """A number for a reader: 0.5329, 12,345.7, 1e-05; an integer as it is."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    if abs(value) >= 1000.0:
        return f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:.4f}" if fixed and (abs(value) >= 0.001 or not value) else f"{value:.4g}"
