"""A worker of a sweep, in any process or on any machine: makes one run, returns its outcome, and
raises nothing. It works as long as it sees the lease of its sweep."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal

from foltr.core.errors import Mistake, explained
from foltr.core.system.files import write_whole, writing
from foltr.core.system.lock import Busy
from foltr.experiment import Experiment
from foltr.experiment.user_files import in_users_code, using_only
from foltr.simulation.runs.execution import USUAL, RunOptions
from foltr.simulation.runs.folder import Damaged, Folder
from foltr.simulation.runs.interruptions import Stopped
from foltr.simulation.runs.run import Run

ORPHAN_SECONDS = 0.5
LEASE_SECONDS = 20.0  # without a touch of its lease, a sweep counts as dead
SUFFIX = ".lease"
TOUCH_SECONDS = 0.5
FORGET_SECONDS = 600.0  # after which the lease of a killed sweep is deleted


@dataclass(frozen=True)
class Task:
    """One run of a sweep as plain values, because components of a user's file cannot be
    pickled."""

    run: str  # name of its folder, as the sweep planned it
    config: dict[str, Any]
    use: tuple[str, ...]
    out: str
    lease: str
    pid: int | None  # the sweep's process, if it is on this machine
    options: RunOptions = USUAL  # measures by their specs
    wait: bool = False  # if another process is making this run


Kind = Literal["made", "found", "busy", "stopped", "failed", "damaged", "full"]


@dataclass(frozen=True)
class Outcome:
    """`busy`: another process is making the run; `stopped`: the sweep was stopped; `damaged`: the
    run is finished, cannot be read, and may not be made again in its place; `full`: the disk is
    full."""

    run: str
    kind: Kind
    error: str = ""
    healed: str = ""  # the damage for which a finished run was made again
    kernel_seconds: float = 0.0  # spent by this worker


def work(task: Task) -> Outcome:
    if task.pid is None or task.pid == os.getpid():
        # a worker of a cluster may make several runs at a time, and must not end with the sweep
        return _outcome(task, _stop(task))
    _end_with(task.pid)
    with _working:
        return _outcome(task, _stop(task))


_working = threading.Lock()  # held while this process makes a run
_ending: set[int] = set()  # sweeps whose end also ends this process


def _end_with(pid: int) -> None:
    """End this process when its sweep, on the same machine, is killed. Ctrl-C is handled by the
    sweep, which then revokes its lease."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if pid not in _ending:
        _ending.add(pid)
        threading.Thread(target=_wait_for_the_end, args=(pid,), daemon=True).start()


def _wait_for_the_end(pid: int) -> None:
    while _alive(pid):
        time.sleep(ORPHAN_SECONDS)
    with _working:
        os._exit(1)


def _outcome(task: Task, stop: Callable[[], bool]) -> Outcome:
    if stop():
        return Outcome(task.run, "stopped")
    damages: list[str] = []
    try:
        with nullcontext() if task.pid == os.getpid() else using_only(task.use):
            run = Run(
                Experiment(**task.config),
                task.out,
                task.options,
                wait=task.wait,
                stop=stop,
                tell=lambda folder, damage: damages.append(damage),
            )
            mine = run.folder.path.name if run.folder else "none"
            if mine != task.run:
                raise Mistake(
                    f"this worker would make {mine}, not {task.run}: its version of foltr, its"
                    " data or its copy of your files differs from that of the machine that started"
                    " the sweep"
                )
            kind: Kind = "found" if run.result().found else "made"
        return Outcome(task.run, kind, "", "; ".join(damages), run.context.threads.busy)
    except Busy:
        return Outcome(task.run, "busy")
    except Stopped:
        return Outcome(task.run, "stopped")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the other runs continue
        if isinstance(error, Damaged) and error.what == Path(task.out) / task.run:
            return Outcome(task.run, "damaged", error.why)
        return _failed(task, error)


def _failed(task: Task, error: BaseException) -> Outcome:
    """The error is kept in the run's folder, if it can be written."""
    message = in_users_code(error).partition("\n")[0] or explained(error)
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
    ):
        return Outcome(task.run, "full", message)
    try:
        details = "".join(traceback.format_exception(error))
        folder = Folder(Path(task.out) / task.run)
        if not folder.is_finished:
            folder.fail(message, details)
    except Mistake as mistake:
        message += f" ({mistake})"
    return Outcome(task.run, "failed", message)


# path -> time of its last change, and when this process first saw that change
_leases: dict[str, tuple[int, float]] = {}


def _stop(task: Task) -> Callable[[], bool]:
    """Whether the sweep has ended or been stopped (its lease is gone), or died (its lease is
    old)."""

    def stop() -> bool:
        try:
            changed = os.stat(task.lease).st_mtime_ns
        except OSError:
            return True
        if task.pid is not None and not _alive(task.pid):
            return True
        known, since = _leases.get(task.lease, (0, 0.0))
        if changed != known:
            _leases[task.lease] = changed, time.monotonic()
            return False
        return time.monotonic() - since > LEASE_SECONDS

    return stop


def _alive(pid: int) -> bool:
    """Whether a sweep's process lives: it is this process or its parent, because orphans get
    another parent at once. On Windows they do not, and only the lease shows it."""
    return os.name == "nt" or pid in (os.getpid(), os.getppid())


class Lease:
    """The heartbeat of a sweep: a file that it touches while it runs, held by `with`. Its workers,
    on any machine, stop when the file is gone or old. `tick` is called twice a second, to show
    progress."""

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
