"""Gateways and servers that are killed, away or out of space: nothing is lost, and the run gives
the bits of a simulation."""

import signal
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from behind_gateways import Members, deployed, experiment, honest, same, stored

pytestmark = pytest.mark.usefixtures("modules")
SUM = {"channel": "SecureSum()"}


def killed_at(folder, moments, nodes=1, **parts):
    """A federation in which gateway 0 is killed at these moments, one after the other, and started
    again each time."""
    last = max(int(moment.partition("@")[2].partition(".")[0]) for moment in moments)
    e = experiment(clients=12, rounds=last + 2, **parts)
    with deployed(folder, e, nodes) as here:
        here.start("server")
        here.wait_logged("server", "nodes connect to")
        for i in range(1, nodes):
            here.start(f"gateway-{i}")
        for number, moment in enumerate(moments):
            here.start_module("gateway-0", "dying_gateway", moment)
            if number == 0:
                for i in range(nodes):
                    here.start(f"devices-{i}")
            died = here.processes["gateway-0"].wait(90)
            assert died == -signal.SIGKILL, here.everything()
            assert f"killed: {moment}" in here.log("gateway-0")
        here.start("gateway-0")
        here.wait_done(120)
        assert here.answered() == [12] * e.rounds, here.everything()
        assert not any(about["failures"] for about in here.rounds()), here.everything()
        same(here, e.run().params)


@pytest.mark.loopback
def test_a_gateway_is_killed_when_answers_are_stored(tmp_path):
    killed_at(tmp_path, ["some@1.0", "all@2.0"])


@pytest.mark.faults
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_gateway_is_killed_at_every_moment_of_a_round(tmp_path, nodes):
    moments = ["begin@1.0", "asked@2.0", "some@3.0", "all@4.0", "sent@5.0"]
    killed_at(tmp_path, moments, nodes)


@pytest.mark.faults
@pytest.mark.parametrize("step", range(4))
def test_a_gateway_is_killed_at_every_moment_of_a_secure_sum(tmp_path, step):
    """KEYS, SHARES, MASKED and UNMASK: the devices keep their sums, so it goes on."""
    moments = [f"{when}@{t}.{step}" for t, when in enumerate(["asked", "some", "all", "sent"], 1)]
    killed_at(tmp_path, moments, **SUM)


@pytest.mark.faults
def test_a_gateway_is_killed_while_it_waits(tmp_path):
    """Between two rounds, and while a device is at work; and everything at once."""
    e = experiment(rounds=7)
    with deployed(tmp_path, e) as here, Members(here.begin()) as members:
        keeper = members.keeper(1, 3, 5)
        keeper.at(1)
        here.kill("gateway-0")
        here.start("gateway-0")
        keeper.open(1)
        keeper.at(3)
        here.wait(lambda: stored(here) == 11, 30, "11 answers")
        for name in ("gateway-0", "server"):
            here.kill(name)
        for name in ("server", "gateway-0"):
            here.start(name)
        keeper.open(3)
        keeper.at(5)
        here.kill("gateway-0", signal.SIGTERM)
        assert here.processes["gateway-0"].returncode == 0
        keeper.open(5)
        here.start("gateway-0")
        here.wait_done(120)
        assert here.answered() == [12] * 7, here.everything()
        same(here, honest(e))
        assert "stopped: the same command continues" in here.log("gateway-0")


def away(folder, seconds, how):
    """A server that is stopped, and not killed, goes on with its round if that is not over."""
    e = experiment(rounds=5)
    with (
        deployed(folder, e, deadline=30.0 if how == "killed" else 120.0) as here,
        Members(here.begin()) as members,
    ):
        keeper = members.keeper(2)
        keeper.at(2)
        if how == "killed":
            here.kill("server")
        else:
            here.processes["server"].send_signal(signal.SIGSTOP)
        time.sleep(seconds / 2)
        keeper.open(2)  # the gateway has all answers, and nobody to give them to
        time.sleep(seconds / 2)
        if how == "killed":
            here.start("server")
        else:
            here.processes["server"].send_signal(signal.SIGCONT)
        here.wait_done(120)
        assert here.answered() == [12] * 5, here.everything()
        same(here, honest(e))


@pytest.mark.loopback
def test_the_server_is_killed_and_the_gateway_waits_for_it(tmp_path):
    away(tmp_path, 2.0, "killed")


@pytest.mark.faults
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_server_is_away_for_75_seconds(tmp_path, how):
    away(tmp_path, 75.0, how)
