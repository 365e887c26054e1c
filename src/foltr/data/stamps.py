"""Hashes of files, remembered by size and time stamps, so that large unchanged files are not read
again."""

from __future__ import annotations

import json
import os
import time
from hashlib import blake2b
from pathlib import Path

from foltr.data.text_files import pieces
from foltr.errors import Mistake
from foltr.system.files import write_whole
from foltr.system.paths import cache_folder

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
