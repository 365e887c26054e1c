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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
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

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting must do
    fcntl = None  # type: ignore[assignment]

FORMAT = 2  # of the tables
# seconds that a writer of many batches leaves to the others between two of them: the lock is given
# to whoever asks first
PAUSE = 0.002
FIELDS = ("title", "headings", "body")
# in how many documents a term is, and how often
COUNTS = tuple(f"{field}_{what}" for field in FIELDS for what in ("documents", "count"))
EVERY = 64  # tokens between two stored places
LONGEST = 1 << 15  # tokens of a document that features look at
LEVEL = 3  # of compression
TABLES = f"""
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
create table if not exists term (
    term text primary key, {", ".join(f"{name} integer not null" for name in COUNTS)})
    without rowid;
"""
COUNTED = f"""
insert into term (term, {", ".join(COUNTS)}) values (?,?,?,?,?,?,?) on conflict (term) do update
set {", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTS)}
"""
UNUSED = f"delete from term where term = ? and {' and '.join(f'{name} <= 0' for name in COUNTS)}"
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


class IndexFile(StateFile):
    """A connection to the file of the index, in which the click log and the records of messages
    are as well. SQLite lets one process write at a time, and others try again after a while: a
    long run of batches could keep a click waiting for seconds. Here they queue up."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self.path is not None and fcntl is not None:
                queue = open(self.path.with_name(f"{self.path.name}.writing"), "a")
                fcntl.flock(stack.enter_context(queue), fcntl.LOCK_EX)
            stack.enter_context(super()._transaction())
            yield

    def set_about(self, name: str, value: bytes) -> None:
        with nullcontext() if self._db.in_transaction else self._transaction():
            super().set_about(name, value)

    def delete_about(self, name: str) -> None:
        with self._transaction():
            super().delete_about(name)

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        with self._told():
            return self._db.execute(query, values).fetchall()


class Index(IndexFile):
    """The index file at `path`; None for one in memory. Only one process may write documents at a
    time; others read meanwhile."""

    def __init__(self, path: Path | None) -> None:
        self._check_format(path)
        super().__init__(path, "the index", TABLES, PRAGMAS)
        self.pin("format", f"{FORMAT} {VERSION}".encode())
        self._statistics: tuple[int, Statistics] | None = None
        self._counts: dict[str, list[int]] = {}  # changes of `term` that are not in it yet

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
        self._counts = {}
        with self._transaction():
            yield
            changes, self._counts = self._counts, {}
            self._db.executemany(COUNTED, ((term, *counts) for term, counts in changes.items()))
            self._db.executemany(UNUSED, ((t,) for t, each in changes.items() if min(each) < 0))
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
        joined = _joined(parts)
        lengths = np.array([len(part.terms) for part in parts], np.uint32)
        row = (id, file, text.part, text.kind, text.title, date, lengths.tobytes(), text.cut)
        made = self._db.execute(
            "insert into document (id, file, part, kind, title, date, lengths, cut, checksum)"
            " values (?,?,?,?,?,?,?,?,?)",
            (*row, _checksum(joined)),
        ).lastrowid
        self._add_terms(made, parts, joined)
        places = parts[-1].starts[::EVERY].astype(np.uint32).tobytes()
        stored = _packed(text.headings), _packed(text.body), places
        self._db.execute("insert into content values (?,?,?,?)", (made, *stored))

    def _add_terms(self, id: int | None, parts: Sequence[Tokens], joined: Sequence[str]) -> None:
        """Make a document's terms known to `words`, `forward` and `term`."""
        self._db.execute(
            "insert into words (rowid, title, headings, body) values (?,?,?,?)", (id, *joined)
        )
        self._count(parts, 1)
        ids = np.concatenate([part.ids for part in parts])[:LONGEST]
        terms, tokens = np.unique(ids, return_inverse=True)
        small = tokens.astype(_smallest(len(terms)))
        self._db.execute(
            "insert or replace into forward values (?,?,?)", (id, terms.tobytes(), small.tobytes())
        )

    def _count(self, parts: Sequence[Tokens], sign: int) -> None:
        """Note that a document with these terms in its fields comes (1) or goes (-1)."""
        changes = self._counts
        for field, tokens in enumerate(parts):
            for term, count in Counter(tokens.terms).items():
                each = changes.get(term)
                if each is None:
                    each = changes[term] = [0] * len(COUNTS)
                each[2 * field] += sign
                each[2 * field + 1] += sign * count

    def _delete(self, id: int) -> None:
        title, checksum = self._db.execute(
            "select title, checksum from document where id = ?", (id,)
        ).fetchone()
        headings, body = self.texts(id)
        parts = [tokens_of(part) for part in (title, headings, body)]
        joined = _joined(parts)
        same = _checksum(joined) == checksum
        if same:
            self._count(parts, -1)
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
        self._counts = {}
        for id, title in self._db.execute("select id, title from document").fetchall():
            headings, body = self.texts(id)
            parts = [tokens_of(part) for part in (title, headings, body)]
            joined = _joined(parts)
            self._add_terms(id, parts, joined)
            self._db.execute(
                "update document set checksum = ? where id = ?", (_checksum(joined), id)
            )

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
        with self._transaction():
            self._db.execute("delete from root")
            rows = [(str(root),) for root in sorted(set(roots))]
            self._db.executemany("insert into root values (?)", rows)

    # --- reading ---

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
        rows = self._rows(
            "select d.id, f.path, d.part, d.kind, d.title, d.date from json_each(?) j"
            " join document d on d.id = j.value join file f on f.id = d.file order by j.key",
            (json.dumps(list(ids)),),
        )
        return {row[0]: Document(*row) for row in rows}

    def forward(self, ids: Iterable[int]) -> list[Forward]:
        """The terms of documents, in the order of `ids`; those that are gone are left out."""
        wanted = list(ids)
        rows = self._rows(
            "select f.id, f.terms, f.tokens, d.lengths from json_each(?) j join forward f on"
            " f.id = j.value join document d on d.id = f.id",
            (json.dumps(wanted),),
        )  # not in order: sorting would copy all these blobs
        found = {}
        for id, stored_terms, stored_tokens, lengths in rows:
            terms = np.frombuffer(stored_terms, np.uint32)
            tokens = np.frombuffer(stored_tokens, _smallest(len(terms)))
            found[id] = Forward(id, terms, tokens, np.frombuffer(lengths, np.uint32))
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
        """In how many documents a term is, and how often: for title, headings, body (3, 2)."""
        rows = self._rows(f"select {', '.join(COUNTS)} from term where term = ?", (term,))
        return np.array(rows[0] if rows else (0,) * len(COUNTS), float).reshape(len(FIELDS), 2)

    def beginning(self, text: str, most: int) -> list[str]:
        """The terms that begin like this, those of most documents first."""
        rows = self._rows(
            "select term from term where term >= ? and term < ? order by body_documents +"
            " title_documents desc, term limit ?",
            (text, text + "\U0010ffff", most),
        )
        return [term for (term,) in rows]

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


def _smallest(many: int) -> type[np.unsignedinteger]:
    return np.uint8 if many <= 1 << 8 else np.uint16  # a document has at most 2^15 tokens


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "replace"), LEVEL)


def _unpacked(stored: bytes) -> str:
    return zlib.decompress(stored).decode()


def _joined(parts: Iterable[Tokens]) -> list[str]:
    return [" ".join(part.terms) for part in parts]


def _checksum(joined: Sequence[str]) -> int:
    return zlib.crc32("\n".join(joined).encode("utf-8", "replace"))
