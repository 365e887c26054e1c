"""Devices at a gateway: forgotten ones, those on disk and in memory, answers on earlier models."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    NOW,
    PARAMS,
    Device,
    Here,
    about_of,
    agreed,
    answer,
    ask_of,
    asking,
    code_of,
    played,
    refused,
    rows,
    take,
)

from foltr.core.errors import Mistake
from foltr.deployment.gateway.enrolment import Enrolment, Standing
from foltr.deployment.gateway.gateway import Forbidden
from foltr.deployment.protocol.frames import Frame, Kind, Malformed, read_ids
from waiting import until

# --- being forgotten ---


def test_a_device_is_told_that_it_is_forgotten_and_confirms(tmp_path):
    async def scene(here, devices):
        one, two, three = devices
        for device in (one, two):
            await device.send(device.requests.forget())
        held = asyncio.ensure_future(one.ask(wait=5))
        await asyncio.sleep(0)
        farewell = about_of(Kind.FORGOTTEN, (10, 11))
        assert (await here.asked(farewell)).kind == Kind.WELCOME
        response = await held
        assert response.status == 200
        notice = Frame.from_bytes(response.body)
        assert notice == replace(farewell, clients=(10,))
        made = notice.answer(Kind.WELCOME, notice.clients, b"").to_bytes()
        with pytest.raises(Forbidden):
            await take(here, three, made, of=10)
        with pytest.raises(Malformed, match="does not fit the notice"):
            await take(here, one, replace(Frame.from_bytes(made), nonce=bytes(16)).to_bytes())
        assert (await one.put(made)).status == 204
        standings = {d.client: d.standing for d in here.enrolment.devices().values()}
        assert standings == {10: "gone", 11: "forgotten", 12: "active"}
        assert (await one.ask()).status == 403
        assert (await here.asked(farewell)).kind == Kind.WELCOME, "told again"
        roll = await here.asked(about_of(Kind.ROLL, ()))
        assert read_ids(roll.payload).tolist() == [10, 11]  # for a restored server
        again = Here(tmp_path)
        again.gateway.start()
        assert again.gateway.ask_of(11, b"")[1] == here.gateway.devices[11].notice

    played(scene, tmp_path)


def test_a_notice_that_was_stored_when_the_protocol_had_another_version(tmp_path):
    async def scene(here, devices):
        await devices[0].send(devices[0].requests.forget())
        await here.asked(about_of(Kind.FORGOTTEN, (10,)))
        notice = here.gateway.devices[10].notice
        older = (notice[:2] + b"\1" + notice[3:], 10)
        here.enrolment._db.execute("update device set notice = ? where client = ?", older)
        await here.gateway.devices.reread()
        assert here.gateway.devices[10].notice != notice
        assert (await devices[0].ask()).body == notice
        made = Frame.from_bytes(notice).answer(Kind.WELCOME, (10,), b"").to_bytes()
        assert (await devices[0].put(made)).status == 204
        assert here.gateway.devices[10].standing == Standing.GONE

    played(scene, tmp_path)


def test_the_last_answer_of_a_forgotten_device_is_deleted(tmp_path):
    """Also if the gateway is asked for nothing more. Who has not asked delays nobody."""

    async def scene(here, devices):
        one, two, _ = devices
        step = await asking(here, ask_of(clients=(10, 11)))
        for device in (one, two):
            await answer(here, device, update=(device.client, 0.5, 0.25))
        await step
        await one.send(one.requests.forget())
        assert (await here.asked(about_of(Kind.FORGOTTEN, (10, 12, 14)))).kind == Kind.WELCOME
        assert here.gateway.devices[10].standing == Standing.FORGOTTEN
        assert here.gateway.devices[12].standing == Standing.ACTIVE
        stored = here.enrolment._db.execute("select client from answer").fetchall()
        assert stored == [(11,)] and here.gateway._last[1].keys() == {11}
        files = tmp_path.glob("gateway.db*")
        whole = b"".join(path.read_bytes() for path in files)
        assert np.array([10, 0.5, 0.25], "<f4").tobytes() not in whole
        assert np.array([11, 0.5, 0.25], "<f4").tobytes() in whole

    played(scene, tmp_path)


@pytest.mark.parametrize(("erased", "warned"), [(True, False), (False, True)])
def test_the_owner_is_warned_if_something_is_left_of_a_forgotten_answer(tmp_path, erased, warned):
    async def scene(here, devices):
        await devices[0].send(devices[0].requests.forget())
        here.enrolment.erase = lambda clients: erased
        assert (await here.asked(about_of(Kind.FORGOTTEN, (10,)))).kind == Kind.WELCOME
        assert any("being read by another process" in text for text in here.told) == warned

    played(scene, tmp_path)


def test_a_device_that_cannot_delete_its_records_is_told_again(tmp_path):
    """Its disk is full: it refuses the notice. It is not told twice in a row."""

    async def scene(here, devices):
        one = devices[0]
        await one.send(one.requests.forget())
        await here.asked(about_of(Kind.FORGOTTEN, (10,)))
        notice = await one.ask()
        assert (await one.put(refused(notice.body, "disk", "full"))).status == 204
        assert here.gateway.devices[10].standing == Standing.FORGOTTEN
        assert (await one.ask(notice.headers["etag"])).status == 204
        assert (await one.ask()).body == notice.body  # its next process

    played(scene, tmp_path)


@pytest.mark.parametrize("standing", [Standing.ACTIVE, Standing.REVOKED])
def test_who_has_not_asked_is_not_forgotten(tmp_path, standing):
    async def scene(here, devices):
        await here.gateway.devices.set_standing({10: None}, standing, tuple(Standing))
        assert code_of(await here.asked(about_of(Kind.FORGOTTEN, (10,)))) == "forget"
        assert here.gateway.devices[10].standing == standing
        assert code_of(await here.asked(about_of(Kind.FORGOTTEN, (14,)))) == "forget"

    played(scene, tmp_path)


# --- the devices in memory follow those on disk ---


def test_what_is_read_from_disk_does_not_hide_what_was_written_meanwhile(tmp_path):
    """A device enrols while the gateway takes over what another process has changed."""

    async def scene(here, devices):
        gateway, on_disk = here.gateway, here.gateway.devices.on_disk
        was_read, gate = asyncio.Event(), asyncio.Event()

        async def slow(call, *given):
            found = await on_disk(call, *given)
            if call == here.enrolment.devices:
                was_read.set()
                await gate.wait()
            return found

        gateway.devices.on_disk = slow
        read = asyncio.ensure_future(gateway.devices.reread())
        await was_read.wait()
        token = here.enrolment.invite(1, 1.0, NOW)
        new = asyncio.ensure_future(Device(here).enrol(token))
        left = asyncio.ensure_future(devices[0].send(devices[0].requests.forget()))
        await until(lambda: len(gateway.devices._order._waiters or ()) == 2)
        gate.set()
        await read
        assert (await new).status == 201 and (await left).status == 202
        assert gateway.devices.active(13) and gateway.devices[10].standing == Standing.TO_FORGET
        assert gateway.devices == here.enrolment.devices()

    played(scene, tmp_path)


# --- answers that were made on an earlier model ---


def test_an_answer_on_an_earlier_model_is_accepted_up_to_separation(tmp_path):
    async def scene(here, devices):
        models = {t: bytes([t + 1]) * 32 for t in range(5)}
        for t in range(4):
            await here.asked(ask_of(here.agreement, t=t, model=models[t], clients=()), 0.05)
        step = await asking(here, ask_of(here.agreement, t=4, model=models[4]))
        with pytest.raises(Malformed):
            await answer(here, devices[0], model_round=1, model=models[1])
        with pytest.raises(Malformed, match="did not pass on"):
            await answer(here, devices[0], model_round=2, model=models[3])
        for device, t in zip(devices, (2, 3, 4), strict=True):
            await answer(here, device, model_round=t, model=models[t])
        assert rows(await step).keys() == {10, 11, 12}

    played(scene, tmp_path, agreement=agreed(separation=2))


def test_the_file_of_another_federation_is_refused(tmp_path):
    Here(tmp_path)
    with pytest.raises(Mistake, match="another federation"):
        Here(tmp_path, agreed(rounds=8))


def test_numbers_as_they_were_sent(tmp_path):
    """The bits of updates are not changed on their way."""

    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10, 11)))
        draws = np.random.default_rng(3).standard_normal((2, len(PARAMS))).astype(np.float32)
        for device, update in zip(devices, draws, strict=False):
            await answer(here, device, update=update)
        found = rows(await step)
        assert np.array([found[id][0] for id in (10, 11)], np.float32).tobytes() == draws.tobytes()

    played(scene, tmp_path)


def test_requests_of_the_thread_that_talks_to_the_server(tmp_path):
    async def scene(here, devices):
        ask = about_of(Kind.ROLL, ())
        text = await asyncio.to_thread(here.gateway.answer, ask.to_bytes(), 60.0)
        assert Frame.from_bytes(text).clients == (10, 11, 12)

    played(scene, tmp_path)


def test_a_device_that_is_revoked_after_its_answer_does_not_count(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of())
        await answer(here, devices[0])
        Enrolment(here.enrolment.path, AGREED.id).revoke(10)
        await here.gateway.devices.reread()
        for device in devices[1:]:
            await answer(here, device)
        assert rows(await step).keys() == {11, 12}

    played(scene, tmp_path)


def test_a_device_that_another_process_has_revoked_stays_revoked(tmp_path):
    """The gateway has not read that yet."""

    async def scene(here, devices):
        Enrolment(here.enrolment.path, AGREED.id).revoke(10)
        for request in (devices[0].requests.forget, devices[0].requests.leave):
            await devices[0].send(request())
            assert here.enrolment.devices()[10].standing == Standing.REVOKED
        assert here.gateway.devices.revoked(10)

    played(scene, tmp_path)


def test_the_same_answer_twice_at_once_is_counted_once(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of())
        await asyncio.gather(*(answer(here, devices[0]) for _ in range(3)))
        for device in devices[1:]:
            await answer(here, device)
        assert rows(await step).keys() == {10, 11, 12} and here.gateway.counts["answers"] == 3

    played(scene, tmp_path)
