"""The HTTP server of a gateway, on a socket of this machine."""

import asyncio
import importlib
import random
import socket
import ssl
import time
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import AGREED, Here, Running, ask_of, later, learned, rows

from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway import https_server
from foltr.deployment.gateway.client import GatewayClient, Requests
from foltr.deployment.gateway.connection_limits import ConnectionLimits
from foltr.deployment.gateway.enrolment import Enrolment, Standing
from foltr.deployment.gateway.presence import Polling
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.keys.keys import ServerFiles, make_server
from foltr.deployment.keys.rotation import follow_certificate
from waiting import until, wait_until


def test_commands_change_the_state_of_a_running_gateway(tmp_path, monkeypatch):
    """Also between the start of the process and that of the door; also after a failure."""
    monkeypatch.setattr(https_server, "LOOK", 0.01)

    async def scene():
        here = await Here(tmp_path).start()
        await here.devices(3)
        other = Enrolment(here.enrolment.path, AGREED.id)
        other.revoke(10)
        task = asyncio.ensure_future(https_server._reread(here.gateway, None))
        await until(lambda: here.gateway.devices[10].standing == Standing.REVOKED)
        other.revoke(11)
        await until(lambda: here.gateway.devices[11].standing == Standing.REVOKED)
        reread, failed = here.gateway.devices.reread, []

        async def broken():
            failed.append(1)
            raise Unusable("the disk is full")

        here.gateway.devices.reread = broken
        other.revoke(12)
        await until(lambda: failed)
        here.gateway.devices.reread = reread
        await until(lambda: here.gateway.devices[12].standing == Standing.REVOKED)
        assert "the disk is full" in here.told
        task.cancel()

    asyncio.run(scene())


def spoken(port, text):
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        with suppress(ConnectionResetError):  # it closed with something unread
            while piece := connection.recv(65536):
                found += piece
        return found


def test_strangers_cannot_fill_the_log(tmp_path, caplog):
    with Running(Here(tmp_path)) as gateway:
        for text in (
            b"garbage\r\n\r\n",
            b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
            b"GET /v1/about HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n",
            b"PUT /v1/answers/0/1 HTTP/1.1\r\ncontent-length: 500\r\n\r\nhalf",
            random.Random(0).randbytes(200),
        ):
            spoken(gateway.port, text)
    assert not caplog.records and not gateway.here.told


def test_a_door_that_stops_releases_its_requests_and_can_be_opened_again(tmp_path):
    with Running(Here(tmp_path)) as gateway:
        assert b'"ready": true' in spoken(gateway.port, ABOUT)
    with Running(Here(tmp_path), greeted=False) as gateway:
        assert b'"ready": true' in spoken(gateway.port, ABOUT), "the numbers are in the state"


ABOUT = b"GET /v1/about HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_flood_without_tls_handshakes_leaves_room_for_others(tmp_path, monkeypatch, loop):
    """With the event loops of Python and of the gateway."""
    monkeypatch.setattr(https_server, "HANDSHAKE", 60.0)  # no one is closed for being slow
    factory = importlib.import_module(loop).new_event_loop
    make_server(tmp_path / "tls", ["localhost"])
    files = ServerFiles(tmp_path / "tls")
    tls = follow_certificate(files.certificate, files.key, print)
    trust = ssl.create_default_context(cafile=str(files.ca))
    limits = ConnectionLimits(strangers=20)
    with Running(Here(tmp_path), limits, tls, loop=factory) as gateway, ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 20))
            for _ in range(100)
        ]
        wait_until(lambda: limits.closed["handshake"] >= 80)
        raw = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 20))
        with trust.wrap_socket(raw, server_hostname="localhost") as device:
            device.sendall(ABOUT)
            assert b" 200 " in device.recv(65536)
        assert limits.handshakes <= 20
        for each in crowd[:80]:
            assert each.recv(1) == b"", "the gateway has closed the oldest"
        for each in crowd:
            each.close()
        wait_until(lambda: limits.handshakes == 0 == limits.open and not limits._from)


def test_a_flood_of_silent_strangers_leaves_room_for_others(tmp_path):
    connections = ConnectionLimits(strangers=20)
    with Running(Here(tmp_path), connections) as gateway, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 20))
        wait_until(lambda: connections.closed["strangers"] >= 80)
        assert b" 200 " in spoken(gateway.port, ABOUT)
        assert connections.open <= 21


def test_a_device_that_computes_for_long_keeps_its_connection(tmp_path, monkeypatch):
    """Longer than idle connections are kept. Afterwards it is closed as usual."""
    monkeypatch.setattr(https_server, "KEEP_ALIVE", 1.0)
    here = Here(tmp_path, polling=Polling(hold=5.0, max_held=9, poll=60.0, grace=0.2, back=0.0))
    here.now = time.time()
    with Running(here) as gateway:
        device = GatewayClient(gateway.url, Requests(Ed25519PrivateKey.generate(), AGREED.id))
        device.enrol(gateway.invitation())
        used = []

        async def idle(seconds):
            later(seconds)
            await asyncio.sleep(0.0)  # what is due by now happens

        def slowly(part):
            used.append(device._connection)
            gateway.within(idle(2.5)).result(20)
            return learned(part)

        device.call(device.requests.ask(wait=0))
        step = gateway.asking(ask_of(clients=(10,)))
        device.once(slowly)
        assert rows(step.result(20)).keys() == {10}
        assert used == [device._connection], "it was not opened again"
        wait_until(lambda: here.app.connections.open == 0)
        device.close()
