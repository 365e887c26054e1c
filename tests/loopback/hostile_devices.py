"""What strangers and hostile devices try at a gateway's door."""

import asyncio
import os
import time
from dataclasses import replace

import numpy as np

from foltr.deployment.gateway.async_client import AsyncConnection
from foltr.deployment.gateway.client import Request, Requests
from foltr.deployment.gateway.signing import ANSWERS, Ed25519PrivateKey, answer_text
from foltr.deployment.protocol.frames import Frame, Kind, refusal, write_parts, write_updates

# --- lies: what a device answers to its ask ---


def updated(update, weight=3.0, words=np.float32, **changes):
    """A message with these numbers instead of the learner's; None: as many as the model has."""

    def lie(ask):
        numbers = [1.0] * 46 if update is None else update
        payload = write_updates(np.array([numbers], words), np.array([weight]))
        return replace(ask.answer(Kind.LEARNED, ask.clients, payload), **changes).to_bytes()

    return lie


def summed(message, **changes):
    def lie(ask):
        answer = ask.answer(Kind.SUMMED, ask.clients, write_parts([message]))
        return replace(answer, **changes).to_bytes()

    return lie


def refused(payload=None, **changes):
    def lie(ask):
        given = refusal("budget", "no") if payload is None else payload
        return replace(ask.answer(Kind.REFUSED, (), given), **changes).to_bytes()

    return lie


def of_another_version(ask):
    text = bytearray(updated(None)(ask))
    text[2] = 9
    return bytes(text)


LIES = {
    "garbage": lambda ask: os.urandom(400),
    "nothing": lambda ask: b"",
    "the ask itself": lambda ask: ask.to_bytes(),
    "short": updated([1.0]),
    "long": updated([1.0] * 9999),
    "not a number": updated([float("nan")] * 46),
    "infinite": updated([float("inf")] * 46),
    "other words": updated([1] * 46, words=np.uint32),
    "weight": updated(None, 1e9),
    "no weight": updated(None, float("nan")),
    "for another": updated(None, clients=(0,)),
    "for two": updated(None, clients=(0, 12)),
    "for nobody": updated(None, clients=()),
    "another federation": updated(None, federation=bytes(16)),
    "another model": updated(None, model=bytes(32)),
    "an earlier model": updated(None, model_round=0, model=bytes(32)),
    "another nonce": updated(None, nonce=bytes(16)),
    "another n": updated(None, n=2),
    "another kind": updated(None, kind=Kind.SUMMED),
    "a welcome": updated(None, kind=Kind.WELCOME),
    "another version": of_another_version,
    "a refusal of itself": refused(clients=(12,)),
    "no refusal": refused(b"[" * 5000),
}
SUM_LIES = {
    "garbage": lambda ask: os.urandom(400),
    "four megabytes": summed(bytes(3_900_000)),
    "two messages": lambda ask: ask.answer(
        Kind.SUMMED, ask.clients, write_parts([b"a", b"b"])
    ).to_bytes(),
    "an update": updated([1.0] * 46),
    "for another": summed(b"message", clients=(0,)),
    "a refusal of itself": refused(clients=(12,)),
}


def put(ask, text, key, token):
    """The request of an answer, whatever the frame says."""
    path = f"{ANSWERS}{ask.round}/{ask.nonce.hex()}"
    return Request("PUT", path, {"authorization": f"Foltr {token}"}, signed(key, text) + text)


def signed(key, text):
    return key.sign(answer_text(text))


# --- connections ---


async def opened(port, tls=None):
    name = None if tls is None else "localhost"
    return await asyncio.wait_for(
        asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name), 30
    )


async def silent(port, many, tls=None, first=b"", at_once=50):
    """Connections that say nothing more than `first`. Returns them."""
    gate, found = asyncio.Semaphore(at_once), []

    async def one():
        async with gate:
            try:
                reader, writer = await opened(port, tls)
                writer.write(first)
                found.append((reader, writer))
            except (OSError, TimeoutError):
                pass

    await asyncio.gather(*[one() for _ in range(many)])
    return found


async def ended(connections, seconds):
    """How many of them the gateway has closed within some seconds."""

    async def one(reader):
        try:
            while await reader.read(65536):
                pass
        except OSError:
            pass

    tasks = [asyncio.ensure_future(one(reader)) for reader, _ in connections]
    done, left = await asyncio.wait(tasks, timeout=seconds) if tasks else (set(), set())
    for task in left:
        task.cancel()
    return len(done)


async def hung_up(connections):
    for _, writer in connections:
        writer.transport.abort()


async def dripping(port, tls, text, head=b"", pause=1.0):
    """Send a request byte by byte, after its head. Returns how many seconds the gateway
    listens."""
    reader, writer = await opened(port, tls)
    writer.write(head)
    began = time.monotonic()
    end = asyncio.ensure_future(reader.read())
    try:
        for byte in text:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.wait([end], timeout=pause)
            if end.done():
                break
    except OSError:
        pass
    end.cancel()
    writer.transport.abort()
    return time.monotonic() - began


async def flood(port, tls, head, many, piece=bytes(65536)):
    """Send a head and up to `many` bytes. Returns the response, and the bytes that were sent."""
    reader, writer = await opened(port, tls)
    writer.write(head)
    sent, answer = 0, asyncio.ensure_future(reader.read(4096))
    try:
        while sent < many and not answer.done():
            writer.write(piece)
            sent += len(piece)
            await asyncio.wait_for(writer.drain(), 30)
            await asyncio.sleep(0)
        return await asyncio.wait_for(answer, 30), sent
    except (OSError, TimeoutError):
        return b"", sent
    finally:
        answer.cancel()
        writer.transport.abort()


async def said(port, tls, text, seconds=5.0):
    """What the gateway responds to these bytes."""
    reader, writer = await opened(port, tls)
    try:
        writer.write(text)
        return await asyncio.wait_for(reader.read(65536), seconds)
    except (OSError, TimeoutError) as error:
        return type(error).__name__.encode()
    finally:
        writer.transport.abort()


async def everything(port, tls, text, seconds=30.0):
    """All that the gateway responds until it closes the connection."""
    reader, writer = await opened(port, tls)
    found = b""
    try:
        writer.write(text)
        async with asyncio.timeout(seconds):
            while piece := await reader.read(65536):
                found += piece
    except (OSError, TimeoutError):
        pass
    writer.transport.abort()
    return found


async def unread(port, tls, text, many):
    """Send a request many times and read nothing. Returns the connection."""
    reader, writer = await opened(port, tls)
    writer.transport.pause_reading()
    writer.write(text * many)
    return reader, writer


async def raced(port, tls, federation, invitation, many):
    """Many devices that enrol with one invitation at the same moment: keys and responses."""
    found = []

    async def one(requests, wire):
        response = await wire.call(requests.enrol(invitation))
        found.append((requests, response))
        wire.close()

    crowd = [
        (
            Requests(Ed25519PrivateKey.generate(), federation),
            AsyncConnection("localhost", port, tls),
        )
        for _ in range(many)
    ]
    await asyncio.gather(*[wire.call(requests.about()) for requests, wire in crowd])
    await asyncio.gather(*[one(requests, wire) for requests, wire in crowd])
    return found


ODD = {
    "http 1.0": (b"GET /v1/about HTTP/1.0\r\n\r\n", b"200"),
    "head": (b"HEAD /v1/about HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
    "options": (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
    "connect": (b"CONNECT a:1 HTTP/1.1\r\nhost: x\r\n\r\n", b"400"),
    "smuggled": (
        b"POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/about HTTP/1.1\r\n\r\n",
        b"400",
    ),
    "chunks": (b"POST /v1/enrol HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
    "two lengths": (
        b"POST /v1/enrol HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
        b"400",
    ),
    "negative length": (b"POST /v1/enrol HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"400"),
    "endless length": (b"POST /v1/enrol HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413"),
    "bad escapes": (b"GET /v1/%ff%zz%00 HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
    "dots": (b"GET /v1/../v1/ask HTTP/1.1\r\nhost: x\r\n\r\n", b"404"),
    "http 2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
    "a null": (b"GET /v1/about HTTP/1.1\r\nhost: \0\r\n\r\n", b"400"),
    "bare lines": (b"GET /v1/about HTTP/1.1\nhost: x\n\n", b"400"),
    "huge headers": (b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n", b""),
    "many headers": (b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 50_000 + b"\r\n", b""),
    "garbage": (bytes(range(256)), b"400"),
}


def frame_of(response):
    return Frame.from_bytes(response.body)
