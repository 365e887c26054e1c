"""Looks for clients' updates in the memory of processes and in files."""

import os
import sqlite3
from dataclasses import dataclass, field

import numba
import numpy as np

RUN = 4  # numbers in a row that count as found
PIECE = 1 << 26  # bytes that are searched at a time
FORMATS = ("float32", "float64", "fixed point")
ANCHOR = {"float32": 0, "float64": 4, "fixed point": 0}  # four bytes that differ in most numbers
SIZE = {"float32": 4, "float64": 8, "fixed point": 8}


def updates_of(records):
    """What the clients of a node sent last: (client, round) -> numbers, weight."""
    return {
        (client, round): (np.frombuffer(payload, np.float32, offset=1), weight)
        for client, round, payload, weight in rows(records, "id, round, payload, weight")
    }


def column(records, name):
    return [value for (value,) in rows(records, name)]


def rows(records, names):
    """Of all clients in a node's records."""
    db = sqlite3.connect(f"file:{records}?mode=ro", uri=True, timeout=20)
    try:
        return db.execute(f"select {names} from client").fetchall()
    finally:
        db.close()


@dataclass
class Search:
    """All runs of four numbers of some updates, in three formats. `words` makes the fixed-point
    words of an update and its weight."""

    words: object
    looked: int = 0  # bytes
    patterns: dict = field(default_factory=dict)  # bytes -> (client and round, format)

    def add(self, updates):
        for name, (update, weight) in updates.items():
            self._add(name, "float32", update)
            self._add(name, "float64", update.astype("<f8"))
            self.add_words(name, self.words(update, weight))
        return self

    def add_words(self, name, words):
        self._add(name, "fixed point", words[1:])  # the first one is the weight
        return self

    def _add(self, name, kind, numbers):
        for i in range(len(numbers) - RUN + 1):
            part = numbers[i : i + RUN]
            if len(set(part.tolist()) - {0}) == RUN:  # nothing that is found everywhere
                self.patterns[part.tobytes()] = name, kind

    def tables(self):
        for kind in FORMATS:
            at = ANCHOR[kind]
            texts = [text for text, (_, own) in self.patterns.items() if own == kind]
            heads = {int.from_bytes(text[at : at + 4], "little") for text in texts}
            yield kind, np.array(sorted(heads), np.uint32)

    def text(self, content):
        """What is found in some bytes, at any place in them: {(client and round, format)}."""
        self.looked += len(content)
        found, numbers = set(), np.frombuffer(content, np.uint8)
        for kind, heads in self.tables():
            if not len(heads):
                continue
            filled = np.zeros(1 << 20, np.bool_)
            filled[(heads * np.uint32(2654435761)) >> np.uint32(12)] = True
            at, size = ANCHOR[kind], RUN * SIZE[kind]
            for place in places(numbers, filled, heads).tolist():
                start = place - at
                if start >= 0 and (hit := self.patterns.get(content[start : start + size])):
                    found.add(hit)
        return found

    def memory(self, pid):
        """In the memory of a process that is stopped."""
        found = set()
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                span, rights = line.split()[:2]
                if "r" not in rights or "[v" in line:  # the kernel's own pages
                    continue
                start, end = (int(word, 16) for word in span.split("-"))
                for first in range(start, end, PIECE):
                    try:
                        memory.seek(first)
                        part = memory.read(min(PIECE + RUN * 8, end - first))
                    except (OSError, OverflowError):
                        continue
                    found |= self.text(part)
        return found

    def files(self, folder):
        """In all files below a folder."""
        found = set()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                found |= self.text(path.read_bytes())
        return found


@numba.njit(cache=False)
def places(content, filled, heads):
    """Where one of the heads (four bytes, ascending) begins."""
    found = []
    word = np.uint32(0)
    for i in range(len(content)):
        word = np.uint32(word >> np.uint32(8)) | np.uint32(np.uint32(content[i]) << np.uint32(24))
        if filled[np.uint32(word * np.uint32(2654435761)) >> np.uint32(12)]:
            k = np.searchsorted(heads, word)
            if k < len(heads) and heads[k] == word:
                found.append(i - 3)
    return np.array(found, np.int64)


def can_read_memory(pid):
    return os.access(f"/proc/{pid}/mem", os.R_OK)
