"""A cache of arrays on disk: one folder per content and options, opened as memory maps.

A folder is written aside, flushed and renamed, so it is complete or absent. If two processes write
the same folder, the first one to rename wins. Its name is a hash of everything that its arrays
depend on, so it is never stale. A damaged folder is written again."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake
from foltr.core.system.files import cache_folder

FORMAT = 1  # version: raise it when equal inputs give other arrays or files
ASIDE = "writing-"  # prefix of incomplete folders
ABANDONED = 3600.0  # seconds without a write after which an incomplete folder is removed
HEADER = 128  # bytes of a .npy header, whatever the number of rows


@dataclass(frozen=True)
class CachedFolder:
    """The content of a folder: arrays by name, facts by name, and the hash that identifies it."""

    arrays: dict[str, Array]
    facts: dict[str, Any]
    content: str


def kept(key: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any]]) -> CachedFolder:
    """The arrays of `key`. If there are none yet, `make(folder)` writes them as .npy files and
    returns the facts."""
    content, root = _content(key), cache_folder("data")
    found = _open(root / content, content)
    if found is not None:
        return found
    try:
        _write(root, content, make)
    except OSError as error:
        raise Mistake(
            f"cannot keep data in {root}: {error.strerror}; make room or give the right to write"
            " there, or set FOLTR_CACHE to another folder"
        ) from None
    found = _open(root / content, content)
    if found is None:
        raise Mistake(
            f"what was just written to {root / content} cannot be read; set FOLTR_CACHE to another"
            " disk"
        )
    return found


def kept_lately(
    kind: str, most: int, key: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any]]
) -> CachedFolder | None:
    """As `kept`, for arrays that are quickly made again: the cache holds the `most` that were used
    last. None if they are not there and cannot be written."""
    content, root = _content(key), cache_folder(kind)
    found = _undamaged(_open(root / content, content))

    def make_and_sum(folder: Path) -> Mapping[str, Any]:
        facts = dict(make(folder))
        sums = {file.stem: _sum(np.load(file)) for file in folder.glob("*.npy")}
        return {**facts, "sums": sums}

    try:
        if found is None:
            rmtree(root / content, ignore_errors=True)
            _write(root, content, make_and_sum)
            found = _open(root / content, content)
        os.utime(root / content)
        used = sorted(root.iterdir(), key=lambda folder: folder.stat().st_mtime)
    except OSError:
        return found
    for old in used[:-most]:
        rmtree(old, ignore_errors=True)
    return found


def _undamaged(found: CachedFolder | None) -> CachedFolder | None:
    if found is None:
        return None
    sums = {name: _sum(array) for name, array in found.arrays.items()}
    return found if found.facts.get("sums") == sums else None


def _sum(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)


def _content(key: Mapping[str, Any]) -> str:
    text = json.dumps([FORMAT, dict(key)], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _write(root: Path, content: str, make: Callable[[Path], Mapping[str, Any]]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    remove_abandoned(root)
    aside = Path(mkdtemp(prefix=ASIDE, dir=root))
    aside.chmod(0o755)  # a shared cache must be readable by others
    try:
        facts = dict(make(aside))
        sizes = {file.name: file.stat().st_size for file in sorted(aside.iterdir())}
        (aside / "meta.json").write_text(json.dumps({"facts": facts, "sizes": sizes}, indent=1))
        for file in aside.iterdir():
            _flush(file)
        _flush(aside)
        _put(aside, root / content, content)
        _flush(root)
    finally:
        rmtree(aside, ignore_errors=True)


def _put(aside: Path, place: Path, content: str) -> None:
    """Rename the folder into place. If another process was first, its folder stays, unless it is
    damaged."""
    if place.exists() and _open(place, content) is None:
        broken = Path(mkdtemp(prefix=ASIDE, dir=place.parent))
        os.replace(place, broken / "broken")
        rmtree(broken, ignore_errors=True)
    try:
        os.rename(aside, place)
    except OSError:
        if _open(place, content) is None:
            raise


def _open(folder: Path, content: str) -> CachedFolder | None:
    """The folder's arrays as memory maps, or None if it is absent or damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        if any((folder / name).stat().st_size != size for name, size in meta["sizes"].items()):
            return None
        arrays = {Path(name).stem: np.load(folder / name, mmap_mode="r") for name in meta["sizes"]}
        return CachedFolder(arrays, meta["facts"], content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove_abandoned(root: Path) -> None:
    """Remove incomplete folders of processes that were killed."""
    for folder in root.glob(f"{ASIDE}*"):
        try:
            last = max(path.stat().st_mtime for path in [folder, *folder.iterdir()])
        except OSError:
            continue  # its writer has just finished
        if time.time() - last > ABANDONED:
            rmtree(folder, ignore_errors=True)


def _flush(path: Path) -> None:
    """Force a file to the disk before it is renamed; folders only where the system supports it."""
    folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        if not folder:
            raise


class RowWriter:
    """A .npy file that grows by plain writes: a full disk raises OSError instead of killing the
    process."""

    def __init__(self, path: Path, columns: int, dtype: type) -> None:
        self._file, self._columns, self._dtype, self._rows = (
            open(path, "wb"),
            columns,
            np.dtype(dtype),
            0,
        )
        self._file.write(bytes(HEADER))

    def append(self, rows: Array) -> None:
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self._rows += len(rows)

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            shape = (self._rows, self._columns)
            facts = f"{{'descr': '{self._dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
            self._file.seek(0)
            self._file.write(b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little"))
            self._file.write(facts.encode().ljust(HEADER - 11) + b"\n")
