"""What a process uses: processor time, memory, files. On Linux, of any process of this user."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


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
