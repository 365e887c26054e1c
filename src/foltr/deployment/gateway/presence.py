"""Which devices of a gateway can be reached, and their requests that wait for an ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

LONGEST = 3600.0  # seconds for which a device that never answers is not asked
DOUBLED = 20  # how often that time is doubled, at most


@dataclass(frozen=True)
class Polling:
    """How long the gateway waits, and for how many.

    hold: seconds for which it holds a request for an ask
    max_held: most requests that it holds at a time; other devices are told to come back
    poll: seconds after which such a device asks again
    grace: seconds for which a device that has disconnected, or is late to ask again, still counts
        as reachable
    back: seconds after the gateway's start for which a step waits for devices that have not
        connected again"""

    hold: float = 25.0
    max_held: int = 4_096
    poll: float = 30.0
    grace: float = 3.0
    back: float = 20.0


@dataclass
class Presence:
    """A device can be reached while it has a connection, and until it is due to ask again."""

    polling: Polling
    _open: Counter[int] = field(default_factory=Counter)  # connections of each device
    _until: dict[int, float] = field(default_factory=dict)  # until when it is expected to ask
    # devices that did not answer a step -> from when on a request makes them reachable
    _silent: dict[int, float] = field(default_factory=dict)
    _missed: Counter[int] = field(default_factory=Counter)  # steps in a row without an answer
    _waiting: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None
    _began: float = 0.0

    def start(self) -> None:
        """Bind this to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._began = self._now

    @property
    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def connected(self, client: int) -> None:
        self._open[client] += 1

    def disconnected(self, client: int) -> None:
        """A connection of a device has ended. It may still be due to ask again."""
        self._open[client] -= 1
        if self._open[client] <= 0:
            del self._open[client]
            self.wake([client])  # nobody hears the response
        now = self._now + self.polling.grace
        self._until[client] = max(now, self._until.get(client, 0.0))

    def heard(self, client: int) -> None:
        """A device has made a request."""
        if client in self._silent and self._now >= self._silent[client]:
            del self._silent[client]

    def expect(self, client: int, seconds: float) -> None:
        """A device is expected to ask again within these seconds."""
        self._until[client] = self._now + seconds + self.polling.grace

    def missed(self, clients: Iterable[int]) -> None:
        """These devices did not answer a step. They count as away until they make a request. If
        they miss several steps in a row, they also count as away for a while, each time twice as
        long: they cannot delay every round."""
        for client in clients:
            times = self._missed[client]
            self._missed[client] += 1
            longer = 2.0 ** min(times - 1, DOUBLED)
            pause = min(self.polling.poll * longer, LONGEST) if times else 0.0
            self._silent[client] = self._now + pause

    def answered(self, clients: Iterable[int]) -> None:
        """These devices have answered a step."""
        for client in clients:
            self._missed.pop(client, None)

    def reachable(self, client: int) -> bool:
        if client in self._silent:
            return False
        if client in self._open or client in self._waiting:
            return True
        return self._until.get(client, 0.0) > self._now

    def awaited(self, client: int, continued: bool = False) -> bool:
        """Whether a step waits for this device: it can be reached, or the gateway has just
        started and has not heard of it yet. If the step was begun before (`continued`), such a
        device may be computing its answer, for as long as the step lasts."""
        recent = continued or self._now < self._began + self.polling.back
        new = client not in self._until and client not in self._open and recent
        return self.reachable(client) or (new and client not in self._silent)

    @property
    def held(self) -> int:
        """The number of requests that wait for an ask."""
        return len(self._waiting)

    @property
    def open(self) -> int:
        """The number of devices that are connected."""
        return len(self._open)

    async def wait(self, client: int, seconds: float) -> None:
        """Wait until there is an ask for this device, at most this many seconds. A device waits
        once: an earlier request of it is released."""
        loop = asyncio.get_running_loop()
        self.wake([client])
        self._until.pop(client, None)
        rung = self._waiting[client] = loop.create_future()
        timer = loop.call_later(seconds, _ring, rung)
        try:
            await rung
        finally:
            timer.cancel()
            if self._waiting.get(client) is rung:
                del self._waiting[client]

    def wake(self, clients: Iterable[int]) -> None:
        """Release the requests of these devices."""
        for client in clients:
            rung = self._waiting.pop(client, None)
            if rung is not None:
                _ring(rung)

    def wake_all(self) -> None:
        self.wake(list(self._waiting))


def _ring(rung: asyncio.Future[None]) -> None:
    if not rung.done():
        rung.set_result(None)
