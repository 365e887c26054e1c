"""The lock of a folder: one process at a time makes a run, or uses a state folder. The lock ends
with its process, however that ends."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake
from foltr.core.system.files import regular, writing

FILE = "running.lock"
SIZE = 512  # bytes in which the holder reports its progress, always rewritten as a whole
REPORT_SECONDS = 1.0
WAIT_SECONDS = 0.2


class Busy(Exception):
    """Another process is making this run."""


class Claim:
    """Held within `held`. Meanwhile `report` writes the progress, for `foltr status` and `foltr
    watch`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file: int | None = None
        self._reported = 0.0

    @contextmanager
    def held(self, wait: bool, stop: Callable[[], bool] | None = None) -> Iterator[Claim]:
        """Take the lock. If another process holds it: with `wait`, wait for it, or until `stop()`;
        else raise Busy."""
        announced = False
        while not self._take():
            if not wait or (stop is not None and stop()):
                raise Busy(str(self.path.parent))
            if not announced:
                print(
                    f"foltr: waiting for {_holder(self.path)}, which is making this run",
                    file=sys.stderr,
                    flush=True,
                )
                announced = True
            time.sleep(WAIT_SECONDS)
        try:
            yield self
        finally:
            self._release()

    def report(self, t: int, rounds: int) -> bool:
        """Write the progress, at most once a second; whether it was written."""
        now = time.monotonic()
        if self._file is None or now - self._reported < REPORT_SECONDS:
            return False
        self._reported = now
        about = {"host": platform.node(), "pid": os.getpid(), "round": t, "rounds": rounds}
        with writing(self.path):
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, json.dumps(about).encode()[:SIZE].ljust(SIZE))
        return True

    def _take(self) -> bool:
        with writing(self.path):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        # Its last holder may have removed the file after we opened and before we locked it: then
        # another file has this name.
        if _locked(file, self.path) and _is(file, self.path):
            self._file = file
            try:
                self.report(0, 0)
            except Mistake:
                self._release()
                raise
            return True
        os.close(file)
        return False

    def _release(self) -> None:
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def claimed(folder: Path) -> dict[str, Any] | None:
    """What the holder of a run's lock reports; None if no process holds it."""
    try:
        opened = regular(folder / FILE)
    except OSError:
        return None
    with opened:
        if _locked(opened.fileno(), folder / FILE, shared=True):
            return None  # its holder was killed
        try:
            about = json.loads(os.read(opened.fileno(), SIZE))
        except (ValueError, RecursionError):
            return {}
        return about if isinstance(about, dict) else {}


def _holder(path: Path) -> str:
    about = claimed(path.parent) or {}
    return (
        f"process {about['pid']} on {about['host']}"
        if {"pid", "host"} <= set(about)
        else "another process"
    )


def _is(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _locked(file: int, path: Path, shared: bool = False) -> bool:
    """Lock an open file for this process; False if another process has locked it. A `shared` lock
    only looks."""
    if sys.platform == "win32":
        import msvcrt

        try:
            os.lseek(file, SIZE, os.SEEK_SET)  # beyond what others may read
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(file, 0, os.SEEK_SET)
        return True
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        why = error.strerror or error
        raise Mistake(
            f"{path} cannot be locked ({why}): keep runs on a file system that supports locks"
        ) from None
    return True


@contextmanager
def only_one(folder: Path, what: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a state folder. If another process has it, wait for up to `wait`
    seconds, then raise a Mistake."""
    until = time.monotonic() + wait

    def over() -> bool:
        return time.monotonic() > until

    with ExitStack() as stack:
        try:
            stack.enter_context(Claim(folder).held(wait > 0.0, over))
        except Busy:
            raise Mistake(
                f"another process uses {folder}: stop it, or give this {what} another state folder"
            ) from None
        yield
