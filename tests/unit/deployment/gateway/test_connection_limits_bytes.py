"""Limits on connections, with uvicorn's parser on bytes."""

import asyncio

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

import uvicorn
from small_gateway import Here
from uvicorn.server import ServerState

from foltr.deployment.gateway.connection_limits import HEADERS, SCOPE, ConnectionLimits
from waiting import until


class Transport:
    """What uvicorn writes to a connection."""

    def __init__(self):
        self.written, self.protocol, self.closing, self.reading = b"", None, False, True

    def get_extra_info(self, name):
        return ("192.0.2.9", 5) if name == "peername" else None

    def write(self, text):
        self.written += text

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def close(self):
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


class Spoken:
    """A connection of bytes; `scopes` are the requests that arrived."""

    def __init__(self, connections=None, app=None):
        self.connections, self.scopes = connections or ConnectionLimits(), []
        config = uvicorn.Config(
            app or self.app,
            http=self.connections.protocol(),
            interface="asgi3",
            lifespan="off",
            log_config=None,
            ws="none",
        )
        config.load()
        self.connection = config.http_protocol_class(
            config=config, server_state=ServerState(), app_state={}
        )
        self.transport = Transport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    async def app(self, scope, receive, send):
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def say(self, *pieces):
        for piece in pieces:
            if self.transport.closing:
                break
            self.connection.data_received(piece)
            for _ in range(10):
                await asyncio.sleep(0)
        return self.transport.written


HELLO = b"GET /v1/about HTTP/1.1\r\nhost: x\r\n\r\n"


def test_a_request_on_a_connection():
    async def scene():
        here = Spoken()
        assert (await here.say(HELLO)).startswith(b"HTTP/1.1 200")
        assert here.scopes[0][SCOPE] is here.connection and not here.connections._busy
        assert here.connections.open == 1
        here.transport.close()
        await until(lambda: here.connections.open == 0)

    asyncio.run(scene())


@pytest.mark.parametrize("pieces", [[b"x: " + b"y" * 99 + b"\r\n"] * 9999, [b"y" * 999] * 999])
def test_headers_that_do_not_end_are_cut(pieces):
    async def scene():
        here = Spoken()
        await here.say(b"GET / HTTP/1.1\r\n", *pieces)
        assert here.transport.closing and not here.scopes

    asyncio.run(scene())


def test_headers_of_16_kilobytes_are_read():
    async def scene():
        here = Spoken()
        long = b"GET / HTTP/1.1\r\nx: " + b"y" * (HEADERS - 100) + b"\r\n\r\n"
        assert (await here.say(long)).startswith(b"HTTP/1.1 200")
        assert not here.transport.closing
        assert (await here.say(long)).count(b"HTTP/1.1 200") == 2, "each request has its own"

    asyncio.run(scene())


def test_a_request_of_one_byte_at_a_time_is_under_way_until_it_ends(clock):
    async def scene():
        here = Spoken()
        connections = here.connections
        for byte in HELLO[:-1]:
            await here.say(bytes([byte]))
            clock.now += 1.0
            connections.close_slow()
            await asyncio.sleep(0)
        assert here.transport.closing and connections.closed == {"silent": 1}
        assert not here.scopes

    asyncio.run(scene())


def test_a_body_of_one_byte_at_a_time_is_cut(clock):
    async def scene():
        here = Spoken(ConnectionLimits(stranger_seconds=1e9))
        await here.say(b"PUT /v1/answers/0/1 HTTP/1.1\r\ncontent-length: 500\r\n\r\n")
        said = 0
        while not here.transport.closing:
            await here.say(b"x")
            said += 1
            clock.now += 1.0
            here.connections.close_slow()
        assert said == 21 and here.connections.closed["slow"] == 1

    asyncio.run(scene())


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(99),  # TLS at a plain port
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%zz\xff HTTP/1.1\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"CONNECT a:443 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\n x: folded\r\n\r\n",
        b"\x00" * 99,
    ],
)
def test_what_is_no_request_is_refused_and_closed(text):
    """Two lengths, a length and chunks: nothing that two parsers could read in two ways."""

    async def scene():
        here = Spoken()
        written = await here.say(text)
        assert written.startswith(b"HTTP/1.1 400") and here.transport.closing
        assert not [scope for scope in here.scopes if scope["path"] != "/"]

    asyncio.run(scene())


def test_a_body_in_chunks_is_refused_before_its_trailers(tmp_path):
    """Headers after the last chunk would have no limit."""

    async def scene():
        app = (await Here(tmp_path).start()).app
        here = Spoken(app=app)
        text = b"POST /v1/enrol HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
        written = await here.say(text, *[b"x: " + b"y" * 999 + b"\r\n"] * 99)
        assert written.startswith(b"HTTP/1.1 411") and here.transport.closing
        assert len(here.connection.headers) < 9

    asyncio.run(scene())


def test_a_response_that_is_not_read_is_noticed(clock):
    async def scene():
        here = Spoken()
        await here.say(HELLO)
        here.connections.identify(here.connection, 7)
        here.connection.pause_writing()
        await here.say(HELLO + HELLO)  # they wait until the first response is read
        assert here.transport.written.count(b"HTTP/1.1 200") == 1
        clock.now += 121.0
        here.connections.close_slow()
        assert here.transport.closing and here.connections.closed["unread"] == 1

    asyncio.run(scene())


def test_a_response_that_is_read_at_last_is_followed_by_others(clock):
    async def scene():
        here = Spoken()
        here.connections.identify(here.connection, 7)
        here.connection.pause_writing()
        await here.say(HELLO)
        clock.now += 100.0
        here.connection.resume_writing()
        for _ in range(20):
            await asyncio.sleep(0)
        clock.now += 100.0
        here.connections.close_slow()
        assert not here.transport.closing
        assert here.transport.written.count(b"HTTP/1.1 200") == 1

    asyncio.run(scene())


def test_pipelined_requests_are_answered_in_order():
    async def scene():
        here = Spoken()
        text = b"".join(
            b"PUT /%d HTTP/1.1\r\ncontent-length: 1\r\n\r\n%d" % (i, i) for i in range(9)
        )
        written = await here.say(text + HELLO, *[b""] * 9)
        for _ in range(200):
            await asyncio.sleep(0)
        written = here.transport.written
        assert written.count(b"HTTP/1.1 200") == 10
        assert [scope["path"] for scope in here.scopes] == [
            *map("/{}".format, range(9)),
            "/v1/about",
        ]

    asyncio.run(scene())


def test_http_1_0_is_one_request():
    async def scene():
        here = Spoken()
        written = await here.say(b"GET / HTTP/1.0\r\n\r\n")
        assert written.startswith(b"HTTP/1.1 200") and here.transport.closing

    asyncio.run(scene())
