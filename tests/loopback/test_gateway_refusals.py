"""What a gateway, its operator and its devices are told: wrong files, expired certificates, a full
disk, a model that is too large."""

import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import HOSTILE, KEEPER, Members, deployed, experiment, honest, same, stored
from link_federation import certificates
from test_faults_machines import fill, small_disk

from foltr.core.errors import Mistake
from foltr.deployment.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import make_node, make_server

pytestmark = pytest.mark.usefixtures("modules")


def foltr(here, *words):
    command = [sys.executable, "-m", "foltr", *words]
    done = subprocess.run(command, cwd=here.folder, capture_output=True, text=True, timeout=90)
    return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())


def variant(here, name, **changes):
    """The settings of gateway 0 with changes, in a file of its own."""
    (here.folder / f"{name}.toml").write_text((here.folder / "gateway-0.toml").read_text())
    here.change(name, **changes)
    return f"{name}.toml"


@pytest.mark.faults
def test_mistakes_of_an_operator(tmp_path):
    """One line, code 2, no traceback, and the gateway that runs does not notice."""
    e = experiment(rounds=4)
    with deployed(tmp_path, e, deadline=200.0) as here, Members(here.begin()) as members:
        keeper = members.keeper(1)
        keeper.at(1)
        expired = certificates(here.folder, "expired", (-30, -1))
        early = certificates(here.folder, "early", (5, 30))
        free = {"state": "other"}
        cases = {
            "second": ({}, "another process uses state-0"),
            "port": (free, f"cannot listen on 127.0.0.1:{here.ports[0]}"),
            "expired": (free | pair(expired), "expired.certificate expired on"),
            "early": (free | pair(early), "is not valid before"),
            "mixed": (free | pair({**expired, "key": early["key"]}), "certificate"),
            "nothing": (free | {"certificate": "missing.pem"}, "missing.pem"),
            "agreement": ({"rounds": 9, "state": "state-0"}, "another federation"),
            "rate": (free | {"rate": 0.0}, "rate must be > 0"),
            "key": (free | {"polll": 5}, "did you mean 'poll'"),
            "keys": (free | {"keys": "nowhere", "listen": "127.0.0.1:0"}, "nowhere"),
        }
        for name, (changes, told) in cases.items():
            if name == "agreement":  # the gateway that runs has the lock of this folder
                code, said = foltr(here, "gateway", variant(here, name, **changes), "--devices")
            else:
                code, said = foltr(here, "gateway", variant(here, name, **changes))
            assert code == 2 and told in said and "Traceback" not in said, (name, said)
        for words, told in (
            (("--invite", "0"), "expected at least one device"),
            (("--invite", "5", "--each", "9"), "expected 1 to 5"),
            (("--invite", "5", "--days", "0"), "days must be in"),
            (("--revoke", "99"), "no device has the client number 99"),
            (("--revoke", "1", "--devices"), "give one of"),
        ):
            code, said = foltr(here, "gateway", "gateway-0.toml", *words)
            assert code == 2 and told in said and "Traceback" not in said, (words, said)
        code, said = foltr(here, "gateway", "gateway-0.toml", "--devices")
        assert code == 0 and "active 12" in said and "open invitations" in said
        code, said = foltr(here, "serve", "gateway-0.toml")
        assert code == 2 and "is the file of a gateway" in said
        keeper.open(1)
        here.wait_done()
        assert here.answered() == [12] * 4
        same(here, honest(e))


def pair(files):
    return {"certificate": files["certificate"], "certificate_key": files["key"]}


@pytest.mark.faults
def test_mistakes_and_lies_that_a_device_meets(tmp_path):
    """Another authority, an expired certificate, a token and an invitation of another gateway, a
    gateway that is no node, a gateway of another federation."""
    e = experiment(clients=26, rounds=3)
    with deployed(tmp_path, e, 2, fewest=25) as here, Members(here.begin()) as members:
        keeper = members.keeper(1)
        keeper.at(1)
        make_server(here.folder / "strange", ["localhost"])
        url = f"https://localhost:{here.ports[0]}"
        federation = members.agreed.id

        def device(authority="gateway-tls", of=federation, at=url):
            key = Ed25519PrivateKey.generate()
            trusts = trusting(here.folder / authority / "ca.pem")
            return GatewayClient(at, Requests(key, of), trusts, wait=2)

        with pytest.raises(Mistake, match=r"self-signed|unable to get"):
            device("strange").about()
        with pytest.raises(Excluded, match="invitation is unknown"):
            device().enrol(here.invitations(1)[-1])
        with pytest.raises(Excluded, match="for another federation"):
            device(of=bytes(16)).enrol(here.invitations(0)[-1])
        with pytest.raises(Unavailable, match="no connection"):
            device(at="https://localhost:1").enrol("x")
        foreign = device()
        foreign.requests.client, foreign.requests.token = KEEPER, "00" * 28
        with pytest.raises(Excluded, match="not this device's"):
            foreign.once(bytes)
        assert sorted(here.devices()) == list(range(12)), "nobody got in"
        expired = certificates(here.folder, "expired", (-30, -1))
        (here.folder / "old").mkdir()
        here.start_module("old", "expired_server", expired["certificate"], expired["key"])
        here.wait_logged("old", "listens")
        port = int(here.log("old").split()[-1])
        trusts = trusting(expired["roots"])
        late = GatewayClient(
            f"https://localhost:{port}", Requests(Ed25519PrivateKey.generate(), federation), trusts
        )
        with pytest.raises(Mistake, match="expired"):
            late.about()
        keeper.open(1)
        here.wait_done()
        assert here.answered() == [25] * 3
        same(here, honest(e))


@pytest.mark.faults
def test_a_gateway_that_the_server_does_not_know_serves_nobody(tmp_path):
    e = experiment(rounds=3)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1)
        keeper.at(1)
        make_node(here.folder / "stranger", "stranger", 13)
        variant(here, "stranger", keys="stranger", state="state-9", listen="127.0.0.1:0")
        here.start_module("stranger", "foltr", "gateway")
        here.wait_logged("stranger", "the server does not know this node's key", 60)
        (port,) = {
            int(line.rsplit(":", 1)[1])
            for line in here.log("stranger").splitlines()
            if "devices connect to" in line
        }
        trusts = trusting(here.folder / "gateway-tls" / "ca.pem")
        key = Requests(Ed25519PrivateKey.generate(), members.agreed.id)
        device = GatewayClient(f"https://localhost:{port}", key, trusts, wait=2)
        assert device.about()["ready"] is False
        code, said = foltr(here, "gateway", "stranger.toml", "--invite", "1")
        assert code == 0
        with pytest.raises(Unavailable, match="has not reached its server yet"):
            device.enrol(said)
        keeper.open(1)
        here.wait_done()
        same(here, honest(e))


@pytest.mark.faults
def test_a_model_that_is_too_large_for_a_device(tmp_path):
    """The device refuses, says why, and takes no part; the others do."""
    e = experiment(rounds=4)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1)
        keeper.at(1)
        told, stop = [], threading.Event()
        key = Requests(Ed25519PrivateKey.generate(), members.agreed.id)
        trusts = trusting(here.folder / "gateway-tls" / "ca.pem")
        url = f"https://localhost:{here.ports[0]}"
        small = GatewayClient(url, key, trusts, wait=2, tell=told.append)
        assert small.enrol(here.invitations()[-1])[0] == HOSTILE
        small.largest = 200
        thread = threading.Thread(target=small.serve, args=(bytes, stop))
        thread.start()
        time.sleep(2.0)  # the server asks after a second who is there
        keeper.open(1)
        here.wait_done()
        stop.set()
        thread.join(30)
        assert here.answered() == [12] * 4
        same(here, honest(e))
        assert any("this device accepts at most 200 (" in text for text in told)


@pytest.mark.loopback
def test_the_disk_of_a_gateway_is_full(tmp_path):
    """It confirms nothing that it cannot store; devices try again, and nothing is lost."""
    e = experiment(rounds=5)
    disk = small_disk(tmp_path / "state-0", "2m")
    with disk as filler, deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(2)
        keeper.at(2)
        here.wait(lambda: stored(here) == 11, 30, "11 answers")
        fill(filler)
        keeper.open(2)
        here.wait_logged("gateway-0", "free some space")
        here.wait(lambda: any("507" in text for text in keeper.told), 20, "refusal")
        assert stored(here) == 11
        assert keeper.call(keeper.requests.session()).status == 200, "what needs no space goes on"
        filler.unlink()
        here.wait_done()
        assert here.answered() == [12] * 5, here.everything()
        same(here, honest(e))
