"""Writes of several requests to disk, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class BatchWriter(Generic[T]):
    """Collects items while the disk is busy, and then writes them in one transaction. A flush of
    the disk takes milliseconds, whether it is for one item or for a thousand.

    write: writes a batch; runs in a thread
    written: called in the event loop with every batch that is on disk"""

    write: Callable[[Sequence[T]], None]
    written: Callable[[Sequence[T]], None]
    most: int = 10_000  # items that may wait
    _queue: list[tuple[T, asyncio.Future[None]]] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        return len(self._queue) >= self.most

    async def put(self, item: T) -> None:
        """Returns when the item is on disk. Raises what `write` raises."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append((item, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._drain())
        await done

    async def drained(self) -> None:
        """Wait until nothing is left to write."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                items = [item for item, _ in batch]
                try:
                    await asyncio.to_thread(self.write, items)
                    self.written(items)
                except Exception as error:  # noqa: BLE001  # whoever waits gets it
                    for _, done in batch:
                        if not done.done():
                            done.set_exception(error)
                else:
                    for _, done in batch:
                        if not done.done():
                            done.set_result(None)
        finally:
            self._task = None
