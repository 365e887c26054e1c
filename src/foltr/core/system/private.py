"""Private files, such as keys: made for their owner alone, and never overwritten."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from foltr.core.errors import Mistake
from foltr.core.system.files import regular, writing

LARGEST = 100_000  # bytes of a private file
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(folder: Path, private: Mapping[str, bytes], public: Mapping[str, bytes]) -> None:
    """Make a folder with these files, all or none. Only its owner may enter it, and private files
    have mode 0600 from their first byte. A folder that has anything in it is refused."""
    empty = folder.is_dir() and next(folder.iterdir(), None) is None
    if folder.is_symlink() or (folder.exists() and not empty):
        raise Mistake(
            f"{folder} already exists, and keys are never overwritten: choose another folder"
            " (--out), or move this one away"
        )
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))  # 0700
        try:
            for name, content in private.items():
                _write_new(aside / name, content, 0o600)
            for name, content in public.items():
                _write_new(aside / name, content, 0o644)
            if os.name == "nt" and folder.is_dir():
                folder.rmdir()  # Windows replaces no folder, not even an empty one
            os.rename(aside, folder)  # fails if somebody else has put a file there meanwhile
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def _write_new(path: Path, content: bytes, mode: int) -> None:
    # x: fails if there is a file
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_private(path: Path, content: bytes) -> None:
    """Replace a private file atomically."""
    with replacing_private(path) as file:
        file.write(content)


@contextmanager
def replacing_private(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces `path` at the end: all of it, or nothing. It has mode
    0600 from its first byte."""
    with writing(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def private_content(path: Path) -> bytes:
    """The content of a private file; refused if anybody but its owner could read or change it."""
    try:
        with regular(path.resolve()) as file:
            if os.name != "nt" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise Mistake(
                    f"{path} is private, but other users of this machine may read or change it:"
                    f" chmod 600 {path}"
                )
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise Mistake(f"{path} is no key: it has more than {LARGEST:,} bytes")
    return content
