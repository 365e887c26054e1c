"""A file that a sweep touches while it lives: its workers, on whatever machine, stop when it is gone or grows old."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from foltr.files import told, write_whole

SUFFIX = ".lease"
TOUCH_SECONDS = 1.0
FORGET_SECONDS = 600.0  # after which the lease of a killed sweep is swept away


class Lease:
    """Held by `with`; `tick` is called twice a second beside it, to show how things stand."""

    def __init__(self, out: Path, name: str, tick: Callable[[], None] = lambda: None) -> None:
        self.path = out / f".{name}.{os.getpid()}.{time.monotonic_ns()}{SUFFIX}"
        self.tick = tick
        self._over = Event()
        self._thread = Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Lease:
        with told(self.path.parent):
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
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _keep(self) -> None:
        touched = time.monotonic()
        while not self._over.wait(TOUCH_SECONDS / 2):
            if time.monotonic() - touched >= TOUCH_SECONDS:
                touched = time.monotonic()
                with suppress(OSError):  # revoked, or the disk is away for a moment: workers wait for a while
                    os.utime(self.path)
            self.tick()


def forget_old(out: Path) -> int:
    """Remove the leases of sweeps that were killed; how many."""
    old = [file for file in out.glob(f".*{SUFFIX}") if time.time() - file.stat().st_mtime > FORGET_SECONDS]
    for file in old:
        file.unlink(missing_ok=True)
    return len(old)
