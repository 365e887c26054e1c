"""The HTTPS server of a gateway: uvicorn, with limits on connections."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from foltr.core.errors import Mistake
from foltr.core.system.log import Event, Reloaded
from foltr.deployment.gateway.app import App
from foltr.deployment.gateway.connection_limits import ConnectionLimits
from foltr.deployment.gateway.gateway import Gateway

HANDSHAKE = 8.0  # seconds for a TLS handshake
KEEP_ALIVE = 120.0  # seconds for which a device's connection may be idle
LOOK = 1.0  # seconds between two looks at the state file, which commands may change
FINISH = 5.0  # seconds for which a step may go on when the gateway stops
STOP = 0.1  # seconds between two looks whether to stop
PAUSE = 0.01  # seconds after a connection for which there were too few files
BACKLOG = 4_096


class _Server(uvicorn.Server):
    """A uvicorn server that limits the number and the time of TLS handshakes, and leaves signals
    alone."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self.limits, self.servers = limits, []
        self.accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        for listener in sockets or ():
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self.accepting.append(asyncio.ensure_future(self._accept(listener)))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in (*self.accepting, *self._handshakes):
            task.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                arrived, address = await loop.sock_accept(listener)
            except OSError as error:
                if listener.fileno() < 0:
                    raise
                few = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
                for _ in range(1 + self.limits.handshakes // 2 if few else 0):
                    self.limits.cut_oldest_handshake()
                await asyncio.sleep(PAUSE if few else 0.0)  # else the client is gone again
                continue
            if self.limits.begin_handshake(arrived, str(address[0])):
                task = asyncio.ensure_future(self._shake_hands(arrived))
                self._handshakes.add(task)
                task.add_done_callback(self._handshakes.discard)
            else:
                arrived.close()

    async def _shake_hands(self, arrived: socket.socket) -> None:
        """The TLS handshake, after which the connection is served by its protocol."""
        config = self.config

        def connection() -> Any:
            made: Any = config.http_protocol_class
            state = {"server_state": self.server_state, "app_state": self.lifespan.state}
            found = made(config=config, **state)
            found.arrived = arrived
            return found

        limit = None if config.ssl is None else HANDSHAKE
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                connection, arrived, ssl=config.ssl, ssl_handshake_timeout=limit
            )
        except OSError:
            pass  # no TLS, too slow, or the client is gone
        finally:
            self.limits.end_handshake(arrived)


async def serve_https(
    app: App,
    listener: socket.socket,
    tls: Reloaded[ssl.SSLContext] | None,
    stopping: Callable[[], bool],
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve devices until `stopping()`. `ready` is called when connections are accepted. `tls` is
    the TLS context, which has a new certificate when its files change."""
    gateway, connections = app.gateway, app.connections
    config = uvicorn.Config(
        app,
        http=connections.protocol(),  # type: ignore[arg-type]
        lifespan="off",
        log_config=None,
        log_level="error",  # strangers could fill the disk with lines about bad requests
        access_log=False,
        timeout_keep_alive=int(KEEP_ALIVE),
        timeout_graceful_shutdown=2,
        server_header=False,
        proxy_headers=False,  # devices connect directly
        ws="none",
    )
    config.load()
    config.ssl = None if tls is None else tls.value
    server = _Server(config, connections)
    gateway.start()
    tasks = [asyncio.ensure_future(each) for each in (connections.watch(), _reread(gateway, tls))]
    run = asyncio.ensure_future(server.serve([listener]))
    try:
        while not server.started and not run.done():
            await asyncio.sleep(0.01)
        ready()
        tasks += server.accepting
        while not stopping() and not any(task.done() for task in (run, *tasks)):
            await asyncio.sleep(STOP)
        for task in tasks:
            if task.done():
                task.result()  # raises: it ends only by an error
    finally:
        await gateway.finish(FINISH)
        server.should_exit = True
        await run
        for task in tasks:
            task.cancel()


async def _reread(gateway: Gateway, tls: Reloaded[ssl.SSLContext] | None) -> None:
    """Read again what commands such as `foltr gateway --revoke` have changed, and new
    certificates."""
    seen = None  # they may have changed since the gateway was made
    while True:
        await asyncio.sleep(LOOK)
        if tls is not None and tls.refresh():
            told = "the certificate was replaced: new connections get it"
            gateway.tell(Event(told, "certificate"))
        try:
            now = await gateway.devices.on_disk(lambda: gateway.enrolment.changes)
            if now != seen:
                await gateway.devices.reread()
                seen = now
        except Mistake as error:
            gateway.tell(str(error))
