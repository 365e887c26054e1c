"""Files: written whole or not at all, read safely in folders of others, and JSON that every parser
reads; and where they are: paths that users give, and the folders of data sets and caches, which
environment variables can move."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO

from platformdirs import user_cache_path, user_data_path

from foltr.core.errors import Mistake, shown

# of an integer: more does not fit a float, and Python writes no integer of thousands of digits
MOST_BITS = 1000
DEEPEST = 50  # tables or lists inside each other
FLAGS = ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY")  # not every system has each
READING = os.O_RDONLY | sum(getattr(os, name, 0) for name in FLAGS)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the system (disk full, read-only, missing) into an error message for the
    user."""
    try:
        yield
    except OSError as error:
        raise Mistake(f"cannot write {path}: {error.strerror or error}") from error


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content` atomically: a kill, a full disk or another process cannot leave
    half a file."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    with writing(path):
        try:
            with open(aside, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            _sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder outlive a power failure, where a folder can be opened."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def regular(path: Path) -> BinaryIO:
    """Open the regular file at `path`; raises for links, pipes and devices. The folder may come
    from somebody else: a link could lead anywhere, and reading a pipe or a device could block for
    ever."""
    _check_regular(path, os.lstat(path))  # before opening, which alone can affect a device
    found = os.open(path, READING)
    try:
        _check_regular(path, os.fstat(found))  # and after, since the path may have been replaced
        return open(found, "rb")
    except BaseException:
        os.close(found)
        raise


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder"}
        raise OSError(
            f"{path.name} is {kinds.get(stat.S_IFMT(status.st_mode), 'a device')}, not a regular"
            " file"
        )


def content_of(path: Path) -> bytes:
    with regular(path) as file:
        return file.read()


def text_of(path: Path) -> str:
    return content_of(path).decode()


def is_plain_name(name: object) -> bool:
    """Whether a name is a file directly in a folder, without a path."""
    return isinstance(name, str) and Path(name).name == name and name not in ("", ".", "..")


def strict_json(content: Any) -> str:
    """JSON text in ASCII, in one line. Infinities and NaN, which JSON does not have, become
    null; an object that JSON does not know becomes its text."""
    return json.dumps(_finite(content), allow_nan=False, separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_extent(value: Any, depth: int = 0) -> None:
    """Refuses what a file may hold and nobody means, and no message could show: endless integers,
    lists in lists."""
    if depth > DEEPEST:
        raise ValueError(f"its tables or lists are nested more than {DEEPEST} deep")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"it holds an integer of more than {MOST_BITS} bits")
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        check_extent(part, depth + 1)


def given_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user gave: `~` is the home folder. Refuses a name that no file can have."""
    try:
        found = Path(path).expanduser()
        os.lstat(found)
    except RuntimeError:
        raise Mistake(f"{shown(str(path))}: there is no such home folder") from None
    except ValueError:
        raise Mistake(f"{shown(str(path))} is no path: it holds a zero byte") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Mistake(f"{shown(str(path))}: {error.strerror}: choose a shorter one") from None
    return found  # it need not exist


def data_folders() -> list[Path]:
    """The folders searched for data sets, in order: those of FOLTR_DATA, then the user's data
    folder."""
    named = [Path(part) for part in os.environ.get("FOLTR_DATA", "").split(os.pathsep) if part]
    return [*named, user_data_path("foltr") / "data"]


def cache_folder(kind: str) -> Path:
    """The folder of a kind of cache: below FOLTR_CACHE, or in the user's cache folder."""
    root = os.environ.get("FOLTR_CACHE")
    return (Path(root) if root else user_cache_path("foltr")) / kind
