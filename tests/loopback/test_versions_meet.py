"""Processes of neighbouring versions of the protocol. The next version is made up: it has the
number 3, and understands 2."""

import re

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import deployed as behind_gateways
from behind_gateways import experiment as of_devices
from behind_gateways import same
from faulty import experiment

from foltr.deployment.local import Deployment

pytestmark = pytest.mark.usefixtures("modules")


def started(here, name, monkeypatch, version=None):
    command = {"s": "serve", "n": "node", "g": "gateway", "d": "simulate-devices"}[name[0]]
    if version is None:
        here.start(name)
    else:
        monkeypatch.setenv("FOLTR_PROTOCOL", version)
        here.start_module(name, "next_version", command)
    if name == "server":
        here.wait_logged("server", "nodes connect to")


@pytest.mark.loopback
def test_one_process_after_the_other_is_updated(tmp_path, monkeypatch):
    """A node first, then the server, then the other node; with a secure sum."""
    e = experiment(rounds=6, channel="SecureSum()")
    agreed = {"fewest": e.clients}
    with Deployment(tmp_path, e, 2, {"wait": 60.0}, agreed) as here:
        started(here, "server", monkeypatch)
        started(here, "node-0", monkeypatch, "3 2")
        started(here, "node-1", monkeypatch)
        here.wait_round(1)
        here.kill("server")
        started(here, "server", monkeypatch, "3 2")
        here.wait_round(3)
        here.kill("node-1")
        started(here, "node-1", monkeypatch, "3 2")
        here.wait_done()
        assert np.array_equal(here.model(), e.run().params), here.everything()
        assert "version" not in here.log("server"), here.everything()


@pytest.mark.faults
@pytest.mark.parametrize(
    ("server", "gateway", "devices"),
    [(3, 2, 2), (2, 3, 2), (2, 2, 3), (3, 3, 2), (3, 2, 3), (2, 3, 3)],
)
def test_gateways_and_devices_of_another_version_take_part(
    tmp_path, monkeypatch, server, gateway, devices
):
    e = of_devices(clients=12, rounds=3)
    with behind_gateways(tmp_path, e) as here:
        given = {"server": server, "gateway-0": gateway, "devices-0": devices}
        for name, version in given.items():
            started(here, name, monkeypatch, "3 2" if version == 3 else None)
        here.wait_done()
        assert here.answered() == [12] * 3
        same(here, e.run().params)


@pytest.mark.faults
def test_a_gateway_is_updated_before_its_devices(tmp_path, monkeypatch):
    """In the middle of the training, with a secure sum. The server was updated before."""
    e = of_devices(clients=12, rounds=6, channel="SecureSum()")
    with behind_gateways(tmp_path, e, agreed={"fewest": 12}) as here:
        started(here, "server", monkeypatch, "3 2")
        started(here, "gateway-0", monkeypatch)
        started(here, "devices-0", monkeypatch)
        here.wait_round(2)
        here.kill("gateway-0")
        started(here, "gateway-0", monkeypatch, "3 2")
        here.wait_done()
        assert here.answered() == [12] * 6
        same(here, e.run().params)


@pytest.mark.faults
def test_versions_that_do_not_meet_are_told(tmp_path, monkeypatch):
    """Two versions apart: the server says which side is older, and goes on with the others."""
    e = experiment(rounds=3)
    with Deployment(tmp_path, e, 3, {"wait": 6.0}, {"fewest": 4}) as here:
        started(here, "server", monkeypatch)
        started(here, "node-0", monkeypatch)
        started(here, "node-1", monkeypatch, "4 3")
        here.wait_logged("node-1", "connected to")
        here.wait_done()
        told = "node-1: malformed: version 3 of the protocol, but this foltr understands 1 .. 2"
        assert re.search(told + ": this foltr is older: update it", flat(here.log("server")))
    with Deployment(tmp_path / "later", e, 2, {"wait": 6.0}, {"fewest": 6}) as here:
        started(here, "server", monkeypatch, "4 3")
        started(here, "node-0", monkeypatch, "4 3")
        started(here, "node-1", monkeypatch)
        here.wait_done()
        told = "node-1: malformed: version 2 of the protocol, but this foltr understands 3 .. 4"
        assert told + ": the other foltr is older" in flat(here.log("server"))


def flat(text):
    return " ".join(text.replace("│", " ").split())
