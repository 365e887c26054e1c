"""The index of a device: one SQLite file of mode 0600.

    file        each file that was seen: size, time, and why it could not be read
    document    the documents of a file: title, kind, date, lengths
    content     their text, compressed, and where every 64th token begins
    forward     their terms in order: what features are computed from
    words       FTS5's inverted index of the terms: what finds candidates
    term        in how many documents each term is, and how often

`words` stores no text (it is contentless), so a document's terms are computed again to delete
it from there. A checksum finds out if they have become others, for example by another version of
Unicode; `words` is then made again from the stored texts.

A transaction is a batch of files. So after a crash at any moment the index has all of a file or
nothing of it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.system.state_file import DESTROYED, Damaged, StateFile, Unusable, code_of
from foltr.device.content import Kind, Text
from foltr.device.query import Filter
from foltr.device.tokens import VERSION, Tokens, tokens_of

FORMAT = 2  # of the tables
EVERY = 64  # tokens between two stored places
LONGEST = 1 << 15  # tokens of a document that features look at
LEVEL = 3  # of compression
TABLES = """
create table if not exists root (path text primary key) without rowid;
create table if not exists file (
    id integer primary key, path text not null unique, size integer not null,
    modified integer not null, unread text not null);
create table if not exists document (
    id integer primary key autoincrement, file integer not null, part text not null,
    kind text not null, title text not null, date real not null, lengths blob not null,
    cut integer not null, checksum integer not null);
create index if not exists document_file on document (file);
create table if not exists content (
    id integer primary key, headings blob not null, body blob not null, places blob not null);
create table if not exists forward (
    id integer primary key, terms blob not null, tokens blob not null);
create virtual table if not exists words using fts5 (
    title, headings, body, content = '', tokenize = 'ascii');
"""
# how many batches there were: what was computed of all documents holds until the next one
BATCHES = "insert into about values ('batches', 1) on conflict do update set value = value + 1"
PRAGMAS = (
    "journal_mode = wal",
    "synchronous = normal",
    "busy_timeout = 10000",
    "cache_size = -65536",
    "mmap_size = 268435456",
    "temp_store = memory",
)


class SeenFile(NamedTuple):
    """A file as it was when it was last read."""

    id: int
    size: int
    modified: int  # nanoseconds
    unread: str  # why it could not be read; empty if it was


@dataclass(frozen=True, eq=False)
class Forward:
    """The terms of a document in order: title, headings, body."""

    id: int
    terms: Array  # (u,) uint32: the different terms' ids, ascending
    tokens: Array  # (n,) which of `terms` each token is
    lengths: Array  # (3,) tokens of title, headings and body


class Document(NamedTuple):
    """What is shown of a document."""

    id: int
    path: str
    part: str
    kind: Kind
    title: str
    date: float


@dataclass(frozen=True)
class Statistics:
    """Of all documents."""

    documents: int
    lengths: tuple[float, float, float]  # mean number of tokens of title, headings and body


class Index(StateFile):
    """The index file at `path`; None for one in memory. Only one process may write documents at a
    time; others read meanwhile."""

    def __init__(self, path: Path | None) -> None:
        self._check_format(path)
        super().__init__(path, "the index", TABLES + TABLE, PRAGMAS)
        self.pin("format", f"{FORMAT} {VERSION}".encode())
        self._statistics: tuple[int, Statistics] | None = None
        self._counts = TermCounts()

    @staticmethod
    def _check_format(path: Path | None) -> None:
        """Refuse an index of another version before anything is changed in it."""
        if path is None or not path.exists() or not path.stat().st_size:
            return
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                row = db.execute("select value from about where name = 'format'").fetchone()
        except sqlite3.Error as error:
            if code_of(error) not in (*DESTROYED, sqlite3.SQLITE_ERROR):
                raise Unusable(f"{path} cannot be used ({error}): check its permissions") from None
            if code_of(error) == sqlite3.SQLITE_ERROR:  # a file of another program
                raise Mistake(f"{path} is no index of foltr: choose another folder") from None
            way_out = "delete it (foltr device clear --index) and index again"
            raise Damaged(f"{path} is damaged ({error}): {way_out}") from None
        found = row and bytes(row[0]).decode()
        if found not in (None, f"{FORMAT} {VERSION}"):
            raise Mistake(
                f"{path} was made by another version of foltr (format {found}, this one has"
                f" {FORMAT} {VERSION}): upgrade foltr, or delete the file and index again"
            )

    # --- writing ---

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A transaction: all that is written in it, or nothing."""
        self._counts.clear()
        with write_access(self.path), self._transaction():
            yield
            self._counts.write(self._db)
            self._db.execute(BATCHES)

    def put(self, path: str, size: int, modified: int, texts: Iterable[Text]) -> int:
        """Store a file and its documents in place of what was stored of it. Inside `batch`.
        Returns how many documents were written; those that are unchanged are kept."""
        self._db.execute(
            "insert into file (path, size, modified, unread) values (?, ?, ?, '') on conflict"
            " (path) do update set size = excluded.size, modified = excluded.modified,"
            " unread = ''",
            (path, size, modified),
        )
        (file,) = self._db.execute("select id from file where path = ?", (path,)).fetchone()
        before = dict(
            self._db.execute("select part, id from document where file = ?", (file,)).fetchall()
        )
        written = 0
        for text in texts:
            known = before.pop(text.part, None)
            date = modified / 1e9 if text.date is None else text.date
            if known is not None and self._same(known, text):
                self._db.execute("update document set date = ? where id = ?", (date, known))
                continue
            if known is not None:
                self._delete(known)
            self._add(file, date, text, known)
            written += 1
        for gone in before.values():
            self._delete(gone)
        return written

    def mark_unread(self, path: str, reason: str) -> None:
        """Note why a file, or the rest of it, could not be read. Inside `batch`."""
        self._db.execute("update file set unread = ? where path = ?", (reason, path))

    def remove(self, path: str) -> None:
        """Remove a file and its documents. Inside `batch`."""
        row = self._db.execute("select id from file where path = ?", (path,)).fetchone()
        if row is None:
            return
        documents = self._db.execute("select id from document where file = ?", row).fetchall()
        for (id,) in documents:
            self._delete(id)
        self._db.execute("delete from file where id = ?", row)

    def _add(self, file: int, date: float, text: Text, id: int | None) -> None:
        parts = [tokens_of(part) for part in (text.title, text.headings, text.body)]
        joined = [" ".join(part.terms) for part in parts]
        lengths = np.array([len(part.terms) for part in parts], np.uint32)
        row = (id, file, text.part, text.kind, text.title, date, lengths.tobytes(), text.cut)
        made = self._db.execute(
            "insert into document (id, file, part, kind, title, date, lengths, cut, checksum)"
            " values (?,?,?,?,?,?,?,?,?)",
            (*row, _checksum(joined)),
        ).lastrowid
        self._db.execute(
            "insert into words (rowid, title, headings, body) values (?,?,?,?)", (made, *joined)
        )
        self._counts.add([part.terms for part in parts], 1)
        terms, tokens = _forward(parts)
        self._db.execute("insert into forward values (?,?,?)", (made, terms, tokens))
        places = parts[-1].starts[::EVERY].astype(np.uint32).tobytes()
        stored = _packed(text.headings), _packed(text.body), places
        self._db.execute("insert into content values (?,?,?,?)", (made, *stored))

    def _delete(self, id: int) -> None:
        title, checksum = self._db.execute(
            "select title, checksum from document where id = ?", (id,)
        ).fetchone()
        headings, body = self.texts(id)
        parts = [tokens_of(part).terms for part in (title, headings, body)]
        joined = [" ".join(part) for part in parts]
        same = _checksum(joined) == checksum
        if same:
            self._counts.add(parts, -1)
            self._db.execute(
                "insert into words (words, rowid, title, headings, body) values"
                " ('delete', ?, ?, ?, ?)",
                (id, *joined),
            )
        for table in ("document", "content", "forward"):
            self._db.execute(f"delete from {table} where id = ?", (id,))
        if not same:
            self._make_words_again()

    def _make_words_again(self) -> None:
        """Fill `words` and the checksums from the stored texts."""
        self._db.execute("insert into words (words) values ('delete-all')")
        self._db.execute("delete from term")
        self._counts.clear()
        for id, title in self._db.execute("select id, title from document").fetchall():
            headings, body = self.texts(id)
            parts = [tokens_of(part) for part in (title, headings, body)]
            joined = [" ".join(part.terms) for part in parts]
            self._db.execute(
                "insert into words (rowid, title, headings, body) values (?,?,?,?)", (id, *joined)
            )
            self._db.execute(
                "update document set checksum = ? where id = ?", (_checksum(joined), id)
            )
            self._counts.add([part.terms for part in parts], 1)
            self._db.execute("delete from forward where id = ?", (id,))
            self._db.execute("insert into forward values (?,?,?)", (id, *_forward(parts)))

    def _same(self, id: int, text: Text) -> bool:
        kind, title = self._db.execute(
            "select kind, title from document where id = ?", (id,)
        ).fetchone()
        same = (kind, title) == (text.kind, text.title)
        return same and self.texts(id) == (text.headings, text.body)

    def shrink(self) -> None:
        """Return the disk space of what was removed."""
        with self._told():
            self._db.execute("insert into words (words) values ('optimize')")
            self._db.execute("vacuum")

    def set_roots(self, roots: Iterable[Path]) -> None:
        """Remember the folders that are indexed."""
        with write_access(self.path), self._transaction():
            self._db.execute("delete from root")
            rows = [(str(root),) for root in sorted(set(roots))]
            self._db.executemany("insert into root values (?)", rows)

    # --- reading ---

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._told():
            return self._db.execute(query, values).fetchall()

    def roots(self) -> list[Path]:
        """The folders that are indexed."""
        return [Path(path) for (path,) in self._rows("select path from root")]

    def files(self) -> dict[str, SeenFile]:
        rows = self._rows("select path, id, size, modified, unread from file")
        return {path: SeenFile(*rest) for path, *rest in rows}

    def texts(self, id: int) -> tuple[str, str]:
        """The headings and the body of a document; empty if it was removed meanwhile."""
        rows = self._rows("select headings, body from content where id = ?", (id,))
        return (_unpacked(rows[0][0]), _unpacked(rows[0][1])) if rows else ("", "")

    def places(self, id: int) -> tuple[str, Array]:
        """The body of a document, and where every 64th token of it begins."""
        rows = self._rows("select body, places from content where id = ?", (id,))
        body, places = (_unpacked(rows[0][0]), rows[0][1]) if rows else ("", b"")
        return body, np.frombuffer(places, np.uint32)

    def documents(self, ids: Iterable[int]) -> dict[int, Document]:
        """Those of the documents that are there, in the order of `ids`."""
        wanted = list(ids)
        rows = self._rows(
            "select d.id, f.path, d.part, d.kind, d.title, d.date from json_each(?) j"
            " join document d on d.id = j.value join file f on f.id = d.file",
            (json.dumps(wanted),),
        )
        found = {row[0]: Document(*row) for row in rows}
        return {id: found[id] for id in wanted if id in found}

    def forward(self, ids: Iterable[int]) -> list[Forward]:
        """The terms of documents, in the order of `ids`; those that are gone are left out."""
        wanted = list(ids)
        rows = self._rows(
            "select f.id, f.terms, f.tokens, d.lengths from json_each(?) j join forward f on"
            " f.id = j.value join document d on d.id = f.id",
            (json.dumps(wanted),),
        )
        found = {}
        for id, *blobs in rows:
            terms = np.frombuffer(blobs[0], np.uint32)
            tokens = np.frombuffer(blobs[1], _smallest(len(terms)))
            found[id] = Forward(id, terms, tokens, np.frombuffer(blobs[2], np.uint32))
        return [found[id] for id in wanted if id in found]

    def newest(self, among: Filter, most: int) -> list[int]:
        """The newest documents that pass a filter."""
        where, values = _conditions(among)
        rows = self._rows(
            "select d.id from document d join file f on f.id = d.file where true"
            f"{where} order by d.date desc, d.id limit ?",
            (*values, most),
        )
        return [id for (id,) in rows]

    def statistics(self) -> Statistics:
        rows = self._rows("select value from about where name = 'batches'")
        state = rows[0][0] if rows else 0  # `changes` would count the click log's writes as well
        if self._statistics is None or self._statistics[0] != state:
            lengths = [row[0] for row in self._rows("select lengths from document")]
            table = np.frombuffer(b"".join(lengths), np.uint32).reshape(-1, 3)
            means = table.mean(axis=0) if len(table) else np.zeros(3)
            a, b, c = (float(each) for each in means)
            self._statistics = state, Statistics(len(table), (a, b, c))
        return self._statistics[1]

    def frequencies(self, term: str) -> Array:
        return frequencies(self._rows, term)

    def beginning(self, text: str, most: int) -> list[str]:
        return beginning(self._rows, text, most)

    def matching(self, expression: str, among: Filter, order: str, most: int) -> list[int]:
        """The documents that match an expression of FTS5, best first."""
        where, values = _conditions(among)
        join = " join document d on d.id = words.rowid join file f on f.id = d.file"
        rows = self._rows(
            f"select words.rowid from words{join if where else ''} where words match ?{where}"
            f" order by {order} limit ?",
            (expression, *values, most),
        )
        return [id for (id,) in rows]


def _conditions(among: Filter) -> tuple[str, list[object]]:
    """A filter as conditions of SQL, and their values."""
    found: list[tuple[str, object]] = []
    if among.kind:
        found.append(("d.kind = ?", among.kind))
    if among.folder:
        inside = f"/{among.folder.strip('/')}/"  # SQLite knows ASCII's lower case only
        found.append(("instr(lower(f.path), lower(?))", inside))
    if among.after is not None:
        found.append(("d.date >= ?", among.after))
    if among.before is not None:
        found.append(("d.date < ?", among.before))
    return "".join(f" and {each}" for each, _ in found), [value for _, value in found]


def _forward(parts: Sequence[Tokens]) -> tuple[bytes, bytes]:
    ids = np.concatenate([part.ids for part in parts])[:LONGEST]
    terms, tokens = np.unique(ids, return_inverse=True)
    return terms.tobytes(), tokens.astype(_smallest(len(terms))).tobytes()


def _smallest(many: int) -> type[np.unsignedinteger]:
    return np.uint8 if many <= 1 << 8 else np.uint16  # a document has at most 2^15 tokens


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "replace"), LEVEL)


def _unpacked(stored: bytes) -> str:
    return zlib.decompress(stored).decode()


def _checksum(joined: Sequence[str]) -> int:
    return zlib.crc32("\n".join(joined).encode("utf-8", "replace"))


# Who writes to the index file next. SQLite lets one process write at a time, and others try
# again after a while: a long run of batches could keep a click waiting for seconds. Here they
# queue up.

# seconds that a writer of many batches leaves to the others between two of them: the lock is given
# to whoever asks first
PAUSE = 0.002


@contextmanager
def write_access(path: Path | None) -> Iterator[None]:
    """Wait for the turn to write to the index at `path`."""
    try:
        import fcntl
    except ImportError:  # Windows: SQLite's own waiting must do
        path = None
    if path is None:
        yield
        return
    with open(path.with_name(f"{path.name}.writing"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# In how many documents each term is, and how often: the table `term` of the index. A batch of
# documents is counted in memory, and added to the table at its end.

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
