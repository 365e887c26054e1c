"""In how many documents each term is, and how often: the table `term` of the index. A batch of
documents is counted in memory, and added to the table at its end."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foltr.core import Array

RowsOf = Callable[[str, Sequence[object]], list[Any]]  # what a query of SQL with values gives

FIELDS = ("title", "headings", "body")
COUNTS = tuple(f"{field}_{what}" for field in FIELDS for what in ("documents", "count"))
TABLE = f"""
create table if not exists term (
    term text primary key, {", ".join(f"{name} integer not null" for name in COUNTS)})
    without rowid;
"""
ADDED = f"""
insert into term (term, {", ".join(COUNTS)}) values (?,?,?,?,?,?,?) on conflict (term) do update
set {", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)}
"""
GONE = f"delete from term where term = ? and {' and '.join(f'{name} <= 0' for name in COUNTS)}"


class TermCounts:
    """Changes of the table that are not in it yet."""

    def __init__(self) -> None:
        self._changes: dict[str, list[int]] = {}

    def clear(self) -> None:
        self._changes = {}

    def add(self, parts: Sequence[Sequence[str]], sign: int) -> None:
        """Note that a document with these terms in its fields comes (1) or goes (-1)."""
        changes = self._changes
        for field, terms in enumerate(parts):
            for term, count in Counter(terms).items():
                each = changes.get(term)
                if each is None:
                    each = changes[term] = [0] * len(COUNTS)
                each[2 * field] += sign
                each[2 * field + 1] += sign * count

    def write(self, db: sqlite3.Connection) -> None:
        """Change the table, and begin anew."""
        changes, self._changes = self._changes, {}
        db.executemany(ADDED, ((term, *each) for term, each in changes.items()))
        db.executemany(GONE, ((term,) for term, each in changes.items() if min(each) < 0))


def frequencies(rows_of: RowsOf, term: str) -> Array:
    """In how many documents a term is, and how often: for title, headings, body (3, 2)."""
    rows = rows_of(f"select {', '.join(COUNTS)} from term where term = ?", (term,))
    return np.array(rows[0] if rows else (0,) * len(COUNTS), float).reshape(len(FIELDS), 2)


def beginning(rows_of: RowsOf, text: str, most: int) -> list[str]:
    """The terms that begin like this, those of most documents first."""
    rows = rows_of(
        "select term from term where term >= ? and term < ? order by body_documents +"
        " title_documents desc, term limit ?",
        (text, text + "\U0010ffff", most),
    )
    return [term for (term,) in rows]
