"""What a worker of a sweep does, in whatever process or machine: one run, whose outcome is told
and never raised."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from foltr.errors import Mistake, explained
from foltr.experiment import Experiment
from foltr.runs.folder import Folder
from foltr.runs.interruptions import Stopped
from foltr.runs.lock import Busy
from foltr.runs.run import Run
from foltr.runs.user_files import use_only

ORPHAN_SECONDS = 0.5
LEASE_SECONDS = 20.0  # a sweep that has not touched its lease for so long is dead


@dataclass(frozen=True)
class Task:
    """One run of a sweep in plain values: components of a user's file could not be pickled."""

    run: str  # its folder's name, as the sweep planned it
    config: dict[str, Any]
    use: tuple[str, ...]
    out: str
    lease: str
    pid: int | None  # the sweep's process, if it is one of this machine
    threads: int = 1
    engine: str = "local"
    per_query: bool = False
    wait: bool = False  # for another process that makes this run


Kind = Literal["made", "found", "busy", "stopped", "failed", "full"]


@dataclass(frozen=True)
class Outcome:
    """`busy`: another process is at it; `stopped`: the sweep was; `full`: the disk is."""

    run: str
    kind: Kind
    error: str = ""
    kernel_seconds: float = 0.0  # spent by this worker


def work(task: Task) -> Outcome:
    if task.pid is None or task.pid == os.getpid():
        return _outcome(
            task, _stop(task)
        )  # a cluster's worker may make several at a time, and is not ours to end
    _end_with(task.pid)
    with _working:
        return _outcome(task, _stop(task))


_working = threading.Lock()  # held while a process of a sweep makes a run
_ending: set[int] = set()  # sweeps with which this process ends


def _end_with(pid: int) -> None:
    """This is a process of a sweep on the same machine: Ctrl-C is for the sweep, which tells us by
    the lease; and when the sweep is killed, nobody else would end us."""
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
    try:
        if task.pid != os.getpid():
            use_only(task.use)
        run = Run(
            Experiment(**task.config), task.out, task.threads, task.engine,
            per_query=task.per_query, wait=task.wait, stop=stop,
        )  # fmt: skip
        _is_the_planned(run, task)
        found = run.result().found
        return Outcome(
            task.run, "found" if found else "made", kernel_seconds=run.context.threads.busy
        )
    except Busy:
        return Outcome(task.run, "busy")
    except Stopped:
        return Outcome(task.run, "stopped")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the other runs go on
        return _failed(task, error)


def _failed(task: Task, error: BaseException) -> Outcome:
    """Kept in the run's folder, if the disk takes it."""
    told = explained(error)
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
    ):
        return Outcome(task.run, "full", told)
    try:
        Folder(Path(task.out) / task.run).fail(told, "".join(traceback.format_exception(error)))
    except Mistake as mistake:
        told += f" ({mistake})"
    return Outcome(task.run, "failed", told)


def _is_the_planned(run: Run, task: Task) -> None:
    if run.folder is None or run.folder.path.name != task.run:
        mine = run.folder.path.name if run.folder else "none"
        raise Mistake(
            f"this worker would make {mine}, not {task.run}: its foltr, its data or its copy of"
            " your files differ from those of the machine that started the sweep"
        )


_leases: dict[
    str, tuple[int, float]
] = {}  # path -> its last change, and when this process first saw that


def _stop(task: Task) -> Callable[[], bool]:
    """Whether the sweep has ended, been stopped (its lease is gone) or died (its lease grows
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
    """Whether a sweep's process lives: it is this one, or our parent. Orphans are given another
    parent at once (but on Windows, where the lease will tell)."""
    return os.name == "nt" or pid in (os.getpid(), os.getppid())
