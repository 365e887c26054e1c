"""Devices that speak another version of the protocol than their gateway. The gateway is of the
next version, which is made up: a foltr that writes 3 and understands 2."""

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    POLLING,
    Here,
    about_of,
    answer,
    ask_of,
    asking,
    code_of,
    content,
    hello,
    later,
    learned,
    played,
    rows,
    take,
)

from foltr.deployment.gateway import app, client, gateway, presence
from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.protocol import frames
from foltr.deployment.protocol.frames import Frame, Kind, Welcome


@pytest.fixture(autouse=True)
def next_version(monkeypatch):
    for module in (frames, presence, app, gateway, client):
        monkeypatch.setattr(module, "VERSION", 3)
    monkeypatch.setattr(frames, "OLDEST", 2)


def of_version(device, version):
    """Make a device name another version; None: no version, as in the first release."""
    for name in ("ask", "model"):
        made = getattr(device.requests, name)

        def changed(*args, made=made):
            request = made(*args)
            headers = dict(request.headers)
            assert headers.pop("foltr-version") == "3"
            named = {} if version is None else {"foltr-version": str(version)}
            return request._replace(headers=headers | named)

        setattr(device.requests, name, changed)


def roll(version):
    return about_of(Kind.ROLL, (), version=version)


async def welcomed(here):
    """The version of the devices, as the gateway tells the server."""
    welcome = Welcome.from_bytes((await here.asked(hello())).payload)
    assert welcome.version == 3
    return welcome.devices or 3


@pytest.mark.parametrize("version", [2, None])
def test_a_gateway_speaks_the_version_of_its_oldest_device(tmp_path, version):
    async def scene(here, devices):
        assert await welcomed(here) == 3
        of_version(devices[1], version)
        assert (await devices[1].ask()).status == 204
        refused = await here.asked(roll(3))
        assert code_of(refused) == "hello" and b"speak version 2" in refused.payload
        assert await welcomed(here) == 2
        assert (await here.asked(roll(2))).clients == (10, 11, 12)
        step = await asking(here, ask_of(version=2))
        for device in devices:
            part = (await device.ask()).body
            assert Frame.from_bytes(part).version == 2
            assert (await device.put(learned(part))).status == 204
        assert len(rows(await step)) == 3

    played(scene, tmp_path)


@pytest.mark.parametrize("updated", [True, False])
def test_when_the_oldest_device_is_updated_or_away_the_next_version_is_spoken(tmp_path, updated):
    async def scene(here, devices):
        now = devices[1].requests.ask
        of_version(devices[1], 2)
        await devices[1].ask()
        assert await welcomed(here) == 2
        if updated:
            devices[1].requests.ask = now
        else:
            here.gateway.presence.disconnected(11)
        for _ in range(3):  # it cannot change the version all the time
            await devices[0].ask()
            if updated:
                await devices[1].ask()
            assert (await here.asked(roll(2))).kind == Kind.PRESENT
        later(99.0)
        assert code_of(await here.asked(roll(2))) == "hello"
        assert await welcomed(here) == 3
        there = (10, 11, 12) if updated else (10, 12)
        assert (await here.asked(roll(3))).clients == there
        assert (await here.asked(roll(2))).clients == there  # the server may be older

    played(scene, tmp_path)


def test_a_step_does_not_wait_for_a_device_that_does_not_understand_it(tmp_path):
    async def scene(here, devices):
        await welcomed(here)
        step = await asking(here, ask_of(version=3), 60.0)
        of_version(devices[1], 2)
        assert (await devices[1].ask()).status == 204
        assert (await devices[1].send(devices[1].requests.model())).status == 204
        assert (await devices[0].send(devices[0].requests.model())).status == 200
        await answer(here, devices[0])
        await answer(here, devices[2])
        assert list(rows(await asyncio.wait_for(step, 60.0))) == [10, 12]

    played(scene, tmp_path)


@pytest.mark.parametrize("version", [1, 2, None])
def test_a_device_that_is_too_old_is_told_to_update(tmp_path, monkeypatch, version):
    """It is not asked, and does not limit the others."""
    for module in (app, presence):
        monkeypatch.setattr(module, "OLDEST_OF_DEVICES", 3)

    async def scene(here, devices):
        await welcomed(here)
        of_version(devices[1], version)
        for request in (devices[1].requests.ask(), devices[1].requests.model()):
            response = await devices[1].send(request)
            assert response.status == 426
            assert f"speaks version {version or 2} " in content(response)["error"]
            assert "understands 3 .. 3" in content(response)["error"]
        assert (await here.asked(roll(3))).clients == (10, 12)

    played(scene, tmp_path)


def test_a_version_that_is_no_number(tmp_path):
    async def scene(here, devices):
        of_version(devices[1], "v3")
        assert (await devices[1].ask()).status == 400
        assert await welcomed(here) == 3

    played(scene, tmp_path)


def test_a_model_is_given_only_in_a_version_that_the_device_understands(tmp_path):
    async def scene(here, devices):
        await here.asked(ask_of(version=3, clients=()))
        of_version(devices[1], 2)
        await devices[1].ask()
        await welcomed(here)
        assert (await here.asked(roll(2))).kind == Kind.PRESENT
        assert (await devices[1].send(devices[1].requests.model())).status == 204
        assert (await devices[0].send(devices[0].requests.model())).status == 200
        await here.asked(ask_of(version=2, clients=(), t=1))
        assert (await devices[1].send(devices[1].requests.model())).status == 200

    played(scene, tmp_path)


def test_a_gateway_that_is_restarted_speaks_the_version_of_before(tmp_path):
    """Its devices have not connected again when the server greets it."""

    async def scene(here, devices):
        of_version(devices[1], 2)
        await devices[1].ask()
        assert await welcomed(here) == 2
        here.enrolment.close()
        again = Here(tmp_path, polling=replace(POLLING, back=20.0))
        again.gateway.start()
        assert await welcomed(again) == 2
        assert (await again.asked(roll(2))).kind == Kind.PRESENT
        later(99.0)
        assert code_of(await again.asked(roll(2))) == "hello"
        assert await welcomed(again) == 3

    played(scene, tmp_path)


def test_a_notice_is_in_a_version_that_its_device_understands(tmp_path):
    async def scene(here, devices):
        await here.gateway.devices.set_standing({10: None}, Standing.TO_FORGET, tuple(Standing))
        told = await here.asked(about_of(Kind.FORGOTTEN, (10,), version=3))
        assert told.kind == Kind.WELCOME
        assert Frame.from_bytes((await devices[0].ask()).body).version == 3
        of_version(devices[0], 2)
        notice = Frame.from_bytes((await devices[0].ask()).body)
        assert (notice.kind, notice.version) == (Kind.FORGOTTEN, 2)
        here.gateway.presence._speaks.clear()  # the gateway is restarted
        await take(here, devices[0], notice.answer(Kind.WELCOME, (10,), b"").to_bytes())
        assert here.gateway.devices[10].standing == Standing.GONE

    played(scene, tmp_path)


def test_a_notice_that_was_stored_in_a_version_that_is_too_old_by_now(tmp_path, monkeypatch):
    async def scene(here, devices):
        await here.gateway.devices.set_standing({10: None}, Standing.TO_FORGET, tuple(Standing))
        await here.asked(about_of(Kind.FORGOTTEN, (10,), version=2))
        monkeypatch.setattr(frames, "OLDEST", 3)
        assert Frame.from_bytes((await devices[0].ask()).body).kind == Kind.FORGOTTEN

    played(scene, tmp_path)
