"""Text files of data sets, in blocks of whole lines: plain or compressed with gzip, with a byte
order mark or without, with any line ends. They are read as a stream, so a file may be larger than
memory."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from foltr.core.errors import Mistake
from foltr.core.system.files import cache_folder, write_whole

BLOCK = 2 << 20  # bytes of text in a block, and the rest of its last line
LONGEST_LINE = 16 << 20
PEEK = 1 << 20  # bytes that tell the line ends of a file
# A gzip file that unpacks to more than this many times its size is refused, beyond the first
# bytes: a few kilobytes could otherwise fill a disk. LETOR text unpacks to 5 to 30 times its size.
MOST_TIMES, UNCHECKED = 200, 64 << 20
GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
OTHERS = {  # how a file begins that is no text -> what it is, and what to do
    b"PK\x03\x04": "a zip archive: unpack it",
    b"BZh": "compressed with bzip2: unpack it (bunzip2), or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz: unpack it (unxz), or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it (unzstd), or compress it with gzip",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}
# a carriage return in the middle of a line, and then what looks like another document
MIXED = re.compile(rb"\r(?![\r\n])[ \t]*[0-9][0-9.]*[ \t]+qid:")


def at(path: Path) -> Path | None:
    """The file at a path, or the one beside it that is compressed (`train.txt.gz`)."""
    packed = path.with_name(f"{path.name}.gz")
    return next((file for file in (path, packed) if file.is_file()), None)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """The bytes of a file, unpacked if they are compressed with gzip, whatever its name is."""
    try:
        with open(path, "rb") as file:
            first = file.read(8)
            file.seek(0)
            if what := next((OTHERS[mark] for mark in OTHERS if first.startswith(mark)), ""):
                raise Mistake(f"{path} is {what}")
            if first.startswith(GZIP):
                with gzip.GzipFile(fileobj=file) as text:
                    yield text
            else:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Mistake(f"{path} is damaged: it cannot be unpacked by gzip ({error})") from None
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror or error}") from None


def pieces(path: Path, size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a file in pieces of a size, unpacked, as far as that is sane."""
    whole = 0
    with unpacked(path) as file:
        most = max(UNCHECKED, MOST_TIMES * path.stat().st_size)
        packed = isinstance(file, gzip.GzipFile)
        while piece := file.read(size):
            whole += len(piece)
            if packed and whole > most:
                raise Mistake(
                    f"{path} unpacks to more than {MOST_TIMES} times its size: if that is meant,"
                    " unpack it with gunzip"
                )
            yield piece


def blocks(path: Path) -> Iterator[bytes]:
    """The text of a file in blocks of whole lines, each of which ends with a newline. A byte order
    mark is left out. A file whose lines end with carriage returns alone (old Macintosh) is read as
    such; one that mixes them with other line ends is refused."""
    first = next(pieces(path, PEEK), b"")
    old = b"\r" in first and b"\n" not in first
    rest, line, begun = b"", 1, not first.startswith(BOM)
    for piece in pieces(path, max(BLOCK, len(BOM))):
        if not begun:
            piece, begun = piece.removeprefix(BOM), True
        text = rest + (piece.replace(b"\r", b"\n") if old else piece)
        end = text.rfind(b"\n") + 1
        block, rest = text[:end], text[end:]
        if len(rest) > LONGEST_LINE:
            most = f"more than {LONGEST_LINE >> 20} MB"
            line += block.count(b"\n")
            raise Mistake(f"{path}, line {line}: {most} without a line end; is this LETOR text?")
        if block:
            _check_line_ends(path, block, line)
            line += block.count(b"\n")
            yield block
    if rest:
        _check_line_ends(path, rest, line)
        yield rest + b"\n"


def _check_line_ends(path: Path, block: bytes, line: int) -> None:
    if b"\r" in block and (found := MIXED.search(block)):
        line += block.count(b"\n", 0, found.start())
        raise Mistake(
            f"{path}, line {line}: a carriage return and then another document; its line ends are"
            " mixed, write each document in a line of its own"
        )


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, each with its newline."""
    for block in blocks(path):
        for line in block[:-1].split(b"\n"):
            yield line + b"\n"


# Hashes of files, remembered by size and time stamps, so that large unchanged files are not
# read again.

# nanoseconds: a file changed more recently may change again without a new time stamp
RACY = 2_000_000_000


def stamp(path: Path) -> list[int]:
    """Size, times and identity of a file, which change whenever the file does. (Restoring the
    modification time changes the change time.)"""
    try:
        seen = os.stat(path)
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_dev]


def content(path: Path) -> str:
    """A hash of the file's bytes, unpacked if they are compressed; remembered only if the file was
    unchanged for a while before."""
    now, begun = stamp(path), time.time_ns()
    name = blake2b(os.fsencode(path.resolve()), digest_size=16).hexdigest()
    memory = cache_folder("data") / "stamps" / f"{name}.json"
    try:
        known = json.loads(memory.read_text())
        if known["stamp"] == now:
            return str(known["content"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not seen before, or not readable: hash it
    hashed = blake2b(digest_size=16)
    for piece in pieces(path):
        hashed.update(piece)
    digest = hashed.hexdigest()
    if stamp(path) == now and begun - max(now[1], now[2]) > RACY:
        _remember(memory, {"stamp": now, "content": digest, "path": str(path)})
    return digest


def _remember(memory: Path, known: dict[str, object]) -> None:
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_whole(memory, json.dumps(known))
    except (OSError, Mistake):
        # a read-only cache may still hold the data; the file is then hashed again
        pass
