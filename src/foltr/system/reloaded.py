"""Values that are read from files, and read again when the files change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from foltr.errors import Mistake
from foltr.system.log import Event, Tell

T = TypeVar("T")
Stamp = tuple[int, int, int] | None


class Reloaded(Generic[T]):
    """A value that is read again when its files change. `value` is the current one.

    read: makes the value from the files; raises a Mistake if they do not fit together, and then
        the earlier value stays. Files that are replaced one after the other do not fit for a
        moment, so a problem is logged only if it is still there at the next call of `refresh`.
    tell: writes a line of the log."""

    def __init__(self, files: Iterable[Path], read: Callable[[], T], tell: Tell) -> None:
        self.files, self._read, self._tell = tuple(files), read, tell
        self._seen = self._stamps()  # before the files are read: a later change is noticed
        self._failed: tuple[Stamp, ...] | None = None
        self.value = read()

    def refresh(self) -> bool:
        """Read the files again if they have changed. Returns whether there is a new value."""
        now = self._stamps()
        if now == self._seen:
            return False
        try:
            self.value = self._read()
        except (Mistake, OSError) as error:
            if now == self._failed:
                self._seen = now  # told now, and not again until the files change
                why = f"{error}: what was read before stays in use"
                self._tell(Event(f"a changed file cannot be used: {why}", "reload", "warning"))
            self._failed = now
            return False
        self._seen, self._failed = now, None
        return True

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(map(_stamp, self.files))


def _stamp(file: Path) -> Stamp:
    """What changes when a file is replaced or written; None if there is no file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
