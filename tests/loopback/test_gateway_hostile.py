"""Devices that lie, replay, answer for others, flood and crawl: nobody gets in, the others go on,
and the result is that of a run in which the hostile device never existed."""

import asyncio
import json
import resource
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import (
    HOSTILE,
    KEEPER,
    Member,
    Members,
    deployed,
    experiment,
    honest,
    only_honest,
    same,
    usage,
)
from faulty_federation import Reference
from hostile_devices import (
    LIES,
    ODD,
    SUM_LIES,
    dripping,
    ended,
    everything,
    flood,
    frame_of,
    hung_up,
    put,
    raced,
    said,
    signed,
    silent,
    unread,
)

from foltr.deployment.gateway.client import Request
from foltr.deployment.gateway.signing import Tokens

pytestmark = pytest.mark.usefixtures("modules")
MB = 1_000_000


def status(response):
    return int(response.split(b" ", 2)[1]) if response.startswith(b"HTTP/1.1 ") else 0


def asked(here, device):
    """The hostile device's ask."""
    response = device.call(device.requests.ask("", 5))
    assert response.status == 200, here.everything()
    return frame_of(response)


def finished(here, e, keeper, *gates):
    """The rounds end, as if nothing had happened."""
    keeper.open(*gates)
    here.wait_done(120)
    only_honest(here)
    same(here, honest(e))
    active = {d.client for d in here.devices().values() if d.standing == "active"}
    assert active <= set(range(HOSTILE + 1))


@pytest.mark.loopback
def test_lies_replays_and_answers_for_others(tmp_path):
    e = experiment(rounds=5)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 2)
        keeper.at(1)
        hostile = the_winner(here, members)
        keeper.open(1)
        keeper.at(2)
        ask, own, token = asked(here, hostile), hostile.requests.key, hostile.requests.token
        assert ask.clients == (HOSTILE,) and ask.round == 2
        for name, lie in LIES.items():
            answer = hostile.call(put(ask, lie(ask), own, token))
            assert answer.status in (400, 413, 422), (name, answer)
        stolen = keeper.made.answer(replace(ask, clients=(KEEPER,)).to_bytes())
        for request, told in (
            (put(ask, stolen, own, token), 422),  # for another, as itself
            (put(ask, stolen, own, keeper.requests.token), 421),  # with another's token
            (put(ask, stolen, own, Tokens(bytes(32)).token(KEEPER, 2e9)), 401),  # a false token
            (put(ask, stolen, keeper.requests.key, token), 403),  # word for word
            (put(replace(ask, nonce=bytes(16)), stolen, keeper.requests.key, token), 410),
            (put(replace(ask, round=1), stolen, keeper.requests.key, token), 400),
        ):
            assert hostile.call(request).status == told
        for request in (keeper.requests.leave(), keeper.requests.forget()):
            forged = b64encode(signed(own, request.path.encode())).decode()
            headers = {**request.headers, "foltr-signature": forged}
            assert hostile.call(Request("POST", request.path, headers)).status == 403
        hostile.close()
        finished(here, e, keeper, 2)
        assert here.devices()[KEEPER].standing == "active"


def the_winner(here, members):
    """Of twenty devices that enrol with one invitation at the same moment, the one that got in."""
    given = here.ports[0], members.tls, members.agreed.id, here.invitations()[-1], 20
    found = members.do(raced(*given))
    won = [requests for requests, response in found if response.status == 201]
    assert len(won) == 1 and {r.status for _, r in found} == {201, 403}
    assert len(here.devices()) == HOSTILE + 1, "one invitation is one device"
    hostile = Member(members, 0)
    hostile.requests = hostile.device.requests = won[0]
    hostile.requests.client = HOSTILE
    token = hostile.call(hostile.requests.session())
    hostile.requests.token = json.loads(token.body)["token"]
    there(hostile)
    return hostile


def there(hostile):
    """The next round will ask this device: the server knows of it after a second."""
    for _ in range(2):
        assert hostile.call(hostile.requests.ask("", 1)).status == 204


@pytest.mark.faults
def test_lies_in_a_secure_sum(tmp_path):
    """In every step: the others' messages are passed on, and the sum is theirs."""
    e = experiment(rounds=4, channel="SecureSum()")
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        gates = [(t, step) for t in (1, 2) for step in range(4)]
        keeper = members.keeper(*gates)
        keeper.at((1, 0))
        hostile = members.member()
        there(hostile)
        for t, step in gates:
            keeper.at((t, step))
            response = hostile.call(hostile.requests.ask("", 0))
            if response.status == 200:  # it is asked from the round after it has joined
                ask = frame_of(response)
                for name, lie in SUM_LIES.items():
                    request = put(ask, lie(ask), hostile.requests.key, hostile.requests.token)
                    answer = hostile.call(request)
                    assert answer.status in (400, 413, 422), (name, answer)
                hostile.close()
            keeper.open((t, step))
        here.wait_done(120)
        only_honest(here)
        one_round = Reference(e)
        for t in range(e.rounds):
            expected = one_round.after(here.model(t), t, range(HOSTILE))
            assert np.array_equal(here.model(t + 1), expected), here.everything()


@pytest.mark.loopback
def test_floods_and_crowds(tmp_path):
    """A hundred megabytes, connections that say nothing, odd requests: in a few seconds."""
    e = experiment(rounds=4)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(2)
        keeper.at(2)
        hostile, port, tls = members.member(), here.ports[0], members.tls
        before = usage(here.processes["gateway-0"])
        hundred(members, hostile, port, tls)
        for name, (text, told) in ODD.items():
            assert told in members.do(said(port, tls, text))[:20], name
        crowd = members.do(silent(port, 300))
        crowd += members.do(silent(port, 100, tls))
        token = token_line(hostile)
        own = members.do(silent(port, 20, tls, b"GET /v1/model HTTP/1.1\r\n" + token))
        assert members.do(ended(own, 2.0)) == 16, "a device has four connections"
        after = usage(here.processes["gateway-0"])
        assert after[0] - before[0] < 60 * MB, (before, after)
        finished(here, e, keeper, 2)
        members.do(hung_up([*crowd, *own]))
        lines = here.log("gateway-0").splitlines()
        assert len(lines) < 30, "strangers cannot fill the log"


def token_line(hostile):
    return b"authorization: Foltr " + hostile.requests.token.encode() + b"\r\n\r\n"


def hundred(members, hostile, port, tls):
    """A hundred megabytes, stated, not stated, and more than stated."""
    path = b"/v1/answers/2/" + b"0" * 32
    for head, told in (  # 0: the connection was cut before the response was read
        (b"PUT " + path + b" HTTP/1.1\r\ncontent-length: 100000000\r\n", (413, 0)),
        (b"PUT " + path + b" HTTP/1.1\r\ntransfer-encoding: chunked\r\n", (400, 411, 0)),
        (b"POST /v1/enrol HTTP/1.1\r\ncontent-length: 100000000\r\n", (413, 0)),
        (b"PUT " + path + b" HTTP/1.1\r\ncontent-length: 100\r\n", (400, 410, 0)),
        (b"GET /v1/model HTTP/1.1\r\ncontent-length: 100000000\r\n", (200, 0)),
    ):
        answer, sent = members.do(flood(port, tls, head + token_line(hostile), 100 * MB))
        assert status(answer) in told, (head, answer)
        assert sent < 20 * MB or 200 in told, (head, sent)


@pytest.mark.faults
@pytest.mark.parametrize("what", ["before TLS", "after TLS", "after a token", "few files"])
def test_five_thousand_connections_that_say_nothing(tmp_path, what):
    """Rounds go on while they are there, new devices get in, and nothing is left of them."""
    e = experiment(rounds=6)
    deadline = 60.0 if what == "after a token" else 240.0  # for a device that does not answer
    with deployed(tmp_path, e, deadline=deadline) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 2, 3, 4)
        keeper.at(1)
        gateway, port = here.processes["gateway-0"], here.ports[0]
        hostile = members.member() if what == "after a token" else None
        if what == "few files":
            resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (400, 400))
        before = usage(gateway)
        first = b"GET /v1/model HTTP/1.1\r\n" + token_line(hostile) if hostile else b""
        tls = None if what in ("before TLS", "few files") else members.tls
        crowd = members.do(silent(port, 5000, tls, first), 280)
        keeper.open(1)
        keeper.at(2, 120)
        if hostile is None and what != "few files":
            hostile = members.member()  # while they are there
        during = usage(gateway)
        assert during[0] - before[0] < 500 * MB, (before, during)
        keeper.open(2)
        keeper.at(3, 120)
        members.do(ended(crowd, 30.0))
        after = usage(gateway)
        assert after[2] < before[2] + 20, (before, after)
        members.do(hung_up(crowd))
        keeper.open(3)
        keeper.at(4, 120)
        if hostile is None:
            hostile = members.member()
        hostile.close()
        finished(here, e, keeper, 4)


@pytest.mark.faults
def test_one_byte_a_second(tmp_path):
    """Headers, bodies and responses that crawl are cut, with and without a token."""
    e = experiment(rounds=5)
    with deployed(tmp_path, e, deadline=120.0) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 3)
        keeper.at(1)
        hostile, port, tls = members.member(), here.ports[0], members.tls
        line = token_line(hostile)
        path = b"PUT /v1/answers/1/" + b"0" * 32 + b" HTTP/1.1\r\ncontent-length: 5000\r\n"
        model = b"GET /v1/model HTTP/1.1\r\n" + line

        async def all_at_once():
            return await asyncio.gather(
                dripping(port, tls, b"GET /v1/about HTTP/1.1\r\nx: " + b"y" * 200),
                dripping(port, tls, bytes(200), path + line),
                dripping(port, None, b"\x16\x03\x01" + bytes(200)),
            )

        stranger, device, handshake = members.do(all_at_once(), 120)
        assert 8 < stranger < 20 and handshake < 20, "10 s for strangers, 8 s for a handshake"
        assert 18 < device < 40, "20 s for a request"
        stuck = [members.do(unread(port, tls, model, 2000)) for _ in range(3)]
        keeper.open(1)
        keeper.at(3)
        hostile.close()
        finished(here, e, keeper, 3)
        members.do(hung_up(stuck))


@pytest.mark.faults
def test_a_device_that_is_too_often_there(tmp_path):
    """It asks without end, pipelines, and sends answers to asks that are none: it is limited, and
    others are not."""
    e = experiment(rounds=5)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 3)
        keeper.at(1)
        hostile, port, tls = members.member(), here.ports[0], members.tls
        text = b"GET /v1/model HTTP/1.1\r\nhost: x\r\n" + token_line(hostile)
        answer = members.do(everything(port, tls, text * 5000))
        assert answer.count(b"HTTP/1.1 429") == 1, "and then it is closed"
        assert 100 <= answer.count(b"HTTP/1.1 200") < 1000
        assert keeper.call(keeper.requests.model()).status == 200
        hostile.close()
        keeper.open(1)
        keeper.at(3)
        finished(here, e, keeper, 3)
