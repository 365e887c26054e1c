"""Tables, and how numbers are written in them and in sentences. A table is named columns. It needs
no pandas; `to_pandas()` and Parquet work where installed. In a notebook it is HTML without colours
of its own, so that it fits a light and a dark page; every text in it passes `escape`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from foltr.core.errors import Mistake, did_you_mean

ROWS = 10  # of a table in a notebook; the others are counted
LENGTH = 60  # of a text in a cell
LEFT, RIGHT = ' style="text-align:left"', ' style="text-align:right"'
NONE, MINUS = "\u2013", "\u2212"  # a dash where there is no value; a minus sign
SHADES = (0.01, 0.03, 0.1, 0.2)  # a cell is shaded by how many of these losses of nDCG it exceeds


@dataclass(frozen=True, repr=False)
class Tidy:
    """A table: `table["clients"]` is a column, `table.rows()` are its rows."""

    columns: dict[str, list[Any]]  # all of one length

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> Tidy:
        """A table from rows: one column per name, in the order of first appearance; None where a
        row has no value."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __repr__(self) -> str:
        return f"<table of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """In a notebook: the first rows."""
        return html_table(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.columns:
            raise Mistake(f"no column is called {name!r}: {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return text.getvalue()

    def to_pandas(self) -> Any:
        try:
            import pandas
        except ImportError:
            raise Mistake("pandas is not installed: pip install pandas") from None
        return pandas.DataFrame(self.columns)

    def parquet(self) -> bytes:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise Mistake("pyarrow is not installed: pip install pyarrow") from None
        plain = {  # a column has one type: tuples become text
            name: [repr(value) if isinstance(value, tuple) else value for value in values]
            for name, values in self.columns.items()
        }
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(plain), buffer)
        return buffer.getvalue()


def html_table(
    columns: Mapping[str, Sequence[Any]], measured: Collection[str] = (), rows: int = ROWS
) -> str:
    """The first rows, numbers rounded and to the right; a line counts the rows that are left out.
    `measured` columns have four decimals; others too, if their numbers are not short."""
    total = len(next(iter(columns.values()), ()))
    cells = [
        [_cell(value, name in measured or _needs_four_decimals(values)) for value in values[:rows]]
        for name, values in columns.items()
    ]
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


def _cell(value: Any, fixed: bool) -> str:
    if _is_number(value):
        return f"<td{RIGHT}>{rounded(value, fixed)}</td>"
    text = "" if value is None else str(value)
    short = text if len(text) <= LENGTH else f"{text[: LENGTH - 3]}..."
    title = f' title="{escape(text)}"' if short != text else ""
    return f"<td{LEFT}{title}>{escape(short)}</td>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _needs_four_decimals(values: Sequence[Any]) -> bool:
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


def decimals_of(means: Iterable[float]) -> int:
    """How many decimals a table shows: three for measures up to 1, fewer for large means, more
    for tiny ones."""
    largest = max((abs(mean) for mean in means), default=1.0)
    exponent = math.floor(math.log10(largest)) if largest > 0.0 else 0
    return max(0, 3 - exponent) if exponent >= 0 else min(3 - exponent - 1, 9)


def signed(number: float, decimals: int = 3) -> str:
    """ "+0.012", "−0.034"; a number that rounds to 0 has no sign"""
    size = f"{abs(number):.{decimals}f}"
    return size if float(size) == 0.0 else f"{'+' if number > 0 else MINUS}{size}"


def shade(change: float | None) -> int:
    """How dark the cell of a change of nDCG is: 0 (no shade) .. 4."""
    return 0 if change is None else sum(-change > loss for loss in SHADES)


def p_value(p: float | None) -> str:
    """ "p < 0.001", "p = 0.013" """
    return "" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def count(n: int, noun: str) -> str:
    """ "1 run", "1,200 runs" """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
