"""Brings the index up to date with a file as soon as it changes (`foltr device search --watch`).

The system says which paths have changed. A few of them are read one by one; where that is not
enough (a folder was renamed, a .gitignore has changed), all folders are looked through, as in
`indexing.update`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

from foltr.device.home import Busy, Home
from foltr.device.index import Index
from foltr.device.indexing import is_own, reads_everything, remove_file, update_file
from foltr.device.walking import IGNORE_FILES, find
from foltr.errors import Mistake

MOST = 200  # paths that are read one by one
TOGETHER = 1000  # milliseconds: changes in so short a time are one
LOOK = 10_000  # milliseconds between two looks whether there are other folders to watch


def follow(home: Home, stop: Event, update: Callable[[], object]) -> None:
    """Follow the changes of all indexed folders until `stop` is set. `update` brings the whole
    index up to date."""
    index = home.existing()
    try:
        before: list[tuple[Path, int, int]] | None = None
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


def _state(index: Index) -> list[tuple[Path, int, int]]:
    """The folders, and which of them are there: a disk can be taken away, and another can come in
    its place."""
    found = []
    for root in index.roots():
        try:
            status = os.stat(root)
            found.append((root, status.st_dev, status.st_ino))
        except OSError:
            found.append((root, -1, -1))
    return found


def read_changed(index: Index, roots: Collection[Path], changed: Collection[str]) -> None:
    """Bring the index up to date with these files, and with no others."""
    everything, known = reads_everything(index), index.files()
    there = [root for root in roots if os.path.exists(root)]
    for path in sorted(changed):
        found = find(Path(path), there, everything)
        if found is not None and not is_own(index, path):
            update_file(index, found)
        elif path in known:
            remove_file(index, Path(path))


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
