"""Files that are whole or absent: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident

from foltr.errors import Mistake


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content`, or leave it as it was: a kill, a full disk or a rival cannot halve it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    with told(path):
        try:
            with open(aside, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What the system says of a path (full, read-only, missing) as a message to the user."""
    try:
        yield
    except OSError as error:
        raise Mistake(f"cannot write {path}: {error.strerror or error}") from error
