"""Many devices in one process: simulated devices, tests and benchmarks.

A device has one keep-alive connection, like `client.GatewayClient`, but the connections share one
event loop instead of having a thread each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foltr.deployment.gateway.client import (
    LATER,
    WAIT,
    Excluded,
    Request,
    Requests,
    Response,
    Unavailable,
    content_of,
    refusal_of,
    refuses_notice,
    retry_after,
    untrusted,
)
from foltr.deployment.protocol.frames import Malformed

LINE = 65_536  # bytes of a header line


@dataclass
class AsyncConnection:
    """A keep-alive connection to a gateway."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    timeout: float = 60.0
    sent: int = 0  # bytes, without TLS
    got: int = 0
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def call(self, request: Request) -> Response:
        """Send a request. Raises Unavailable if there is no response."""
        while True:
            fresh = self._writer is None  # else the gateway may have closed the connection
            try:  # wait_for may lose a cancellation (Python 3.11)
                async with asyncio.timeout(self.timeout):
                    return await self._exchanged(request)
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise untrusted(self.url, error) from None
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                self.close()
                if fresh:
                    raise Unavailable(f"no connection to {self.url} ({error!r})") from None

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.host}:{self.port}"

    async def _exchanged(self, request: Request) -> Response:
        if self._writer is None:
            name = self.host if self.tls is not None else None
            self._reader, self._writer = await asyncio.open_connection(
                self.host, self.port, ssl=self.tls, server_hostname=name, limit=LINE
            )
        assert self._reader is not None
        lines = [f"{request.method} {request.path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        lines.append(f"content-length: {len(request.body)}\r\n\r\n")
        text = "\r\n".join(lines).encode() + request.body
        self._writer.write(text)
        self.sent += len(text)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *rest = head[:-4].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in rest)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        self.got += len(head) + len(body)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Response(int(first.split(" ", 2)[1]), headers, body)

    @property
    def connected(self) -> bool:
        return self._writer is not None

    def close(self, abruptly: bool = False) -> None:
        """Close the connection. `abruptly`: without notice, like a device that has died."""
        if self._writer is not None:
            self._writer.transport.abort() if abruptly else self._writer.close()
        self._reader = self._writer = None


@dataclass
class AsyncGatewayClient:
    """One device among many: it enrols, and answers asks until it is cancelled.

    tell: called with the text of a failure"""

    wire: AsyncConnection
    requests: Requests
    wait: int = WAIT
    tell: Callable[[str], None] = lambda text: None
    answered: int = 0
    _etag: str = field(default="", repr=False)

    async def enrol(self, invitation: str | None) -> int:
        content = await self._good(self.requests.enrol(invitation))
        self.requests.client, self.requests.token = content["client"], content.get("token", "")
        return self.requests.client

    async def forget(self) -> None:
        await self._good(self.requests.forget())

    async def serve(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer asks. Raises Excluded if the gateway excludes this device."""
        while True:
            try:
                await asyncio.sleep(await self.once(answer))
            except Unavailable as away:
                self.tell(str(away))
                await asyncio.sleep(max(0.5, away.seconds))

    async def once(self, answer: Callable[[bytes], bytes]) -> float:
        """One request for an ask, and its answer. Returns how many seconds to wait then."""
        response = await self._with_token(lambda: self.requests.ask(self._etag, self.wait))
        if response.status == 204:
            return retry_after(response)
        self._check(response, 200)
        try:
            made = answer(response.body)
        except Malformed as error:  # for example, of a later version
            raise Unavailable(f"the gateway's ask is not understood: {error}", LATER) from None
        sent = await self._with_token(lambda: self.requests.answer(made))
        if sent.status in (409, 410, 422):
            self.tell(f"{sent.status}: {content_of(sent).get('error')}")
        else:
            self._check(sent, 204)
            self.answered += 1
        if refuses_notice(made, response.body):
            return LATER
        self._etag = response.headers.get("etag", "")
        return 0.0

    async def _with_token(self, request: Callable[[], Request]) -> Response:
        response = await self.wire.call(request()) if self.requests.token else None
        if response is None or response.status == 401:
            self.requests.token = (await self._good(self.requests.session()))["token"]
            response = await self.wire.call(request())
        return response

    async def _good(self, request: Request) -> dict[str, Any]:
        return self._check(await self.wire.call(request), 200, 201, 202)

    def _check(self, response: Response, *expected: int) -> dict[str, Any]:
        if response.status not in expected:
            raise Excluded(refusal_of(response))
        return content_of(response)
