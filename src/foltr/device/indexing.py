"""Bring the index up to date with the folders of its user: new and changed files are read, files
that are gone are removed.

Work is stored every second or two. An interrupted run loses at most that; the next one goes on
with the rest, because a file that is unchanged since it was stored is not read again."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from foltr.core.errors import Mistake
from foltr.device import read_pdf as read_apart
from foltr.device.content import Text
from foltr.device.home import Busy, Home
from foltr.device.index import PAUSE, Index, SeenFile
from foltr.device.reading import Unread, texts_of
from foltr.device.walking import IGNORE_FILES, Found, find, walk

SECONDS = 1.5  # between two commits
REMOVED = 500  # files in one commit
OWN = ("page.json", "terms.json", "joined.json", "ca.pem")  # files beside the index
EVERYTHING = "everything"  # name of the stored setting
# reasons that can pass without a change of the file: it is tried again each time
PASSING = frozenset(("no permission", "not a file", "no reader"))


@dataclass
class Work:
    """What an update has done so far."""

    files: int = 0  # found in the folders
    unchanged: int = 0
    read: int = 0
    documents: int = 0  # written
    removed: int = 0  # files that are gone
    total: int = 0  # files to be read
    unread: Counter[str] = field(default_factory=Counter)  # why files could not be read
    left_out: Counter[str] = field(default_factory=Counter)  # why files were not looked at
    missing: list[str] = field(default_factory=list)  # roots that are not there now
    closed: list[str] = field(default_factory=list)  # folders that may not be read now


def update(
    index: Index,
    roots: Sequence[Path],
    everything: bool = False,
    tell: Callable[[Work], None] = lambda work: None,
) -> Work:
    """Bring the index up to date with the folders `roots`, and with no others. Documents of a
    folder that is not there at the moment, or may not be read, stay."""
    work, known, seen = Work(), index.files(), set[str]()
    there = [root for root in roots if os.path.exists(root)]
    for root in roots:
        deleted = str(root) in known and os.path.isdir(root.parent)  # it was a file
        if root not in there and not deleted:
            work.missing.append(str(root))
    changed: list[Found] = []
    for found in walk(there, everything, work.left_out, work.closed):
        path = str(found.path)
        if is_own(index, path):
            work.left_out["index"] += 1
            continue
        seen.add(path)
        work.files += 1
        before = known.get(path)
        if before is not None and _is_same(before, found):
            work.unchanged += 1
            if before.unread:
                work.unread[before.unread] += 1
        else:
            changed.append(found)
        if work.files % 1000 == 0:
            tell(work)
    away = tuple(f"{path.rstrip('/')}/" for path in (*work.missing, *work.closed))
    gone = [path for path in known if path not in seen and not f"{path}/".startswith(away)]
    work.total = len(changed)
    _remove(index, gone, work, tell)
    _read(index, changed, work, tell)
    return work


def is_own(index: Index, path: str) -> bool:
    """Whether a file is one of this device's own: its index, or beside it."""
    if index.path is None or (not path.endswith(OWN) and index.path.name not in path):
        return False
    own = index.path.resolve()
    return path.startswith(str(own)) or path in {str(own.with_name(name)) for name in OWN}


def _is_same(before: SeenFile, found: Found) -> bool:
    same = (before.size, before.modified) == (found.size, found.modified)
    return same and before.unread not in PASSING


def update_file(index: Index, found: Found) -> Work:
    """Bring the index up to date with one file."""
    work = Work(files=1, total=1)
    _read(index, [found], work, lambda work: None)
    return work


def _remove(index: Index, gone: Sequence[str], work: Work, tell: Callable[[Work], None]) -> None:
    for start in range(0, len(gone), REMOVED):
        some = gone[start : start + REMOVED]
        with index.batch():
            for path in some:
                index.remove(path)
        work.removed += len(some)
        tell(work)
        time.sleep(PAUSE)


def _read(
    index: Index, changed: Sequence[Found], work: Work, tell: Callable[[Work], None]
) -> None:
    left = list(reversed(changed))
    try:
        while left:
            with index.batch():
                until = time.monotonic() + SECONDS  # however long others have written
                while left and time.monotonic() < until:
                    _store(index, left.pop(), work)
            tell(work)
            time.sleep(PAUSE)
    finally:
        read_apart.stop()


def _store(index: Index, found: Found, work: Work) -> None:
    path, why = str(found.path), list[str]()

    def readable() -> Iterator[Text]:
        """The texts up to the first that cannot be read."""
        try:
            yield from texts_of(found.path, found.size, work.unread)
        except Unread as error:
            why.append(error.reason)

    work.documents += index.put(path, found.size, found.modified, readable())
    if why:
        index.mark_unread(path, why[0])
        work.unread[why[0]] += 1
    work.read += 1


def reads_everything(index: Index) -> bool:
    """Whether hidden and ignored files are indexed as well."""
    return index.about(EVERYTHING) is not None


def set_everything(index: Index, everything: bool) -> None:
    if everything:
        index.set_about(EVERYTHING, b"yes")
    else:
        index.delete_about(EVERYTHING)


def absolute(paths: Iterable[str]) -> list[Path]:
    """Folders as the index stores them."""
    found = []
    for text in paths:
        path = Path(text).expanduser()
        if not path.exists():
            raise Mistake(f"there is no file or folder {text}")
        found.append(path.resolve())
    return found


# Brings the index up to date with a file as soon as it changes (`foltr device search
# --watch`).

MOST = 200  # paths that are read one by one
TOGETHER = 1000  # milliseconds: changes in so short a time are one
LOOK = 10_000  # milliseconds between two looks whether there are other folders to watch


def follow(home: Home, stop: Event, update: Callable[[], object]) -> None:
    """Follow the changes of all indexed folders until `stop` is set. `update` brings the whole
    index up to date."""
    index = home.existing()
    try:
        before = None
        while not stop.is_set():
            if (now := _state(index)) != before:
                before = now
                with suppress(Busy):  # whoever indexes now sees the changes as well
                    update()
            is_first = True
            for changed in _changes(index.roots(), home.folder, stop):
                with suppress(Busy):
                    if not is_first and _one_by_one(index, changed):
                        with home.alone("indexing"):
                            read_changed(index, index.roots(), changed)
                    elif changed or is_first:  # also what changed before the watch began
                        update()
                is_first = False
                if _state(index) != before:
                    break
            stop.wait(1.0)
    finally:
        index.close()


def _state(index: Index) -> list[tuple[Path, tuple[int, int] | None]]:
    """The folders, and which of them are there: a disk can be taken away, and another can come in
    its place."""
    return [(root, _identity(root)) for root in index.roots()]


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def read_changed(index: Index, roots: Collection[Path], changed: Collection[str]) -> None:
    """Bring the index up to date with these files, and with no others."""
    everything, known = reads_everything(index), index.files()
    there = [root for root in roots if os.path.exists(root)]
    for path in sorted(changed):
        found = find(Path(path), there, everything)
        if found is not None and not is_own(index, path):
            update_file(index, found)
        elif path in known:
            with index.batch():
                index.remove(path)


def _one_by_one(index: Index, changed: Collection[str]) -> bool:
    """Whether it is enough to look at these paths."""
    if not 0 < len(changed) <= MOST:
        return False
    gone = tuple(f"{path}{os.sep}" for path in changed if not os.path.lexists(path))
    return not (
        any(os.path.basename(path) in IGNORE_FILES or os.path.isdir(path) for path in changed)
        or (gone and any(path.startswith(gone) for path in index.files()))
    )


def _changes(roots: Collection[Path], own: Path, stop: Event) -> Iterator[frozenset[str]]:
    """The paths that have changed, again and again; none after a while without a change. What is
    in the folder `own` of the device does not count."""
    try:
        from watchfiles import watch
    except ImportError:
        raise Mistake("--watch needs watchfiles: pip install 'foltr[device]'") from None
    inside = f"{own.resolve()}{os.sep}"
    there = [root for root in roots if os.path.exists(root)]
    if not there:
        return
    try:
        for changes in watch(
            *there,
            watch_filter=lambda change, path: not path.startswith(inside),
            debounce=TOGETHER,
            stop_event=stop,
            rust_timeout=LOOK,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        ):
            yield frozenset(path for _, path in changes)
    except (OSError, RuntimeError) as error:
        raise Mistake(f"the folders cannot be watched ({error})") from None
