"""Many devices in one process, against a real gateway on a socket of this machine."""

import asyncio
import time
from dataclasses import replace

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import AGREED, PLACES, POLLING, Here, Running, ask_of, learned, rows

from foltr.deployment.gateway.async_client import AsyncConnection, AsyncGatewayClient
from foltr.deployment.gateway.client import Excluded, Requests, Unavailable
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.protocol.frames import Malformed
from waiting import wait_until


@pytest.fixture
def gateway(tmp_path):
    here = Here(tmp_path, polling=replace(POLLING, max_held=9))
    here.now = time.time()
    with Running(here) as running:
        yield running


def one_of(port):
    wire = AsyncConnection("127.0.0.1", port, None)
    return AsyncGatewayClient(wire, Requests(Ed25519PrivateKey.generate(), AGREED.id), wait=1)


async def served(gateway, devices, scene):
    tasks = [asyncio.ensure_future(device.serve(learned)) for device in devices]
    try:
        await asyncio.to_thread(scene)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for device in devices:
            device.wire.close()


def test_many_devices_answer_rounds(gateway):
    devices = [one_of(gateway.port) for _ in range(PLACES)]

    def scene():
        wait_until(lambda: len(gateway.here.gateway.present()) == PLACES)
        for t in range(3):
            ask = ask_of(t=t, clients=(10, 12, 14))
            assert rows(gateway.asked(ask)).keys() == {10, 12, 14}
        wait_until(lambda: sum(device.answered for device in devices) == 9)  # all were confirmed

    async def whole():
        numbers = [await device.enrol(gateway.invitation()) for device in devices]
        assert numbers == list(range(10, 15))
        await served(gateway, devices, scene)
        by_number = {device.requests.client: device.answered for device in devices}
        assert by_number == {10: 3, 11: 0, 12: 3, 13: 0, 14: 3}
        assert all(device.wire.sent and device.wire.got for device in devices)

    asyncio.run(whole())


def test_a_connection_is_opened_again(gateway):
    async def whole():
        device = one_of(gateway.port)
        await device.enrol(gateway.invitation())
        assert device.wire.connected
        device.wire.close(abruptly=True)
        assert not device.wire.connected
        assert await device.once(learned) == 0.0 and device.wire.connected

    asyncio.run(whole())


def test_nobody_at_the_address():
    async def whole():
        with pytest.raises(Unavailable, match="no connection"):
            await one_of(1).enrol("word")

    asyncio.run(whole())


def test_a_refusal_ends_a_device_and_a_busy_gateway_does_not(gateway):
    async def whole():
        with pytest.raises(Excluded, match="is unknown"):
            await one_of(gateway.port).enrol("made up")
        device = one_of(gateway.port)
        await device.enrol(gateway.invitation())
        gateway.here.gateway.numbers, numbers = None, gateway.here.gateway.numbers
        with pytest.raises(Unavailable, match="not reached its server") as away:
            await one_of(gateway.port).enrol(gateway.invitation())
        assert away.value.seconds == 5.0
        gateway.here.gateway.numbers = numbers
        await device.forget()

    asyncio.run(whole())


def test_an_ask_that_is_not_understood_is_told(gateway):
    def older(text):
        raise Malformed("version 3 of the protocol, but this foltr speaks version 2")

    async def whole():
        device = one_of(gateway.port)
        await device.enrol(gateway.invitation())
        assert await device.once(older) == 0.0
        step = gateway.asking(ask_of(clients=(10,)))
        with pytest.raises(Unavailable, match="not understood: version 3") as away:
            while True:
                await device.once(older)
        assert away.value.seconds == 60.0
        await device.once(learned)
        assert rows(await asyncio.wrap_future(step)).keys() == {10}

    asyncio.run(whole())
