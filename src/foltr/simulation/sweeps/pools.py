"""Where the runs of a sweep are executed: in this process, in several processes of this machine,
or on a dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import dataclass
from importlib.util import find_spec

from foltr.core.errors import Mistake, require
from foltr.simulation.sweeps.workers import Outcome, Task, work


class WorkersLost(Exception):
    """A cluster gave up a task because its workers died."""


CONNECT_SECONDS = 10.0
BROKEN = (BrokenExecutor, WorkersLost, CancelledError)


@dataclass(frozen=True)
class Pool:
    """`jobs` runs at a time; with the dask scheduler at `dask`, one run per thread of its
    workers."""

    jobs: int = 1
    dask: str | None = None
    apart: bool = False  # in a separate process, even for one job

    def __post_init__(self) -> None:
        require(self.jobs >= 1, f"jobs must be >= 1, got {self.jobs}")

    @property
    def pid(self) -> int | None:
        return None if self.dask else os.getpid()


def in_pool(tasks: Sequence[Task], pool: Pool) -> Iterator[Outcome]:
    """The outcomes, in order of completion."""
    if pool.dask is not None:
        yield from _on_cluster(tasks, pool.dask)
    elif pool.jobs == 1 and not pool.apart:
        yield from map(work, tasks)
    else:
        from joblib.externals.loky import get_reusable_executor

        try:
            yield from _by_joblib(tasks, min(pool.jobs, len(tasks)), "loky")
        finally:
            # the next sweep may have another environment
            get_reusable_executor().shutdown(wait=True)


def _by_joblib(tasks: Sequence[Task], jobs: int, backend: str) -> Iterator[Outcome]:
    from joblib import Parallel, delayed, parallel_config

    jobs = max(jobs, 2)  # with one job, joblib would stay in this process
    with parallel_config(backend=backend, n_jobs=jobs):
        yield from Parallel(
            return_as="generator_unordered", batch_size=1, pre_dispatch=f"2*{jobs}"
        )(delayed(work)(task) for task in tasks)


def _on_cluster(tasks: Sequence[Task], address: str) -> Iterator[Outcome]:
    from distributed import Client, KilledWorker

    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=True)
    except (OSError, ValueError, TypeError) as error:  # the latter where TLS has no certificate
        raise Mistake(f"no dask scheduler answers at {address!r}: {error}") from None
    with client:
        jobs = sum(client.nthreads().values())
        if not jobs:
            raise Mistake(
                f"the dask scheduler at {address!r} has no workers: start one with `dask worker"
                f" {address}`"
            )
        try:
            yield from _by_joblib(tasks, jobs, "dask")
        except KilledWorker as error:
            raise WorkersLost(str(error)) from None


def most_jobs() -> int:
    """One per core that this process may use; one, with a message, if joblib is not installed."""
    cores = os.cpu_count() or 1
    if sys.platform == "linux":  # a job of a cluster may use only some cores of its machine
        cores = len(os.sched_getaffinity(0))
    if cores > 1 and find_spec("joblib") is None:
        print(
            "foltr: runs one experiment at a time, because joblib is not installed (pip install"
            " joblib)",
            file=sys.stderr,
        )
        return 1
    return cores


def installed(pool: Pool) -> None:
    """Raise a Mistake if a package that the pool needs is missing."""
    packages = ("joblib", "distributed") if pool.dask else ("joblib",) if pool.jobs > 1 else ()
    for package in packages:
        if find_spec(package) is None:
            raise Mistake(
                f"{package} is not installed: pip install {package}, or run one experiment at a"
                " time (--jobs 1)"
            )
