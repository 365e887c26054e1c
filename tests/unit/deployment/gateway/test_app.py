"""The requests of devices, every response of the gateway; without sockets."""

import json
from base64 import b64encode

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    NOW,
    PLACES,
    SUMS,
    Call,
    Device,
    ask_of,
    asking,
    content,
    learned,
    requested,
)

from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.gateway.signing import SKEW, TOKEN_SECONDS, Ed25519PrivateKey, Tokens
from foltr.deployment.protocol.frames import VERSION, Frame, Kind

# --- about ---


@pytest.mark.parametrize(
    ("agreement", "sees"), [(AGREED, "every update"), (SUMS, "masked updates")]
)
def test_about_says_what_the_gateway_sees(tmp_path, agreement, sees):
    async def scene(here):
        told = content(await Call("GET", "/v1/about").to(here.app))
        assert told["gateway_sees"].startswith(sees)
        assert told["agreement"] == agreement.text and told["version"] == VERSION
        assert told["federation"] == agreement.id.hex()
        assert told["ready"] is True and told["open_enrolment"] is False

    requested(scene, tmp_path, agreement=agreement)


# --- enrol ---


def test_enrolment_by_invitation(tmp_path):
    async def scene(here):
        device = Device(here)
        token = here.enrolment.invite(1, 1.0, NOW)
        response = await device.enrol(token)
        assert response.status == 201
        assert content(response)["client"] == 10 == device.client
        assert content(response)["agreement"] == AGREED.text
        assert "token" in content(response)
        other = await Device(here).enrol(token)
        assert other.status == 403 and "has been used" in content(other)["error"]
        assert here.gateway.devices.active(10)

    requested(scene, tmp_path)


def test_who_repeats_an_enrolment_gets_the_number_and_no_token(tmp_path):
    """Another gateway at which the device enrols sees the same request."""

    async def scene(here):
        device = Device(here)
        request = device.requests.enrol(here.enrolment.invite(1, 1.0, NOW))
        assert (await device.send(request)).status == 201
        for _ in range(2):
            again = await device.send(request)
            assert again.status == 200 and content(again)["client"] == 10
            assert "token" not in content(again)
        assert list(here.gateway.devices) == [10]

    requested(scene, tmp_path)


def test_open_enrolment_must_be_asked_for(tmp_path):
    async def scene(here):
        response = await Device(here).enrol()
        assert response.status == 403
        assert "needs an invitation" in content(response)["error"]
        here.app.open_enrolment = True
        assert [(await Device(here).enrol()).status for _ in range(PLACES)] == [201] * PLACES
        full = await Device(here).enrol()
        assert full.status == 409 and "places" in content(full)["error"]

    requested(scene, tmp_path)


def test_nobody_enrols_before_the_server_was_reached(tmp_path):
    async def scene(here):
        token = here.enrolment.invite(1, 1.0, NOW)
        response = await Device(here).enrol(token)
        assert response.status == 503 and response.headers["retry-after"] == "5"
        assert here.enrolment.invitations(NOW) == (1, 1)
        assert content(await Call("GET", "/v1/about").to(here.app))["ready"] is False

    requested(scene, tmp_path, greeted=False)


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = b64encode(KEY.public_key().public_bytes_raw()).decode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff", 400),
        (b"[]", 400),
        (b"[" * 4000, 400),
        (b"{}", 400),
        (b'{"key": 7, "signature": 7}', 400),
        (json.dumps({"key": PUBLIC}).encode(), 400),
        (json.dumps({"key": PUBLIC, "signature": "AA=="}).encode(), 400),
        (json.dumps({"key": PUBLIC[:-4], "signature": b64encode(bytes(64)).decode()}), 400),
        (json.dumps({"key": PUBLIC, "signature": b64encode(bytes(64)).decode()}), 403),
        (json.dumps({"key": PUBLIC, "signature": b64encode(KEY.sign(b"x")).decode()}), 403),
    ],
)
def test_what_is_no_enrolment(tmp_path, body, status):
    async def scene(here):
        text = body.encode() if isinstance(body, str) else body
        response = await Call("POST", "/v1/enrol", {}, text).to(here.app)
        assert response.status == status and content(response)["error"]
        assert not here.gateway.devices

    requested(scene, tmp_path, open_enrolment=True)


def test_an_invitation_must_be_text(tmp_path):
    async def scene(here):
        request = Device(here).requests.enrol(None)
        body = json.dumps({**json.loads(request.body), "invitation": 7}).encode()
        response = await Call("POST", "/v1/enrol", {}, body).to(here.app)
        assert response.status == 400 and "must be text" in content(response)["error"]

    requested(scene, tmp_path)


@pytest.mark.parametrize("invitation", ["\ud800", "wörter"])
def test_an_invitation_that_nobody_made(tmp_path, invitation):
    async def scene(here):
        assert (await Device(here).enrol(invitation)).status == 400
        assert not here.told

    requested(scene, tmp_path)


def test_a_request_that_finds_a_mistake_in_foltr_is_told_once(tmp_path, monkeypatch):
    async def scene(here):
        monkeypatch.setattr(here.app, "_about", lambda: 1 / 0)
        for _ in range(3):
            response = await Call("GET", "/v1/about").to(here.app)
            assert response.status == 500 and "failed" in content(response)["error"]
        (told,) = here.told
        assert "ZeroDivisionError" in told

    requested(scene, tmp_path)


def test_a_connection_belongs_to_one_device(tmp_path):
    class Connection:
        device = 10

    async def scene(here):
        one, two = await here.devices(2)
        assert (await one.ask(connection=Connection())).status == 204
        response = await two.ask(connection=Connection())
        assert response.status == 421 and "another device" in content(response)["error"]
        assert response.headers["connection"] == "close", "the device opens another one"

    requested(scene, tmp_path)


def test_a_key_for_another_federation_is_refused_and_told(tmp_path):
    async def scene(here):
        device = Device(here)
        device.requests.federation = b"g" * 16
        response = await device.enrol()
        assert response.status == 403
        assert content(response)["federation"] == AGREED.id.hex()

    requested(scene, tmp_path, open_enrolment=True)


# --- tokens and signatures ---


def test_a_token_is_needed_to_ask_and_to_answer(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        strange = Tokens(b"x" * 32).token(10, NOW)
        old = here.tokens.token(10, NOW - TOKEN_SECONDS - 1)
        for token in ("", "x", strange, old, device.requests.token[:-1], "é"):
            device.requests.token = token
            for request in (device.requests.ask(), device.requests.model()):
                response = await device.send(request)
                assert response.status == 401 and "needs a token" in content(response)["error"]
            answer = await device.put(learned(ask_of(clients=(10,)).to_bytes()))
            assert answer.status == 401
        plain = await Call("GET", "/v1/ask", {"authorization": here.tokens.token(10, NOW)}).to(
            here.app
        )
        assert plain.status == 401, "the scheme is part of the header"

    requested(scene, tmp_path)


def test_a_token_of_a_client_that_never_enrolled_opens_nothing(tmp_path):
    async def scene(here):
        device = Device(here, client=14)
        device.requests.token = here.tokens.token(14, NOW)
        assert (await device.ask()).status == 403

    requested(scene, tmp_path)


@pytest.mark.parametrize("path", ["session", "leave", "forget", "key"])
def test_signed_requests_need_the_device_s_signature(tmp_path, path):
    async def scene(here):
        victim, hostile = await here.devices(2)
        name = f"/v1/{path}"
        hostile.requests.client = victim.client
        for request in (
            hostile.requests._signed(name),  # signed by another key
            victim.requests._signed("/v1/other"),
            victim.requests._signed(name, b"other body"),
        ):
            response = await Call("POST", name, dict(request.headers)).to(here.app)
            assert response.status == 403
            assert "not this device's" in content(response)["error"]
        assert here.gateway.devices[victim.client].standing == Standing.ACTIVE

    requested(scene, tmp_path)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"foltr-client": None}, 400),
        ({"foltr-client": "-1"}, 400),
        ({"foltr-client": "9" * 24}, 403),
        ({"foltr-client": "14"}, 403),
        ({"foltr-time": None}, 400),
        ({"foltr-time": "soon"}, 400),
        ({"foltr-time": "1" * 24}, 401),
        ({"foltr-signature": None}, 400),
        ({"foltr-signature": "é"}, 400),
        ({"foltr-signature": "A" * 9999}, 400),
    ],
)
def test_headers_of_signed_requests(tmp_path, changes, status):
    async def scene(here):
        (device,) = await here.devices(1)
        request = device.requests.session()
        headers = {**request.headers, **changes}
        headers = {name: value for name, value in headers.items() if value is not None}
        response = await Call("POST", request.path, headers).to(here.app)
        assert response.status == status, content(response)

    requested(scene, tmp_path)


@pytest.mark.parametrize("ahead", [SKEW + 1, -SKEW - 1])
def test_a_wrong_clock_is_told_the_time(tmp_path, ahead):
    async def scene(here):
        (device,) = await here.devices(1)
        device.requests.clock = lambda: here.now + ahead
        response = await device.session()
        assert response.status == 401 and content(response)["time"] == round(1000 * NOW)
        device.requests.clock = lambda: here.now + 0.99 * ahead
        assert (await device.session()).status == 200

    requested(scene, tmp_path)


def test_a_signed_request_cannot_be_used_later(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        request = device.requests.forget()
        here.now += SKEW + 1
        assert (await device.send(request)).status == 401
        assert here.gateway.devices[10].standing == Standing.ACTIVE

    requested(scene, tmp_path)


# --- the model ---


def test_the_current_model(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        assert (await device.send(device.requests.model())).status == 204
        step = await asking(here, ask := ask_of(clients=(10,)))
        await device.put(learned(here.gateway.step.ask_for(10)))
        await step
        response = await device.send(device.requests.model())
        assert response.status == 200
        frame = Frame.from_bytes(response.body)
        assert (frame.kind, frame.model, frame.payload) == (Kind.LEARN, ask.model, ask.payload)
        same = await device.send(device.requests.model(response.headers["etag"]))
        assert (same.status, same.body) == (304, b"")
        assert (await device.send(device.requests.model('"other"'))).status == 200

    requested(scene, tmp_path)


# --- leaving ---


def test_leaving_and_being_forgotten(tmp_path):
    async def scene(here):
        one, two = await here.devices(2)
        response = await one.send(one.requests.leave())
        assert response.status == 200 and content(response)["standing"] == "left"
        assert (await one.ask()).status == 403
        assert (await one.send(one.requests.leave())).status == 200
        for _ in range(2):
            response = await two.send(two.requests.forget())
            assert response.status == 202 and content(response)["standing"] == "to be forgotten"
        assert (await two.ask()).status == 204
        states = {d.client: d.standing for d in here.enrolment.devices().values()}
        assert states == {10: Standing.LEFT, 11: Standing.TO_FORGET}
        response = await one.send(one.requests.forget())  # later it wants that, too
        assert response.status == 202 and content(response)["standing"] == "to be forgotten"

    requested(scene, tmp_path)


def test_a_key_is_replaced(tmp_path):
    async def scene(here):
        one, two = await here.devices(2)
        new = Ed25519PrivateKey.generate()
        assert (await one.send(one.requests.new_key(two.requests.key))).status == 409
        assert (await one.send(one.requests.new_key(new))).status == 200
        assert (await one.session()).status == 403, "the old key is no longer its own"
        one.requests.key = new
        assert (await one.session()).status == 200
        step = await asking(here, ask_of(clients=(10,)))
        assert (await one.put(learned(here.gateway.step.ask_for(10)))).status == 204
        await step

    requested(scene, tmp_path)


@pytest.mark.parametrize("change", [{"key": 7}, {"signature": "AA=="}, {"signature": None}])
def test_what_is_no_new_key(tmp_path, change):
    async def scene(here):
        (device,) = await here.devices(1)
        whole = json.loads(device.requests.new_key(Ed25519PrivateKey.generate()).body)
        request = device.requests._signed("/v1/key", json.dumps({**whole, **change}).encode())
        assert (await device.send(request)).status == 400
        foreign = json.loads(device.requests.new_key(Ed25519PrivateKey.generate()).body)
        mixed = {**whole, "signature": foreign["signature"]}
        request = device.requests._signed("/v1/key", json.dumps(mixed).encode())
        response = await device.send(request)
        assert response.status == 403 and "not of this key" in content(response)["error"]

    requested(scene, tmp_path)


def test_a_revoked_device_is_shut_out_of_everything(tmp_path):
    async def scene(here):
        (device,) = await here.devices(1)
        step = await asking(here, ask_of(clients=(10,)))
        frame = learned(here.gateway.step.ask_for(10))
        here.enrolment.revoke(10)
        here.gateway.devices._use(here.enrolment.devices())
        make = device.requests
        for request in (
            make.ask(),
            make.model(),
            make.answer(frame),
            make.session(),
            make.leave(),
            make.forget(),
            make.new_key(Ed25519PrivateKey.generate()),
            make.enrol(here.enrolment.invite(1, 1.0, NOW)),
        ):
            response = await device.send(request)
            assert response.status == 403 and "revoked" in content(response)["error"]
        assert (await step).kind == Kind.REFUSED

    requested(scene, tmp_path)
