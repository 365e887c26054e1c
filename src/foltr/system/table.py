"""A small table of named columns. It needs no pandas; `to_pandas()` and Parquet work where
installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.system.html_table import html_table


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
        plain = {
            name: [_plain(value) for value in values] for name, values in self.columns.items()
        }
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(plain), buffer)
        return buffer.getvalue()


def _plain(value: Any) -> Any:
    """A value for Parquet, whose columns have one type: tuples become text."""
    return repr(value) if isinstance(value, tuple) else value
