"""The steps of a round at a gateway, with devices that answer by hand."""

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    FIRST,
    PLACES,
    SUMS,
    Here,
    about_of,
    agreed,
    answer,
    ask_of,
    asking,
    code_of,
    hello,
    later,
    learned,
    open_of,
    played,
    refused,
    rows,
    sum_of,
    summed,
    take,
)

from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.gateway.gateway import Conflict, Forbidden, Gateway, Late
from foltr.deployment.protocol.frames import (
    Frame,
    Kind,
    Malformed,
    Welcome,
    read_ids,
    read_parts,
    read_refusal,
)
from waiting import wait_until

# --- the server says hello ---


def test_the_first_hello_gives_the_numbers_and_they_never_change(tmp_path):
    async def scene():
        here = Here(tmp_path)
        here.gateway.start()
        assert code_of(await here.asked(ask_of())) == "hello"
        welcome = await here.asked(hello())
        assert welcome.kind == Kind.WELCOME
        assert Welcome.from_bytes(welcome.payload) == Welcome(roll=True, answered=0)
        assert here.gateway.numbers == range(FIRST, FIRST + PLACES)
        assert code_of(await here.asked(hello(first=0))) == "clients"
        assert code_of(await here.asked(hello(places=PLACES + 1))) == "clients"
        again = Gateway(AGREED, here.enrolment, PLACES)
        assert again.numbers == range(FIRST, FIRST + PLACES)

    asyncio.run(scene())


def test_another_agreement_is_told_field_by_field(tmp_path):
    async def scene():
        here = Here(tmp_path)
        here.gateway.start()
        answer = await here.asked(hello(agreed(rounds=8)))
        code, text = read_refusal(answer.payload)
        assert code == "agreement"
        assert "rounds is 9 in the gateway's file, 8 in the server's" in text
        gaps = hello()
        answer = await here.asked(replace(gaps, clients=(10, 11, 12, 13, 15)))
        assert code_of(answer) == "clients"
        assert here.gateway.numbers is None

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"federation": bytes(16)}, "agreement"),
        ({"features": bytes(32)}, "agreement"),
        ({"clients": (9, 10)}, "clients"),
        ({"clients": (14, 15)}, "clients"),
        ({"payload": b""}, "malformed"),
        ({"kind": Kind.LEARNED}, "kind"),
        ({"kind": Kind.WELCOME}, "kind"),
        ({"kind": Kind.SUM}, "malformed"),
        ({"kind": Kind.OPEN}, "malformed"),
    ],
)
def test_asks_that_do_not_fit_are_refused(tmp_path, changes, code):
    async def scene(here, devices):
        ask = replace(ask_of(), **changes)
        answer = Frame.from_bytes(await here.gateway.reply(ask.to_bytes(), 60.0))
        assert code_of(answer) == code and here.gateway.step is None
        assert any(f"({code})" in text for text in here.told)

    played(scene, tmp_path)


def test_bytes_that_are_no_frame(tmp_path):
    async def scene(here, devices):
        with pytest.raises(Malformed):
            await here.gateway.reply(b"no frame", 5.0)

    played(scene, tmp_path)


# --- who can be reached ---


def test_the_roll_names_who_can_be_reached_and_who_wants_to_leave(tmp_path):
    async def scene(here, devices):
        one, two, three, four, five = devices
        await here.gateway.devices.set_standing(
            {one.client: None}, Standing.TO_FORGET, tuple(Standing)
        )
        await here.gateway.devices.set_standing({two.client: None}, Standing.GONE, tuple(Standing))
        await here.gateway.devices.set_standing(
            {three.client: None}, Standing.REVOKED, tuple(Standing)
        )
        here.gateway.presence.disconnected(five.client)
        answer = await here.asked(about_of(Kind.ROLL, ()))
        assert answer.kind == Kind.PRESENT and answer.clients == (four.client,)
        named = read_ids(answer.payload).tolist()
        assert named == [one.client, two.client]

    played(scene, tmp_path, devices=5)


# --- one step ---


def test_a_step_joins_the_answers_of_all_devices(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask := ask_of())
        assert ask.clients == tuple(device.client for device in devices)
        for i, device in enumerate(reversed(devices)):
            await answer(here, device, update=(i, 0.0, 0.0), weight=1.0 + i % 2)
        expected = {12: ([0, 0, 0], 1.0), 11: ([1, 0, 0], 2.0), 10: ([2, 0, 0], 1.0)}
        assert rows(await step) == expected
        assert here.gateway.counts["asks"] == 1 and here.gateway.counts["answers"] == 3
        assert here.gateway.counts["missing"] == 0 and here.gateway.step is None

    played(scene, tmp_path)


def test_a_device_waits_only_while_there_is_no_ask_for_it(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10,)))
        waited = []
        here.gateway.presence.wait = lambda client, seconds: waited.append(client) or no_wait()
        assert await here.gateway.next_ask(10, b"", 5.0) == here.gateway.ask_of(10, b"")
        assert await here.gateway.next_ask(11, b"", 0.0) is None
        assert waited == []
        assert await here.gateway.next_ask(11, b"", 5.0) is None
        assert waited == [11]
        here.gateway.stopping = True
        assert await here.gateway.next_ask(11, b"", 5.0) is None
        assert waited == [11]
        here.gateway.stopping = False
        await answer(here, devices[0])
        await step

    async def no_wait():
        return None

    played(scene, tmp_path)


def test_a_step_ends_when_those_who_are_missing_have_disconnected(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of(), seconds=60.0)
        await answer(here, devices[0])
        for device in devices[1:]:
            here.gateway.presence.disconnected(device.client)
        assert rows(await asyncio.wait_for(step, 20.0)).keys() == {10}
        assert here.gateway.counts["missing"] == 2

    played(scene, tmp_path)


def test_a_step_ends_when_the_time_is_over(tmp_path):
    """A device that is connected and silent then counts as away, until it makes a request."""

    async def scene(here, devices):
        step = await asking(here, ask_of(), seconds=60.0)
        await answer(here, devices[0])
        later(60.0)
        assert rows(await step).keys() == {10}
        assert here.gateway.present() == (10,)
        await devices[1].ask()
        assert here.gateway.present() == (10, 11)

    played(scene, tmp_path)


def test_a_device_that_asks_and_never_answers_delays_two_rounds_and_not_all(tmp_path):
    async def scene(here, devices):
        delayed = 0
        for t in range(6):
            for device in devices:
                await device.ask()
            there = here.gateway.present()
            delayed += 12 in there
            step = await asking(here, ask_of(clients=there, t=t), seconds=5.0)
            for device in devices[:2]:
                await answer(here, device)
            later(5.0)
            assert rows(await step).keys() == {10, 11}
        assert delayed == 2

    played(scene, tmp_path)


def test_a_device_is_not_to_blame_for_the_gateway_s_full_disk(tmp_path):
    async def scene(here, devices):
        keep = here.enrolment.keep
        here.enrolment.keep = full
        for t in range(4):
            step = await asking(here, ask_of(clients=(10,), t=t), seconds=60.0)
            with pytest.raises(Unusable):
                await answer(here, devices[0])
            later(60.0)
            await step
            await devices[0].ask()
            assert 10 in here.gateway.present()
        here.enrolment.keep = keep

    played(scene, tmp_path)


def full(*given):
    raise Unusable("the disk is full")


def test_if_nobody_answers_the_step_is_refused(tmp_path):
    async def scene(here, devices):
        assert code_of(await here.asked(ask_of(), 0.05)) == "failed"
        step = await asking(here, ask_of(t=1))
        for device in devices:
            await answer(here, device, refused)
        assert code_of(await step) == "budget"
        assert here.gateway.counts["refused budget"] == 3

    played(scene, tmp_path)


def test_a_late_answer_is_refused_and_the_same_answer_again_is_not(tmp_path):
    async def scene(here, devices):
        one, two, three = devices
        with pytest.raises(Late):
            await take(here, one, learned(ask_of(clients=(10,)).to_bytes()))
        step = await asking(here, ask_of(clients=(10, 11)))
        sent = learned(here.gateway.step.ask_for(10))
        late = learned(here.gateway.step.ask_for(11))
        await take(here, one, sent)
        await take(here, one, sent)
        with pytest.raises(Conflict):
            await answer(here, one, weight=1.0)
        foreign = replace(Frame.from_bytes(sent), clients=(12,)).to_bytes()
        with pytest.raises(Late):
            await take(here, three, foreign)  # it is not asked
        here.gateway.presence.disconnected(11)
        assert rows(await step) == {10: ([1, 2, 3], 2.0)}
        await take(here, one, sent)
        with pytest.raises(Late):
            await take(here, two, late)
        with pytest.raises(Late):
            await take(here, one, learned(sent_part(sent), weight=1.0))
        step = await asking(here, ask_of(t=1, clients=(11,)))
        await take(here, one, sent)
        with pytest.raises(Late):
            await take(here, two, late)
        await answer(here, two)
        assert rows(await step).keys() == {11}
        with pytest.raises(Late):
            await take(here, one, sent)  # two steps ago

    played(scene, tmp_path)


def sent_part(text):
    """The ask to which this is the answer."""
    answer = Frame.from_bytes(text)
    return replace(answer, kind=Kind.LEARN, payload=ask_of().payload).to_bytes()


def test_nobody_answers_for_another(tmp_path):
    async def scene(here, devices):
        two = devices[1]
        step = await asking(here, ask_of())
        stolen = learned(here.gateway.step.ask_for(10))
        with pytest.raises(Forbidden, match="not this device's"):
            await take(here, two, stolen, of=10)
        with pytest.raises(Malformed, match="does not fit"):
            await take(here, two, stolen)
        both = replace(Frame.from_bytes(stolen), clients=(10, 11)).to_bytes()
        with pytest.raises(Malformed):
            await take(here, two, both)
        for i, device in enumerate(devices):
            await answer(here, device, update=(i, i, i))
        found = rows(await step)
        assert found == {10 + i: ([i, i, i], 2.0) for i in range(3)}

    played(scene, tmp_path)


def test_an_answer_that_was_taken_in_the_last_moment_counts(tmp_path):
    """It is being written when the time is over: it is confirmed, so it must be sent on."""

    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10,)), seconds=60.0)
        keep = here.enrolment.keep

        def slow(answers):
            wait_until(lambda: here.gateway._over)
            keep(answers)

        here.enrolment.keep = slow
        sent = asyncio.ensure_future(answer(here, devices[0]))
        await asyncio.sleep(0)
        later(60.0)
        await sent
        assert rows(await step).keys() == {10}

    played(scene, tmp_path)


def test_an_answer_that_cannot_be_written_is_not_taken(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10,)))
        keep = here.enrolment.keep
        here.enrolment.keep = full
        with pytest.raises(Unusable):
            await answer(here, devices[0])
        assert not here.gateway.answers and here.gateway.ask_of(10, b"") is not None
        here.enrolment.keep = keep
        await answer(here, devices[0])
        assert rows(await step).keys() == {10}

    played(scene, tmp_path)


def test_a_step_that_cannot_begin_for_want_of_space_is_refused(tmp_path):
    async def scene(here, devices):
        begin, here.enrolment.begin = here.enrolment.begin, full
        assert code_of(await here.asked(ask_of())) == "disk"
        assert "the disk is full" in here.told
        here.enrolment.begin = begin
        step = await asking(here, ask_of(t=1, clients=(10,)))
        await answer(here, devices[0])
        await step

    played(scene, tmp_path)


def test_a_device_that_is_revoked_in_a_step_is_not_waited_for(tmp_path):
    async def scene(here, devices):
        step = await asking(here, ask_of(clients=(10, 11)), seconds=60.0)
        await answer(here, devices[0])
        here.enrolment.revoke(11)
        here.gateway.devices._use(here.enrolment.devices())
        with pytest.raises(Forbidden, match="revoked"):
            await answer(here, devices[1])
        assert rows(await asyncio.wait_for(step, 20.0)).keys() == {10}

    played(scene, tmp_path)


def test_who_is_leaving_is_not_asked(tmp_path):
    async def scene(here, devices):
        await here.gateway.devices.set_standing({10: None}, Standing.TO_FORGET, tuple(Standing))
        step = await asking(here, ask_of(clients=(10, 11)), seconds=60.0)
        assert here.gateway.ask_of(10, b"") is None
        await answer(here, devices[1])
        assert rows(await asyncio.wait_for(step, 20.0)).keys() == {11}

    played(scene, tmp_path)


def test_secure_sums_are_relayed_untouched(tmp_path):
    async def scene(here, devices):
        step = await asking(here, open_of())
        for device in devices:
            await answer(here, device, summed, message=bytes([device.client]) * 40)
        joined = await step
        assert joined.kind == Kind.SUMMED and joined.clients == (10, 11, 12)
        assert read_parts(joined.payload, 3) == [bytes([id]) * 40 for id in (10, 11, 12)]
        step = await asking(here, sum_of({10: b"to 10", 12: b"to 12"}))
        part = Frame.from_bytes(here.gateway.ask_of(12, b"")[1])
        assert read_parts(part.payload, 3)[2] == b"to 12"
        assert here.gateway.ask_of(11, b"") is None
        await answer(here, devices[2], summed, message=b"from 12")
        await answer(here, devices[0], summed, message=b"from 10")
        assert read_parts((await step).payload, 2) == [b"from 10", b"from 12"]

    played(scene, tmp_path, agreement=SUMS)


def test_the_model_for_devices_that_are_not_asked(tmp_path):
    async def scene(here, devices):
        assert here.gateway.model is None
        for ask in (open_of(clients=()), sum_of({}, t=0)):
            await here.asked(ask, 0.1)
            frame = here.gateway.model
            assert frame.model == ask.model and frame.clients == () and frame.kind == Kind.LEARN
            assert frame.payload == ask_of().payload

    played(scene, tmp_path, agreement=SUMS)
