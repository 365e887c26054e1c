"""A process: what it uses (on Linux, any process of this user), its threads, and the environment
that is stored beside the results of a run and is no part of their identity."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from time import perf_counter

import numpy as np

import foltr

PIECES = 4  # pieces of work per thread, to balance slow ones


@dataclass(frozen=True)
class Usage:
    """What a process uses. None: not known on this system."""

    cpu_seconds: float | None = None  # user and system time
    resident_bytes: int | None = None  # memory that is not swapped out
    started: float | None = None  # seconds since 1970
    open_files: int | None = None


def usage(pid: int | None = None) -> Usage:
    """What a process uses now; None is this process."""
    proc = Path("/proc") / ("self" if pid is None else str(pid))
    try:  # the name of a process may contain spaces and parentheses
        words = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        cpu, began, pages = int(words[11]) + int(words[12]), int(words[19]), int(words[21])
    except (OSError, ValueError, IndexError, AttributeError):
        return Usage(time.process_time() if pid is None else None)
    files = None
    with suppress(OSError):
        files = len(os.listdir(proc / "fd"))
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return Usage(cpu / ticks, pages * page, booted + began / ticks, files)


def machine_memory() -> int | None:
    """The bytes of memory that this machine, or the container around the process, has; None where
    that is not known."""
    try:
        sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError, AttributeError):  # Windows
        return None
    with suppress(OSError, ValueError):  # no limit is the word "max"
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(sizes)


def release_memory() -> None:
    """Free objects in cycles, and return free memory to the operating system. The C library keeps
    what was freed between pieces that are in use, unless it is asked (glibc)."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Threads:
    """`number` threads, including the caller's own. Each piece of work writes only its own part of
    a result, so the bits do not depend on the number of threads."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.busy = 0.0  # seconds spent in kernels
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def running(self) -> Iterator[Threads]:
        if self.number > 1:
            self._pool = ThreadPoolExecutor(self.number - 1)
        try:
            yield self
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
                self._pool = None

    def share(self, n: int, work: Callable[[int, int], None], small: bool = False) -> None:
        """Call work(first, last) for pieces that cover 0 .. n; `small` uses one thread."""
        began = perf_counter()
        self._share(n, work, small)
        self.busy += perf_counter() - began

    def _share(self, n: int, work: Callable[[int, int], None], small: bool) -> None:
        if self._pool is None or small or n == 1:
            work(0, n)
            return
        edges = np.linspace(0, n, min(n, PIECES * self.number) + 1).astype(int).tolist()
        turn = count()

        def take_turns() -> None:
            while (i := next(turn)) < len(edges) - 1:
                work(edges[i], edges[i + 1])

        helpers = [
            self._pool.submit(copy_context().run, take_turns)  # with the caller's kernels
            for _ in range(self.number - 1)
        ]
        take_turns()
        for helper in helpers:
            helper.result()


@cache
def environment() -> dict[str, object]:
    return {
        "foltr": foltr.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "scipy", "numba")},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "command": sys.argv,
    }


def _commit() -> str | None:
    """The commit of foltr's source tree, with + if it has changes; None if foltr was installed as
    a package."""
    tree = Path(__file__).resolve().parents[4]
    if not (tree / ".git").exists():
        return None
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, timeout=5
        )
        status = subprocess.run(
            ["git", "--no-optional-locks", "status", "--porcelain"],  # which writes nothing
            cwd=tree, capture_output=True, text=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("+" if status.stdout.strip() else "")


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
