"""A gateway that is killed or stops in the middle of a step, and goes on."""

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    NOW,
    POLLING,
    Device,
    Here,
    agreed,
    answer,
    ask_of,
    asking,
    later,
    learned,
    nonce,
    played,
    refused,
    rows,
)

from foltr.deployment.gateway import gateway as module
from foltr.deployment.gateway.enrolment import Enrolment
from foltr.deployment.gateway.gateway import LOOK, Stopping
from foltr.deployment.gateway.signing import answer_text
from foltr.deployment.protocol.frames import Frame
from waiting import until


class WallClock:
    """The time of day, as the gateway sees it. It passes only where a test says so."""

    def __init__(self):
        self.now = NOW

    def time(self):
        return self.now


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    """A gateway that was away for more than a second waits longer for its devices. On a slow
    machine the real clock would show more than a second between the two processes."""
    clock = WallClock()
    monkeypatch.setattr(module, "time", clock)
    return clock


# --- restarts ---


def test_after_a_restart_a_step_continues_with_the_answers_that_are_stored(tmp_path):
    async def before(here, devices):
        step = await asking(here, ask)
        await answer(here, devices[0], update=(7.0, 7.0, 7.0))
        await answer(here, devices[1], refused)
        step.cancel()
        keys.extend(device.requests for device in devices)
        here.enrolment.close()

    async def after():
        here = Here(tmp_path)
        here.gateway.start()  # without another HELLO
        here.gateway.presence.connected(12)
        step = await asking(here, ask)
        assert here.gateway.ask_of(10, b"") is None, "its answer is there"
        assert here.gateway.ask_of(12, b"") is not None
        last = learned(here.gateway.step.ask_for(12))
        signature = keys[2].key.sign(answer_text(last))
        await here.gateway.take_answer(12, ask.nonce, signature, last)
        assert rows(await step) == {10: ([7, 7, 7], 2.0), 12: ([1, 2, 3], 2.0)}
        again = await here.asked(ask, 60.0)
        assert rows(again) == {10: ([7, 7, 7], 2.0), 12: ([1, 2, 3], 2.0)}

    ask, keys = ask_of(), []
    played(before, tmp_path)
    asyncio.run(after())


def restarted(folder, ask, scene, polling=POLLING, away=lambda: None, **before):
    """A gateway is killed after a device has answered an ask; `scene(here, step, devices)` goes on
    in the next process, which gets the same ask."""
    agreement, keys = before.pop("agreement", AGREED), []

    async def first(here, devices):
        for t in range(ask.round):
            model = {} if "model" not in before else {"model": bytes([t]) * 32}
            await here.asked(ask_of(agreement, t=t, clients=(), **model), 0.05)
        step = await asking(here, ask)
        await answer(here, devices[0], **before)
        step.cancel()
        keys.extend(device.requests for device in devices)
        here.enrolment.close()

    async def second():
        here = Here(folder, agreement, polling)
        here.gateway.start()
        devices = [Device(here, key.client) for key in keys]
        for device, key in zip(devices, keys, strict=True):
            device.requests = key
        await scene(here, await asking(here, ask, 60.0), devices)

    played(first, folder, agreement=agreement)
    away()
    asyncio.run(second())


def test_the_stored_answer_of_a_device_that_was_revoked_does_not_count(tmp_path):
    async def scene(here, step, devices):
        for device in devices[1:]:
            await answer(here, device)
        assert here.gateway.answers.keys() == {11, 12}
        assert rows(await step).keys() == {11, 12}
        assert here.gateway.counts["missing"] == 1

    def revoke():
        state = Enrolment(tmp_path / "gateway.db", AGREED.id)
        state.revoke(10)
        state.close()

    restarted(tmp_path, ask_of(), scene, replace(POLLING, back=60.0), revoke)


def test_after_a_restart_devices_have_time_to_connect_again(tmp_path):
    """They are not given up because nobody is connected yet."""

    async def scene(here, step, devices):
        presence, looks = here.gateway.presence, []
        awaited = presence.awaited

        def counted(client, continued):
            looks.append(client)
            return awaited(client, continued)

        presence.awaited = counted
        await until(lambda: len(looks) >= 3)
        assert not step.done() and here.gateway.present() == ()
        for device in devices[1:]:
            await answer(here, device)
        assert rows(await step).keys() == {10, 11, 12}

    restarted(tmp_path, ask_of(), scene, replace(POLLING, back=60.0))


def test_after_a_restart_nobody_is_waited_for_longer_than_that(tmp_path):
    async def scene(here, step, devices):
        assert rows(await asyncio.wait_for(step, 20.0)).keys() == {10}

    restarted(tmp_path, ask_of(), scene, replace(POLLING, back=3 * LOOK))


def test_an_answer_on_an_earlier_model_survives_a_restart(tmp_path):
    agreement = agreed(separation=2)
    ask = ask_of(agreement, t=2, model=b"x" * 32)

    async def scene(here, step, devices):
        assert list(here.gateway.answers) == [10]
        await answer(here, devices[1], model_round=0, model=bytes([0]) * 32)
        await answer(here, devices[2])
        assert rows(await step).keys() == {10, 11, 12}

    early = {"model_round": 1, "model": bytes([1]) * 32}
    restarted(tmp_path, ask, scene, replace(POLLING, back=60.0), agreement=agreement, **early)


def test_a_stored_answer_that_no_longer_fits_is_asked_for_again(tmp_path):
    async def scene(here, devices):
        ask = ask_of(clients=(10,))
        here.enrolment.begin(ask.nonce, 0, 0.0, {})
        here.enrolment.keep([(ask.nonce, 10, b"of another version of foltr")])
        step = await asking(here, replace(ask, nonce=ask.nonce), 1e12)
        await answer(here, devices[0])
        assert rows(await step).keys() == {10}

    played(scene, tmp_path)


def test_the_time_of_a_step_goes_on_while_the_gateway_is_away(tmp_path, wall_clock):
    """The server's deadline does: what is stored is sent on before it is over."""

    async def scene(here, step, devices):
        assert 0.0 < here.gateway.seconds_left <= 40.0 and not step.done()
        later(40.0)
        assert rows(await asyncio.wait_for(step, 15.0)).keys() == {10}

    def away():
        wall_clock.now += 20.0

    restarted(tmp_path, ask_of(), scene, replace(POLLING, back=600.0), away)


def test_a_new_nonce_is_a_new_step(tmp_path):
    """The server lost the answer: devices are asked again."""

    async def scene(here, devices):
        step = await asking(here, ask := ask_of(clients=(10,)))
        await answer(here, devices[0])
        await step
        step = await asking(here, replace(ask, nonce=nonce()))
        assert here.gateway.ask_of(10, b"") is not None
        await answer(here, devices[0])
        assert rows(await step).keys() == {10}

    played(scene, tmp_path)


def test_a_gateway_that_stops_does_not_answer_and_keeps_what_it_has(tmp_path):
    async def scene(here, devices):
        ask = ask_of(clients=(10, 11))
        step = asyncio.ensure_future(here.gateway.reply(ask.to_bytes(), 60.0))
        await until(lambda: here.gateway.step is not None)
        await answer(here, devices[0])
        held = asyncio.ensure_future(devices[2].ask(wait=5))
        await asyncio.sleep(0)
        await here.gateway.finish(0.0)
        with pytest.raises(Stopping):
            await step
        assert (await held).status == 204, "requests are released"
        assert Enrolment(here.enrolment.path, AGREED.id).begin(ask.nonce, 0, 0.0, {})[0]

    played(scene, tmp_path)


def test_a_gateway_that_stops_lets_a_step_end(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10,)), seconds=60.0)
        stop = asyncio.ensure_future(here.gateway.finish(60.0))
        await answer(here, devices[0])
        assert rows(await step).keys() == {10}
        await stop
        assert here.gateway.stopping

    played(scene, tmp_path)


def test_an_ask_that_arrives_late_has_less_time(tmp_path):
    """The server's deadline counts from when it made the ask."""

    async def scene(here, devices):
        ask = ask_of()
        reply = asyncio.ensure_future(here.gateway.reply(ask.to_bytes(), 60.0, 20.0))
        await until(lambda: here.gateway.step is not None)
        assert here.gateway.seconds_left <= 40.0
        await answer(here, devices[0])
        later(40.0)
        joined = Frame.from_bytes(await asyncio.wait_for(reply, 15.0))
        assert rows(joined).keys() == {10} and here.gateway.seconds_left == 0.0

    played(scene, tmp_path)
