"""Asks, answers and limits on requests; without sockets."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property_settings import examples

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import Call, Here, ask_of, asking, content, learned, refused, requested

from foltr.core.system.state_file import Unusable
from foltr.deployment.gateway.connection_limits import Rates
from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.protocol.frames import Frame, Kind
from waiting import until

PATHS = "enrol session ask model leave forget key about answers/ answers/0/00".split()


# --- asks and answers ---


def test_an_ask_and_its_answer(tmp_path):
    async def scene(here):
        device, other = await here.devices(2)
        assert (await device.ask()).status == 204
        step = await asking(here, ask := ask_of(clients=(10,)))
        response = await device.ask()
        assert response.status == 200
        assert response.headers["etag"] == f'"{ask.nonce.hex()}"'
        assert response.headers["content-type"] == "application/octet-stream"
        assert Frame.from_bytes(response.body) == ask
        assert (await other.ask()).status == 204, "it is not asked"
        again = await device.ask(response.headers["etag"])
        assert again.body == response.body, "the gateway does not have its answer"
        sent = await device.put(learned(response.body))
        assert (sent.status, sent.body) == (204, b"")
        assert (await step).clients == (10,)
        assert (await device.put(learned(response.body))).status == 204, "the same again"
        late = await device.put(learned(response.body, weight=1.0))
        assert late.status == 410 and "is over" in content(late)["error"]

    requested(scene, tmp_path)


def test_the_body_of_an_answer_is_received_only_if_it_is_due(tmp_path):
    class Unread(Call):
        async def receive(self):
            raise AssertionError("the body is received")

    async def scene(here):
        device, other = await here.devices(2)
        for clients in ((), (11,)):
            ask = ask_of(clients=clients)
            step = await asking(here, ask) if clients else None
            request = device.requests.answer(learned(ask_of(clients=(10,)).to_bytes()))
            path = f"/v1/answers/0/{ask.nonce.hex()}"
            response = await Unread("PUT", path, dict(request.headers)).to(here.app)
            assert response.status == 410
        assert (await other.put(learned(here.gateway.step.ask_for(11)))).status == 204
        await step

    requested(scene, tmp_path)


def test_an_answer_is_signed_by_the_device(tmp_path):
    async def scene(here):
        victim, hostile = await here.devices(2)
        step = await asking(here, ask_of(clients=(10,)))
        frame = learned(here.gateway.step.ask_for(10))
        forged = hostile.requests.answer(frame)
        assert (await hostile.send(forged)).status == 410, "it is not asked"
        stolen = forged._replace(headers=victim.requests._token())
        response = await victim.send(stolen)
        assert response.status == 403 and "not this device's" in content(response)["error"]
        assert (await victim.put(frame)).status == 204
        assert (await step).clients == (10,)

    requested(scene, tmp_path)


def test_a_second_different_answer_is_a_conflict(tmp_path):
    async def scene(here):
        one, _ = await here.devices(2)
        step = await asking(here, ask_of(clients=(10, 11)))
        part = here.gateway.step.ask_for(10)
        assert (await one.put(learned(part))).status == 204
        assert (await one.put(learned(part))).status == 204
        other = await one.put(learned(part, update=(9.0, 9.0, 9.0)))
        assert other.status == 409 and "another answer" in content(other)["error"]
        step.cancel()

    requested(scene, tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda part: learned(part, update=(1.0,)),
        lambda part: learned(part, kind=Kind.WELCOME),
        lambda part: refused(part, payload=b"[]"),
    ],
)
def test_an_answer_that_no_device_can_have_made(tmp_path, make):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))
        response = await device.put(make(here.gateway.step.ask_for(10)))
        assert response.status == 422 and content(response)["error"]
        etag = f'"{here.gateway.step.nonce.hex()}"'
        assert (await device.ask(etag)).status == 204, "it would be refused again"
        assert (await device.put(learned(here.gateway.step.ask_for(10)))).status == 204
        await step

    requested(scene, tmp_path)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/answers/", bytes(200)),
        ("/v1/answers/0", bytes(200)),
        ("/v1/answers/x/" + "0" * 32, bytes(200)),
        ("/v1/answers/-1/" + "0" * 32, bytes(200)),
        ("/v1/answers/0/" + "0" * 31, bytes(200)),
        ("/v1/answers/0/" + "0" * 34, bytes(200)),
        ("/v1/answers/0/" + "z" * 32, bytes(200)),
        ("/v1/answers/0/" + "0" * 32 + "/x", bytes(200)),
        ("/v1/answers/0/\N{FULLWIDTH DIGIT ONE}" + "0" * 31, bytes(200)),
        ("/v1/answers/\N{SUPERSCRIPT TWO}/" + "0" * 32, bytes(200)),
        ("/v1/answers/0/NONCE", bytes(63)),
        ("/v1/answers/1/NONCE", bytes(200)),  # the frame is of round 0
    ],
)
def test_what_is_no_answer(tmp_path, path, body):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask := ask_of(clients=(10,)))
        headers, at = device.requests._token(), path.replace("NONCE", ask.nonce.hex())
        response = await Call("PUT", at, headers, body).to(here.app)
        assert response.status == 400, response
        step.cancel()

    requested(scene, tmp_path)


def test_a_body_that_is_too_large_is_not_kept(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask := ask_of(clients=(10,)))
        path, token = f"/v1/answers/0/{ask.nonce.hex()}", device.requests._token()
        for headers, parts in (
            ({"content-length": 100_000_000}, [b""]),
            ({}, [bytes(1000)] * 100),
            ({}, [bytes(1001)]),
            ({"content-length": "many"}, [b""]),
        ):
            call = Call("PUT", path, {**token, **headers}, *parts)
            response = await call.to(here.app)
            assert response.status == 413 and response.headers["connection"] == "close"
            assert "larger than 1000 bytes" in content(response)["error"]
            assert len(call.parts) >= len(parts) - 6, "the rest was not received"
        step.cancel()

    requested(scene, tmp_path, largest=1000)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "answers/0/1"), ("POST", "enrol"), ("GET", "ask"), ("X", "y")]
)
def test_a_body_needs_a_length(tmp_path, method, path):
    async def scene(here):
        call = Call(method, f"/v1/{path}", {"transfer-encoding": "chunked"}, b"x", b"y")
        response = await call.to(here.app)
        assert response.status == 411 and response.headers["connection"] == "close"
        assert len(call.parts) == 2, "nothing was read"

    requested(scene, tmp_path)


def test_a_device_sends_two_answers_at_a_time(tmp_path):
    """Its memory on the gateway is limited, however many connections it has."""

    async def scene(here):
        one, two = await here.devices(2)
        step, gate = await asking(here, ask := ask_of(clients=(10, 11))), asyncio.Event()

        class Slow(Call):
            async def receive(self):
                await gate.wait()
                return await super().receive()

        async def send(device):
            path = f"/v1/answers/0/{ask.nonce.hex()}"
            return await Slow("PUT", path, device.requests._token(), bytes(99)).to(here.app)

        sent = [asyncio.ensure_future(send(one)) for _ in range(5)]
        other = asyncio.ensure_future(send(two))
        await asyncio.sleep(0)
        gate.set()
        assert [(await each).status for each in sent] == [403, 403, 429, 429, 429]
        assert (await other).status == 403 and not here.app._sending
        assert (await send(one)).status == 403
        step.cancel()

    requested(scene, tmp_path)


@pytest.mark.parametrize("path", ["enrol", "session", "leave", "forget", "key"])
def test_other_requests_are_small(tmp_path, path):
    async def scene(here):
        response = await Call("POST", f"/v1/{path}", {}, bytes(4097)).to(here.app)
        assert response.status == 413

    requested(scene, tmp_path)


def test_when_the_disk_is_full_nothing_is_confirmed(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))

        def full(answers):
            raise Unusable("gateway.db cannot be used (database or disk is full)")

        keep, here.enrolment.keep = here.enrolment.keep, full
        frame = learned(here.gateway.step.ask_for(10))
        response = await device.put(frame)
        assert response.status == 507 and response.headers["retry-after"] == "30"
        assert "disk is full" in content(response)["error"]
        assert any("cannot be used" in text for text in here.told)
        assert not step.done() and not here.gateway.answers
        here.enrolment.keep = keep
        assert (await device.ask()).status == 200, "it is asked again"
        assert (await device.put(frame)).status == 204
        assert (await step).clients == (10,)

    requested(scene, tmp_path)


def test_back_pressure_when_too_many_answers_wait_for_the_disk(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))
        here.gateway.writer.most = 0
        frame = learned(here.gateway.step.ask_for(10))
        response = await device.put(frame)
        assert response.status == 503 and response.headers["retry-after"] == "5"
        here.gateway.writer.most = 9
        assert (await device.put(frame)).status == 204
        await step

    requested(scene, tmp_path)


def test_a_request_is_held_until_there_is_an_ask(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        held = asyncio.ensure_future(device.ask(wait=25))
        await until(lambda: here.gateway.presence.held)
        step = await asking(here, ask_of(clients=(10,)))
        response = await held
        assert response.status == 200
        await device.put(learned(response.body))
        await step

    requested(scene, tmp_path)


def test_who_cannot_be_held_is_told_when_to_come_back(tmp_path):
    """More requests than `held`: they get a Retry-After, and count as reachable until then."""

    async def scene(here):
        devices = await here.devices(5)
        held = [asyncio.ensure_future(device.ask(wait=25)) for device in devices[:4]]
        await until(lambda: here.gateway.presence.held >= 4)
        response = await devices[4].ask(wait=25)
        assert response.status == 204 and response.headers["retry-after"] == "60"
        assert here.gateway.presence.reachable(devices[4].client)
        here.gateway.presence.wake_all()
        for each in await asyncio.gather(*held):
            assert each.status == 204 and each.headers["retry-after"] == "0"

    requested(scene, tmp_path)


# --- limits on requests ---


def test_strangers_are_limited_by_address(tmp_path):
    async def scene(here):
        async def about(address):
            return await Call("GET", "/v1/about", address=address).to(here.app)

        assert [(await about("192.0.2.7")).status for _ in range(5)] == [200, 200, 200, 429, 429]
        assert (await about("192.0.2.8")).status == 200
        refused = await about("192.0.2.7")
        assert refused.headers["connection"] == "close"
        assert refused.headers["retry-after"] == "5"
        bad = Call("GET", "/v1/ask", {"authorization": "Foltr x"}, address="192.0.2.7")
        assert (await bad.to(here.app)).status == 429, "false tokens count"
        assert (await about(None)).status == 200

    requested(scene, tmp_path, strangers=Rates(1e-9, 3.0))


def test_devices_are_limited_by_themselves(tmp_path):
    async def scene(here):
        one, two = await here.devices(2)
        assert [(await one.ask()).status for _ in range(4)] == [204, 204, 204, 429]
        assert (await two.ask()).status == 204
        assert (await one.put(learned(ask_of(clients=(10,)).to_bytes()))).status == 429

    requested(scene, tmp_path, devices=Rates(1e-9, 3.0))


def test_revoked_devices_are_limited_too(tmp_path):
    """Their tokens are still valid, and a refusal costs as much as an answer."""

    async def scene(here):
        (device,) = await here.devices(1)
        await here.gateway.devices.set_standing({10: None}, Standing.REVOKED, tuple(Standing))
        assert [(await device.ask()).status for _ in range(5)] == [403, 403, 403, 429, 429]

    requested(scene, tmp_path, devices=Rates(1e-9, 3.0))


# --- what is no request ---


@pytest.mark.parametrize(
    "method", "GET HEAD OPTIONS POST PUT DELETE PATCH TRACE CONNECT X".split()
)
def test_every_path_and_method_has_a_response(tmp_path, method):
    async def scene(here):
        for path in [*PATHS, "", "x", "../v1/ask", "ask/", "ASK", "answers/1/2/3", "\x00", "é"]:
            for headers in ({}, {"authorization": "Foltr " + "0" * 56}):
                call = Call(method, f"/v1/{path}", headers, b"\x93\x00 no frame")
                status = (await call.to(here.app)).status
                allowed = (200,) if (method, path) == ("GET", "about") else ()
                assert status in (*allowed, 400, 401, 403, 404, 405), (path, status)
        assert not here.gateway.devices

    requested(scene, tmp_path)


def test_a_wrong_method_is_told(tmp_path):
    async def scene(here):
        response = await Call("GET", "/v1/enrol").to(here.app)
        assert response.status == 405 and "needs POST" in content(response)["error"]

    requested(scene, tmp_path)


def test_what_is_no_http_is_ignored(tmp_path):
    """Nothing is read, sent or counted."""

    async def scene(here):
        calls = []

        async def receive():
            calls.append("receive")

        async def send(message):
            calls.append(message)

        for kind in ("websocket", "lifespan"):
            await here.app({"type": kind}, receive, send)
        assert not calls and not here.app.statuses

    requested(scene, tmp_path)


def test_who_disconnects_in_the_middle_of_a_body_changes_nothing(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))
        request = device.requests.answer(learned(here.gateway.step.ask_for(10)))
        half = len(request.body) // 2
        call = Call("PUT", request.path, dict(request.headers), request.body[:half], ...)
        assert (await call.to(here.app)).status == 400
        assert not here.gateway.answers
        await device.send(request)
        await step

    requested(scene, tmp_path)


HEADERS = st.sampled_from(
    "authorization foltr-client foltr-time foltr-signature foltr-wait if-none-match"
    " content-length expect transfer-encoding".split()
)


def test_random_requests_never_raise(tmp_path):
    """Whatever is in headers and bodies, the response is a refusal, and nobody gets in."""

    @examples(150)
    @given(
        st.sampled_from("GET PUT POST DELETE".split()),
        st.one_of(st.sampled_from(PATHS), st.text(max_size=9)),
        st.dictionaries(HEADERS, st.text(st.characters(max_codepoint=255), max_size=40)),
        st.binary(max_size=99),
    )
    def any_request(method, path, headers, body):
        response = here.loop.run_until_complete(
            Call(method, f"/v1/{path}", headers, body).to(here.app)
        )
        good = method == "GET" and path == "about"
        good = good and "transfer-encoding" not in headers
        assert response.status == 200 if good else 400 <= response.status < 500

    here = Here(tmp_path)
    here.loop = asyncio.new_event_loop()
    here.loop.run_until_complete(here.start())
    any_request()
    here.loop.close()
    assert not here.enrolment.devices()


def test_no_more_is_received_than_an_answer_can_have(tmp_path):
    """An answer of three numbers has some two hundred bytes; a refusal may have some more."""

    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))
        part = here.gateway.step.ask_for(10)
        most = 64 + here.gateway.step.most
        path = device.requests.answer(learned(part)).path
        headers = {"authorization": f"Foltr {device.requests.token}"}
        for size, status in ((most + 1, 413), (most, 403)):
            large = {**headers, "content-length": str(size)}
            response = await Call("PUT", path, large, bytes(size)).to(here.app)
            assert response.status == status, response
        assert most < 20_000 < here.app.largest
        assert (await device.put(learned(part))).status == 204
        await step

    requested(scene, tmp_path)
