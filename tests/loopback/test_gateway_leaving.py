"""Devices that are revoked, leave or want to be forgotten, at real gateways."""

import time

import numpy as np
import pytest
from in_process import rounds_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import HOSTILE, Member, Members, deployed, experiment, honest, same
from faulty import without
from test_faults_leaving import found_in, start_of

from federation_in_process import InProcess
from foltr.core.system.process import Threads
from foltr.deployment.gateway.client import Requests
from foltr.deployment.gateway.process import revoke_device
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.protocol import exchange
from foltr.deployment.protocol.frames import Frame, Kind, Welcome, write_ids
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.setup import population_of

pytestmark = pytest.mark.usefixtures("modules")


def last_device(members):
    """An honest device that the test can end, client 12, which the next round will ask."""
    device = members.member()
    assert device.client == HOSTILE
    device.serve()
    time.sleep(1.5)  # the server asks after a second who is there
    return device


@pytest.mark.faults
@pytest.mark.parametrize("how", ["revoked", "leaves"])
def test_a_device_is_revoked_or_leaves(tmp_path, how):
    """In the middle of a round that it has not answered: it is not waited for."""
    e = experiment(rounds=7)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 4)
        keeper.at(1)
        device = last_device(members)
        device.gates |= {4}
        keeper.open(1)
        keeper.at(4)
        device.at(4)
        if how == "revoked":
            revoke_device(here.folder / "gateway-0.toml", Code(()), HOSTILE)
            time.sleep(2.0)
        else:
            assert device.call(device.requests.leave()).status in (200, 403)
        device.open(4)
        here.wait(lambda: device.error is not None, 30, "the end of the device")
        assert device.error.status == 403
        keeper.open(4)
        here.wait_done()
        assert here.answered() == [12, 12, 13, 13, 12, 12, 12], here.everything()
        gone = {t: [HOSTILE] for t in (0, 1, 4, 5, 6)}
        same(here, without(e, gone))
        out = Requests(device.requests.key, members.agreed.id, HOSTILE)
        assert here.devices()[HOSTILE].standing == {"leaves": "left"}.get(how, how)
        assert device.call(out.enrol(here.invite(0, 1)[0])).status == 403


@pytest.mark.loopback
def test_a_device_is_forgotten(tmp_path, monkeypatch):
    """It asks its gateway; the server unlearns it with the norms of the others, and nothing of
    what it contributed is left."""
    e = experiment(rounds=20, history=2)
    server = {"training_rounds": 14}
    with deployed(tmp_path / "here", e, **server) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 5, 9)
        keeper.at(1)
        device = last_device(members)
        device.made.forgotten = lambda: device.told.append("forgotten")
        keeper.open(1)
        keeper.at(5)
        device.made.forget_me()
        assert device.call(device.requests.forget()).status in (200, 202)
        models = {t: here.model(t) for t in range(1, 6)}
        state = here.folder / "state"
        assert {t for _, t, _ in found_in(state, models)} == set(models)  # it finds what is there
        time.sleep(exchange.FRESH + 0.5)  # the server asks again who can be reached
        keeper.open(5)
        here.wait_logged("server", "forgetting 1 device", 60)
        keeper.open(9)
        here.wait(lambda: "forgotten" in device.told, 60, "the notice")
        here.wait_done()
        assert "stored rounds are repeated without them" in here.log("server")
        assert here.devices()[HOSTILE].standing == "gone" and device.error.status == 403
        assert not found_in(state, models)
        about = here.state.forgotten
        assert about.clients == (HOSTILE,) and not about.pending_clients
        told = here.answered()
        assert told[:5] == [12, 12, 13, 13, 13] and set(told[6:]) == {12}, here.everything()
        before, _, _ = here.log("server").partition("forgetting 1 device")
        first = before.count("clients answered")  # round of unlearning
        monkeypatch.setattr(exchange, "FRESH", 0.0)
        same(here, in_process(here, e, tmp_path / "again", told, first))


def in_process(here, e, folder, answered, first):
    """The same rounds without a network: a gateway whose client 12 comes and goes as it did, and
    wants to be forgotten before round `first`."""
    _, table = read_server(here.folder / "server.toml", Code())
    p, params = population_of(e, e.data.load("train")), start_of(e)
    engine = InProcess(nodes=1)(e, p, params, Threads(1), e.seed)
    (node,) = engine.reachable()
    honest_answer, next_one = engine.grid.nodes[node], [0]

    def answer(text):
        ask = Frame.from_bytes(text)
        if ask.kind == Kind.HELLO:
            honest_answer(text)
            return ask.answer(Kind.WELCOME, ask.clients, Welcome(roll=True).to_bytes()).to_bytes()
        if ask.kind == Kind.ROLL:
            t = next_one[0]
            there = tuple(range(HOSTILE + (t < len(answered) and answered[t] == 13)))
            wish = np.array([HOSTILE] if t >= first else [], np.int64)
            return ask.answer(Kind.PRESENT, there, write_ids(wish)).to_bytes()
        if ask.kind == Kind.FORGOTTEN:
            return ask.answer(Kind.WELCOME, ask.clients, b"").to_bytes()
        next_one[0] = ask.round + 1
        return honest_answer(text)

    engine.grid.nodes[node] = answer
    folder.mkdir()
    (folder / "roster.toml").write_text((here.folder / "roster.toml").read_text())
    rounds = rounds_of(engine, folder, table)
    return rounds.run(rounds.start()).params


@pytest.mark.faults
def test_one_device_at_two_gateways(tmp_path):
    """Its number, its token and its signatures are worth nothing at the other gateway; with an
    invitation of the other gateway, its key is another device there."""
    e = experiment(clients=26, rounds=6)
    with deployed(tmp_path, e, 2, fewest=25) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 3)
        keeper.at(1)
        device = members.member()
        assert device.client == HOSTILE
        own = device.requests
        elsewhere = members_at(members, 1, own.key, HOSTILE, own.token)
        for request, told in (
            (elsewhere.requests.ask("", 0), 401),
            (elsewhere.requests.session(), 403),
            (elsewhere.requests.leave(), 403),
            (elsewhere.requests.forget(), 403),
            (elsewhere.requests.enrol(here.invitations(0)[-1]), 403),
            (elsewhere.requests.new_key(Ed25519PrivateKey.generate()), 403),
        ):
            response = elsewhere.call(request)
            assert response.status == told, response
        stranger = members_at(members, 1, Ed25519PrivateKey.generate(), 13, "")  # of gateway 1
        assert stranger.call(stranger.requests.session()).status == 403
        full = elsewhere.call(elsewhere.requests.enrol(here.invite(1, 1)[0]))
        assert full.status == 409, "gateway 1 has no place left"
        for each in (device, elsewhere, stranger):
            each.close()
        keeper.open(1)
        keeper.at(3)
        keeper.open(3)
        here.wait_done()
        assert here.answered() == [25] * 6
        same(here, honest(e))
        assert sorted(here.devices(1)) == list(range(13, 26))


def members_at(members, i, key, client, token):
    found = Member(members, i)
    found.requests = found.device.requests = Requests(key, members.agreed.id, client, token)
    return found
