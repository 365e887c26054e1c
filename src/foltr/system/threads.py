"""Work on several threads. Every piece writes only its own part of a result, so the bits do not
depend on the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from time import perf_counter

import numpy as np

PIECES = 4  # pieces per thread, to balance slow ones


class Threads:
    """`number` threads, including the caller's own."""

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

        helpers = [self._pool.submit(take_turns) for _ in range(self.number - 1)]
        take_turns()
        for helper in helpers:
            helper.result()
