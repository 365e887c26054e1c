"""A device's side of the gateway, against a real one on a socket of this machine."""

import http.server
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")

from small_gateway import (
    AGREED,
    PARAMS,
    Here,
    Running,
    about_of,
    ask_of,
    later,
    learned,
    refused,
    rows,
)

from foltr.core.errors import Mistake
from foltr.deployment.gateway import client as module
from foltr.deployment.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.deployment.gateway.enrolment import Standing
from foltr.deployment.gateway.presence import Polling
from foltr.deployment.gateway.signing import Ed25519PrivateKey, Tokens
from foltr.deployment.protocol.frames import Frame, Kind, Malformed, Model, read_refusal
from foltr.secure_sum.terms import model_digest
from waiting import wait_until

POLLING = Polling(hold=0.2, max_held=9, poll=60.0, grace=0.5, back=0.0)


@pytest.fixture
def gateway(tmp_path):
    here = Here(tmp_path, polling=POLLING)
    here.now = time.time()
    with Running(here) as running:
        yield running


@pytest.fixture
def quick(monkeypatch):
    """No waiting between attempts."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.02)


def device_at(url, **more):
    key = Ed25519PrivateKey.generate()
    return GatewayClient(url, Requests(key, AGREED.id), wait=1, **more)


def joined(gateway, **more):
    device = device_at(gateway.url, **more)
    device.enrol(gateway.invitation())
    return device


async def passed(seconds):
    """In the gateway's loop: so much time has passed."""
    later(seconds)


class Serving:
    """Devices that answer asks in threads, until the end of the block."""

    def __init__(self, *devices, answer=learned):
        self.stop, self.errors = threading.Event(), []
        self.threads = [
            threading.Thread(target=self.serve, args=(device, answer)) for device in devices
        ]

    def serve(self, device, answer):
        try:
            device.serve(answer, self.stop)
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(20)


def present(gateway, many):
    wait_until(lambda: len(gateway.here.gateway.present()) == many)


def test_devices_enrol_and_answer_rounds(gateway):
    devices = [joined(gateway) for _ in range(3)]
    assert [device.requests.client for device in devices] == [10, 11, 12]
    told = devices[0].about()
    assert told["gateway_sees"] == "every update" and told["agreement"] == AGREED.text
    with Serving(*devices) as serving:
        present(gateway, 3)
        for t in range(4):
            assert rows(gateway.asked(ask_of(t=t))).keys() == {10, 11, 12}
    assert not serving.errors and gateway.here.gateway.counts["answers"] == 12


def test_an_invitation_that_is_none_is_told(gateway):
    with pytest.raises(Excluded, match="is unknown"):
        device_at(gateway.url).enrol("made up")
    with pytest.raises(Excluded, match="needs an invitation"):
        device_at(gateway.url).enrol(None)


def test_enrolling_again_gives_the_same_number(gateway):
    device = joined(gateway)
    assert device.enrol("lost")[0] == 10
    assert device.requests.token == "", "and no token"
    assert device.once(learned)[1] == 0.0 and device.requests.token


def test_a_token_that_has_expired_is_renewed(gateway):
    device = joined(gateway)
    bad = ("", "x", Tokens(b"x" * 32).token(10, time.time()))
    for token in bad:
        device.requests.token = token
        device.once(learned)
        assert device.requests.token not in bad


@pytest.mark.parametrize("ahead", [5000.0, -5000.0])
def test_a_wrong_clock_is_corrected(gateway, ahead):
    device = joined(gateway)
    device.requests.clock = lambda: time.time() + ahead
    device.requests.token = ""
    device.session()
    assert device.requests.token and abs(device.requests.clock() - time.time()) < 100
    device.requests.clock = lambda: time.time() + ahead
    new = Ed25519PrivateKey.generate()
    device.replace_key(new)
    device.requests.key, device.requests.clock = new, lambda: time.time() + ahead
    device.forget()
    assert gateway.here.gateway.devices[10].standing == Standing.TO_FORGET


def test_a_revoked_device_ends(gateway):
    device = joined(gateway)
    with Serving(device) as serving:
        present(gateway, 1)
        gateway.within(
            gateway.here.gateway.devices.set_standing(
                {10: None}, Standing.REVOKED, tuple(Standing)
            )
        ).result(20)
        wait_until(lambda: serving.errors)
    assert isinstance(serving.errors[0], Excluded) and "revoked" in str(serving.errors[0])


def test_a_device_that_is_too_old_ends_with_the_reason(gateway, monkeypatch):
    monkeypatch.setattr(module, "VERSION", 1)
    with Serving(joined(gateway)) as serving:
        wait_until(lambda: serving.errors)
    assert isinstance(serving.errors[0], Excluded)
    assert str(serving.errors[0]) == (
        "this device speaks version 1 of the protocol, and the gateway version 2: the device is"
        " older: update it"
    )


def test_leaving(gateway):
    device = joined(gateway)
    device.leave()
    with pytest.raises(Excluded):
        device.once(learned)


def test_a_device_that_is_forgotten_confirms_and_ends(gateway):
    device = joined(gateway)

    def answer(text):
        ask = Frame.from_bytes(text)
        assert ask.kind == Kind.FORGOTTEN
        return ask.answer(Kind.WELCOME, ask.clients, b"").to_bytes()

    device.forget()
    with Serving(device, answer=answer) as serving:
        assert gateway.asked(about_of(Kind.FORGOTTEN, (10,))).kind == Kind.WELCOME
        wait_until(lambda: serving.errors)
    assert isinstance(serving.errors[0], Excluded)
    assert gateway.here.gateway.devices[10].standing == Standing.GONE


def test_an_ask_that_is_too_large_is_refused_and_not_read(gateway):
    """With the reason, to the server; the device goes on."""
    told = []
    device = joined(gateway, tell=told.append)
    device.largest = 150
    other = joined(gateway)
    with Serving(device, other):
        present(gateway, 2)
        for t in range(2):
            ask = ask_of(clients=(10, 11), t=t)
            assert rows(gateway.asked(ask)).keys() == {11}
        answer = gateway.asked(ask_of(clients=(10,), t=2))
    size = len(ask_of(clients=(10,)).to_bytes())
    code, text = read_refusal(answer.payload)
    assert code == "size" and f"{size} bytes" in text and "accepts at most 150" in text
    assert gateway.here.gateway.counts["refused size"] == 3 and len(told) == 3


def test_an_answer_that_is_refused_is_told_and_not_repeated(gateway):
    told = []
    device = joined(gateway, tell=told.append)

    def lies(text):
        return learned(text, update=(1.0, 2.0))

    with Serving(device, answer=lies) as serving:
        present(gateway, 1)
        step = gateway.asking(ask_of(clients=(10,)), 60.0)
        wait_until(lambda: told)
        gateway.within(passed(60.0)).result(20)
        assert step.result(20).kind == Kind.REFUSED
    assert "refused: not a message of PDGD" in told[0] and len(told) == 1
    assert not serving.errors and gateway.here.app.statuses[422] == 1


def test_an_ask_of_a_later_version_is_told_and_the_device_goes_on(gateway, monkeypatch):
    monkeypatch.setattr(module, "LATER", 0.05)
    told = []
    device, first = joined(gateway, tell=told.append), []

    def older(text):
        if not first:
            first.append(text)
            raise Malformed("version 3 of the protocol, but this foltr speaks version 2")
        return learned(text)

    with Serving(device, answer=older) as serving:
        present(gateway, 1)
        assert rows(gateway.asked(ask_of(clients=(10,)))).keys() == {10}
    assert not serving.errors and "version 3 of the protocol" in told[0]


def test_a_gateway_that_is_away_is_tried_again(tmp_path, quick):
    here = Here(tmp_path, polling=POLLING)
    here.now = time.time()
    with Running(here) as first:
        device = joined(first)
    told = []
    device.tell = told.append
    with Serving(device) as serving:
        wait_until(lambda: told)
        again = Here(tmp_path, polling=POLLING)
        again.now = time.time()
        second = Running(again, greeted=False)
        device._port = second.port
        with second:
            present(second, 1)
            assert rows(second.asked(ask_of(clients=(10,)))).keys() == {10}
    assert not serving.errors and "no connection" in told[0] and "trying again" in told[0]


class Odd(http.server.BaseHTTPRequestHandler):
    """Something at the gateway's address that is none."""

    protocol_version = "HTTP/1.1"
    status, body, headers_ = 200, b"<html>", ()

    def do_GET(self):
        self.send_response(self.status)
        for name, value in self.headers_:
            self.send_header(name, value)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)
        self.close_connection = True  # the request's body was not read

    do_POST = do_PUT = do_GET

    def log_message(self, *given):
        pass


@pytest.fixture
def odd():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Now", (Odd,), {}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b"[]"),
        (201, b'{"client": "4"}'),
        (201, b'{"client": 4}'),
        (500, b""),
        (502, b"<html>"),
        (503, b"\xff"),
        (429, b""),
    ],
)
def test_what_does_not_respond_like_a_gateway_is_away(odd, status, body):
    odd.RequestHandlerClass.status, odd.RequestHandlerClass.body = status, body
    device = device_at(f"http://127.0.0.1:{odd.server_address[1]}")
    with pytest.raises(Unavailable):
        device.enrol("word")
    device.requests.client = 4
    odd.RequestHandlerClass.status = 200 if status == 201 else status
    with pytest.raises(Unavailable):
        device.session()


@pytest.mark.parametrize("body", [b'{"time": "soon"}', b'{"time": null}', b'{"time": [1]}', b""])
def test_a_time_that_is_none(odd, body):
    odd.RequestHandlerClass.status, odd.RequestHandlerClass.body = 401, body
    device = device_at(f"http://127.0.0.1:{odd.server_address[1]}")
    device.requests.client = 4
    with pytest.raises(Excluded):
        device.session()


def test_errors_of_a_gateway_are_printable(odd):
    now = odd.RequestHandlerClass
    now.status, now.body = 403, json.dumps({"error": "\x1b[2J" + "é" * 9999}).encode()
    device = device_at(f"http://127.0.0.1:{odd.server_address[1]}")
    with pytest.raises(Excluded) as refused:
        device.enrol("word")
    assert len(str(refused.value)) == 500 and "\x1b" not in str(refused.value)


@pytest.mark.parametrize(("told", "seconds"), [("7", 7.0), ("99999", 3600.0), ("x", 0.0)])
def test_when_to_come_back(odd, told, seconds):
    odd.RequestHandlerClass.status = 503
    odd.RequestHandlerClass.headers_ = (("retry-after", told),)
    device = device_at(f"http://127.0.0.1:{odd.server_address[1]}")
    with pytest.raises(Unavailable) as away:
        device.enrol("word")
    assert away.value.seconds == seconds


@pytest.mark.parametrize(
    "url",
    ["localhost:1", "ftp://localhost", "https://", "https://a/path", "http://gateway.example:1"],
)
def test_what_is_no_url_of_a_gateway(url):
    with pytest.raises(Mistake):
        device_at(url)


def test_a_connection_that_the_gateway_has_closed_is_opened_again(gateway):
    device = joined(gateway)
    device.about()

    async def close():
        for connection in list(gateway.here.app.connections._all):
            connection.transport.abort()

    gateway.within(close()).result(20)
    assert device.about()["ready"]


def test_a_device_learns_from_the_model_that_the_ask_names(gateway):
    device = joined(gateway)
    params = PARAMS + np.float32(1)
    given = {"model": model_digest(params), "payload": Model(params).to_bytes()}
    seen = []

    def answer(text):
        seen.append(Frame.from_bytes(text))
        return learned(text)

    with Serving(device, answer=answer):
        present(gateway, 1)
        ask = ask_of(clients=(10,), **given)
        gateway.asked(ask)
    assert seen == [replace(ask, clients=(10,))]


def test_a_device_whose_disk_is_full_wants_the_notice_again(gateway, monkeypatch):
    """It refuses that it is forgotten, because it cannot delete its records."""
    monkeypatch.setattr(module, "LATER", 0.0)
    device = joined(gateway)
    device.forget()
    assert gateway.asked(about_of(Kind.FORGOTTEN, (10,))).kind == Kind.WELCOME
    assert device.once(refused) == ("", 0.0)
    assert device.once(refused) == ("", 0.0), "it gets the notice again"
    assert gateway.here.gateway.devices[10].standing == Standing.FORGOTTEN

    def confirmed(notice):
        told = Frame.from_bytes(notice)
        return told.answer(Kind.WELCOME, told.clients, b"").to_bytes()

    device.once(confirmed)
    wait_until(lambda: gateway.here.gateway.devices[10].standing == Standing.GONE)


def test_the_connection_of_another_device_is_replaced(gateway, quick):
    """A proxy may have sent two devices over one connection."""
    one, other = joined(gateway), joined(gateway)
    one.call(one.requests.ask(wait=0))
    other._connection = one._connection
    with pytest.raises(Unavailable, match="another device"):
        other.once(learned)
    assert other._connection is None
    assert other.once(learned) == ("", 0.0)
