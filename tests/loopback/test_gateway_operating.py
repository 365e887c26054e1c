"""Operating a gateway of real processes: its certificate and its keys are replaced, and its state
is restored from a copy; meanwhile rounds go on."""

import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from contextlib import closing

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import HONEST, KEEPER, Members, deployed, experiment, same

from foltr.deployment.gateway.process import DATABASE
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import renew_server

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("modules")]


def foltr(here, *words):
    given = [sys.executable, "-m", "foltr", *words]
    told = subprocess.run(given, cwd=here.folder, capture_output=True, text=True, timeout=90)
    assert told.returncode == 0, told.stdout + told.stderr


def seen_certificate(here):
    """The certificate that a new connection gets."""
    tls = trusting(here.folder / "gateway-tls" / "ca.pem")
    with socket.create_connection(("127.0.0.1", here.ports[0]), 10) as plain:
        with tls.wrap_socket(plain, server_hostname="localhost") as wrapped:
            return wrapped.getpeercert(True)


def in_use(here, keeper):
    """Whether the gateway uses its new keys. A round begins every second."""
    time.sleep(1.0)
    keeper.open(*keeper.reached)
    return "the new keys are in use" in here.log("gateway-0")


def test_the_certificate_and_the_keys_of_a_gateway_are_replaced(tmp_path):
    e = experiment(clients=12, rounds=90)
    with deployed(tmp_path, e).begin() as here, Members(here) as members:
        keeper = members.keeper(*range(3, 90))
        keeper.at(3)
        first, folder = seen_certificate(here), here.folder / "gateway-tls"
        renew_server(folder, new_key=True)
        here.wait_logged("gateway-0", "the certificate was replaced")
        new = ssl.PEM_cert_to_DER_cert((folder / "server.pem").read_text())
        assert seen_certificate(here) == new != first
        keeper.open(3)
        foltr(here, "keys", "rotate", "node-0")
        card = "node-0/next/node-0.replace.toml"
        foltr(here, "keys", "replace", card, "--roster", "roster.toml")
        here.wait(lambda: in_use(here, keeper), 120, "the new keys")
        keeper.open(*range(90))
        here.wait_done()
        assert here.answered() == [12] * 90, here.everything()
        same(here, e.run().params)


def test_the_state_of_a_gateway_is_restored_from_a_copy(tmp_path):
    """The copy is made while the gateway runs, in the middle of an ask. Rounds are answered after
    it, and no device enrols."""
    e = experiment(clients=12, rounds=8)
    with deployed(tmp_path, e).begin() as here, Members(here) as members:
        keeper = members.keeper(2, 5)
        keeper.at(2)
        state, copy = here.folder / "state-0", tmp_path / "copy.db"
        with closing(sqlite3.connect(state / DATABASE)) as found:
            with closing(sqlite3.connect(copy)) as to:
                found.backup(to)
        keeper.open(2)
        keeper.at(5)
        here.kill("gateway-0")
        for file in state.glob(f"{DATABASE}*"):
            file.unlink()
        copy.rename(state / DATABASE)
        here.start("gateway-0")
        assert len(here.devices()) == HONEST + 1 and KEEPER in here.devices()
        keeper.open(5)
        here.wait_done()
        assert here.answered() == [12] * 8, here.everything()
        same(here, e.run().params)
