"""Limits on the connections of a gateway, against slow, silent and unknown clients; and on how
often someone may make requests (`Rates`).

- At most `strangers` connections are in their TLS handshake at a time: the oldest one makes room
  for the next.
- A connection that has not shown a device's token within `stranger_seconds` is closed.
- At most `strangers` such connections exist at a time: the oldest one makes room for the next. An
  honest device shows its token at once, so it is rarely the oldest.
- A request must arrive within `request_seconds`, and its headers have at most `HEADERS` bytes. A
  response must be read within `response_seconds`.
- A device has at most `per_device` connections: the oldest one makes room for the next."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from foltr.core.system.process import release_memory

HEADERS = 16 * 1024  # bytes
CHECK = 1.0  # seconds between two searches for slow connections
ENDED = 1_000  # connections that have ended, until their memory is freed
SCOPE = "foltr.connection"  # key of the connection in an ASGI scope


@dataclass
class ConnectionLimits:
    """The connections of a gateway, and their limits.

    most: connections at a time
    strangers: connections at a time that have not shown a token; and of those before, in their
        TLS handshake
    per_address: connections at a time from one address; None for no limit
    per_device: connections at a time that have shown the token of one device
    left: called with the client of a device's connection that has ended"""

    most: int = 16_000
    strangers: int = 1_000
    stranger_seconds: float = 10.0
    request_seconds: float = 20.0
    response_seconds: float = 120.0
    per_address: int | None = None
    per_device: int = 4
    left: Callable[[int], None] = lambda client: None
    closed: Counter[str] = field(default_factory=Counter)  # why connections were closed
    _strangers: dict[Connection, float] = field(default_factory=dict)  # since when, oldest first
    _busy: dict[Connection, float] = field(default_factory=dict)  # request under way -> since when
    _unread: dict[Connection, float] = field(default_factory=dict)  # response -> since when
    _of: dict[int, list[Connection]] = field(default_factory=dict)  # device -> oldest first
    _all: set[Connection] = field(default_factory=set)
    _handshakes: dict[socket.socket, str] = field(default_factory=dict)  # -> address, oldest first
    _from: Counter[str] = field(default_factory=Counter)
    _ended: int = 0  # connections, since memory was last freed

    @property
    def open(self) -> int:
        return len(self._all)

    @property
    def handshakes(self) -> int:
        """The number of connections whose TLS handshake has not finished."""
        return len(self._handshakes)

    def begin_handshake(self, arrived: socket.socket, address: str) -> bool:
        """Note a connection that was accepted. Returns whether it may go on."""
        if self.per_address is not None and self._from[address] >= self.per_address:
            self.closed["address"] += 1
            return False
        self._from[address] += 1
        self._handshakes[arrived] = address
        if len(self._handshakes) > self.strangers:
            self.cut_oldest_handshake()
        return True

    def end_handshake(self, arrived: socket.socket | None) -> None:
        """Note that a handshake has succeeded or failed. Safe to repeat."""
        address = self._handshakes.pop(arrived, None) if arrived is not None else None
        if address is not None:
            self._uncount(address)

    def cut_oldest_handshake(self) -> None:
        """End the connection that has been in its TLS handshake for longest, if there is one."""
        oldest = next(iter(self._handshakes), None)
        if oldest is not None:
            self.closed["handshake"] += 1
            self.end_handshake(oldest)
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # the event loop finds its end, and closes it

    def _uncount(self, address: str) -> None:
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def add(self, connection: Connection) -> None:
        address = connection.address
        if len(self._all) >= self.most:
            return self.close(connection, "full")
        if self.per_address is not None and self._from[address] >= self.per_address:
            return self.close(connection, "address")
        self._all.add(connection)
        self._from[address] += 1
        self._strangers[connection] = time.monotonic()
        if len(self._strangers) > self.strangers:
            self.close(next(iter(self._strangers)), "strangers")

    def remove(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._busy.pop(connection, None)
        self._unread.pop(connection, None)
        self._ended += 1
        if connection in self._all:
            self._all.discard(connection)
            self._uncount(connection.address)
        if (client := connection.device) is not None:
            connection.device = None
            others = self._of.get(client, [])
            if connection in others:  # else it was closed to make room
                others.remove(connection)
                if not others:
                    del self._of[client]
            self.left(client)

    def identify(self, connection: Connection, client: int) -> bool:
        """Note that a request on this connection has shown a device's token. Returns whether it is
        the first such request."""
        self._strangers.pop(connection, None)
        if connection.device is not None or connection not in self._all:  # or it has ended
            return False
        connection.device = client
        others = self._of.setdefault(client, [])
        others.append(connection)
        if len(others) > self.per_device:
            self.close(others.pop(0), "device")
        return True

    def begin(self, connection: Connection) -> None:
        self._busy[connection] = time.monotonic()

    def end(self, connection: Connection) -> None:
        self._busy.pop(connection, None)

    def pause(self, connection: Connection) -> None:
        """Note that the client is not reading its response."""
        self._unread[connection] = time.monotonic()

    def resume(self, connection: Connection) -> None:
        self._unread.pop(connection, None)

    def close(self, connection: Connection, why: str) -> None:
        self.closed[why] += 1
        for table in (self._strangers, self._busy, self._unread):
            table.pop(connection, None)  # it ends a little later, and is not closed twice
        connection.transport.abort()

    def close_slow(self) -> None:
        """Close connections that are silent or slow. Free the memory of those that have ended:
        each is a cycle of objects, which the gateway's garbage collector would find late."""
        now = time.monotonic()
        for table, limit, why in (
            (self._strangers, self.stranger_seconds, "silent"),
            (self._busy, self.request_seconds, "slow"),
            (self._unread, self.response_seconds, "unread"),
        ):
            late = []
            for connection, since in table.items():  # in the order of time
                if now - since <= limit:
                    break
                late.append(connection)
            for connection in late:
                self.close(connection, why)
        if self._ended > max(ENDED, len(self._all) // 2):
            self._ended = 0
            release_memory()

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK)
            self.close_slow()

    def protocol(self) -> Callable[..., Connection]:
        """The class of connections for `uvicorn.Config(http=...)`."""
        limits = self

        class Own(Connection):
            def __init__(self, *args: Any, **named: Any) -> None:
                super().__init__(*args, **named)
                self.limits = limits

        return Own


class Connection(HttpToolsProtocol):
    """A connection that is watched by a `ConnectionLimits`."""

    limits: ConnectionLimits
    arrived: socket.socket | None = None  # as it was accepted

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.device: int | None = None  # the client whose token it showed
        self._head = 0  # bytes since the last request; -1 after its headers

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def address(self) -> str:
        return "" if self.client is None else str(self.client[0])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.limits.end_handshake(self.arrived)
        self.limits.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.remove(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # after an error, too: a timer would keep this alive

    def stay_open(self, seconds: float) -> None:
        """Close this connection only after so many idle seconds, if that is longer than usual,
        until its next request."""
        self.timeout_keep_alive = max(self.config.timeout_keep_alive, math.ceil(seconds))

    def data_received(self, data: bytes) -> None:
        if self._head >= 0:
            self._head += len(data)
            over = self._head > HEADERS
        super().data_received(data)
        if self._head > HEADERS and over:  # and the headers have not ended
            self.limits.close(self, "headers")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[SCOPE] = self  # type: ignore[literal-required]
        self.timeout_keep_alive = self.config.timeout_keep_alive
        self.limits.begin(self)

    def on_headers_complete(self) -> None:
        self._head = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        self.limits.end(self)
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.limits.pause(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.limits.resume(self)


# Limits on how often someone may make requests (token bucket).

MOST = 100_000  # names that are remembered


@dataclass
class Rates:
    """Each name may make `burst` requests at once, and `rate` per second in the long run."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: dict[Hashable, tuple[float, float]] = field(default_factory=dict)  # requests, since

    def allow(self, name: Hashable) -> bool:
        """Whether one more request of this name is within its limit. If so, it is counted."""
        now = self.clock()
        left, since = self._left.pop(name, (self.burst, now))
        left = min(self.burst, left + self.rate * (now - since))
        allowed = left >= 1.0
        self._left[name] = (left - allowed, now)  # the last one in the table
        if len(self._left) > MOST:
            del self._left[next(iter(self._left))]  # the one that was silent longest
        return allowed
