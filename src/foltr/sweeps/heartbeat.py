"""The heartbeat of a sweep: a file that it touches while it runs. Its workers, on any machine,
stop when the file is gone or old."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from foltr.system.files import write_whole, writing

SUFFIX = ".lease"
TOUCH_SECONDS = 0.5
FORGET_SECONDS = 600.0  # after which the lease of a killed sweep is deleted


class Lease:
    """Held by `with`. Meanwhile `tick` is called twice a second, to show progress."""

    def __init__(self, out: Path, name: str, tick: Callable[[], None] = lambda: None) -> None:
        self.path = out / f".{name}.{os.getpid()}.{time.monotonic_ns()}{SUFFIX}"
        self.tick = tick
        self._over = Event()
        self._revoked = False
        self._thread = Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Lease:
        with writing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        forget_old(self.path.parent)
        write_whole(self.path, "")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.revoke()

    def revoke(self) -> None:
        """Tell all workers to stop, after a checkpoint."""
        self._revoked = True
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _keep(self) -> None:
        while not self._over.wait(TOUCH_SECONDS):
            if not self._revoked:
                self._touch()
            try:
                self.tick()
            except (OSError, ValueError):  # progress cannot be shown: the sweep continues
                self.tick = lambda: None

    def _touch(self) -> None:
        """Create it again if somebody removed it. Workers tolerate a disk that is away for a
        moment."""
        with suppress(OSError):
            self.path.touch()
            if self._revoked:  # meanwhile
                self.path.unlink(missing_ok=True)


def forget_old(out: Path) -> None:
    """Delete the leases of sweeps that were killed."""
    for file in out.glob(f".*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another sweep has deleted it
            if time.time() - file.stat().st_mtime > FORGET_SECONDS:
                file.unlink()
