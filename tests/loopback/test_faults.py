"""Processes of a federation that die, hang or are stopped: the run goes on, and gives the bits of
a simulation."""

import os
import signal
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import (
    at_gate,
    deployed,
    experiment,
    failures,
    idle,
    kill_link,
    link_of,
    missed,
    open_gate,
    same,
    seconds_until,
    start,
    without,
)

pytestmark = pytest.mark.usefixtures("modules")


@pytest.mark.loopback
def test_one_fault_after_another(tmp_path):
    """The SuperLink is killed, the server is killed after its push, a node that has answered is
    killed, and the server is stopped: each in the middle of a round."""
    e = experiment(rounds=7)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@1,gate@2,gate@3,gate@4", node_1="honest@0")
        at_gate(here, 1)
        kill_link(here)
        open_gate(here, 1)
        at_gate(here, 2)
        here.kill("server")
        here.start("server")
        here.wait_logged("server", "continuing after round 2")
        open_gate(here, 2)
        at_gate(here, 3)
        idle(here, "node-1", 3)
        here.kill("node-1")
        here.start("node-1")
        open_gate(here, 3)
        at_gate(here, 4)
        here.kill("server", signal.SIGTERM)
        here.start("server")
        open_gate(here, 4)
        here.wait_done()
        same(here, e.run().params)
        assert "stopped: the same command continues" in here.log("server")
        assert "the SuperLink has ended: starting it again" in here.log("server")


@pytest.mark.faults
@pytest.mark.parametrize("database", [True, False])
@pytest.mark.parametrize("who", ["at work", "idle"])
def test_a_node_is_killed_in_a_round_and_back_in_time(tmp_path, who, database):
    """Killed at work, it gets the ask once more; killed while it waits, the next one."""
    e = experiment()
    with deployed(tmp_path, e, database=database) as here:
        start(here, node_1="honest@0", node_2="gate@2")
        at_gate(here, 2, "node-2")
        if who == "idle":
            idle(here, "node-1", 2)
        victim = "node-1" if who == "idle" else "node-2"
        here.kill(victim)
        open_gate(here, 2)
        here.start(victim)
        assert seconds_until(here, 3, 60) < 20 * slowness()
        here.wait_done()
        assert not failures(here)
        same(here, e.run().params)


@pytest.mark.faults
def test_a_node_is_killed_in_a_round_and_back_later(tmp_path):
    """Rounds end at the deadline without it."""
    e = experiment(rounds=10)
    with deployed(tmp_path, e, deadline=8.0) as here:
        start(here, node_0="pace@1.0", node_2="gate@2")
        at_gate(here, 2, "node-2")
        here.kill("node-2")
        here.wait_round(4)
        here.start("node-2")
        here.wait_done(150)
        lost = missed(here, "node-2")
        assert lost.keys() >= {2, 3} and 9 not in lost, "it takes part again"
        assert failures(here).keys() <= {"late"}
        assert max(about["seconds"] for about in here.rounds()) < 9 * slowness()
        same(here, without(e, lost))


@pytest.mark.faults
@pytest.mark.parametrize("when", ["in the push", "after the push"])
def test_the_server_is_killed(tmp_path, when):
    e = experiment()
    with deployed(tmp_path, e) as here:
        if when == "in the push":
            here.start_module("server", "dying_server", "3")
            here.wait_logged("server", "nodes connect to")
            for name in here.names:
                here.start(name)
            here.wait_logged("server", "killed in the middle of a push", 90)
            assert here.processes["server"].wait(20) == -signal.SIGKILL
        else:
            start(here, node_0="gate@3")
            at_gate(here, 3)
            here.kill("server")
            open_gate(here, 3)
        before = len(here.rounds())
        assert before == 3
        here.start("server")
        assert seconds_until(here, before + 1, 60) < 20 * slowness()
        here.wait_done()
        same(here, e.run().params)


def slowness():
    """How much longer things may take, by how busy this machine is."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.faults
@pytest.mark.parametrize("database", [True, False])
def test_the_superlink_is_killed_again_and_again(tmp_path, database):
    """In memory, it forgets who was there: the server waits until they are back."""
    e = experiment(rounds=12)
    with deployed(tmp_path, e, database=database) as here:
        start(here, node_0="pace@0.5,gate@3")
        at_gate(here, 3)
        kill_link(here)
        time.sleep(3.0)
        open_gate(here, 3)
        for t in (5, 8):
            here.wait_round(t)
            kill_link(here)
        here.wait_done(150)
        assert here.log("server").count("the SuperLink has ended") == 3
        same(here, e.run().params)


@pytest.mark.faults
@pytest.mark.parametrize("how", ["hangs", "cannot start"])
def test_the_superlink_is_away_for_75_seconds(tmp_path, monkeypatch, how):
    """Its run is lost by then: the server opens another one, and asks again."""
    e = experiment()
    hold = tmp_path / "hold"
    if how == "cannot start":
        held = tmp_path / "held"
        held.mkdir()
        (held / "sitecustomize.py").write_text(
            "import os, sys, time\n"
            "while 'foltr.deployment.flower.superlink' in sys.orig_argv"
            f" and os.path.exists({str(hold)!r}): time.sleep(0.1)\n"
        )
        paths = os.pathsep.join([str(held), os.environ["PYTHONPATH"]])
        monkeypatch.setenv("PYTHONPATH", paths)
    with deployed(tmp_path / "here", e) as here:
        start(here, node_0="gate@3")
        at_gate(here, 3)
        if how == "hangs":
            link = link_of(here)
            os.kill(link, signal.SIGSTOP)
            time.sleep(75.0)
            os.kill(link, signal.SIGCONT)
        else:
            hold.touch()
            kill_link(here)
            time.sleep(75.0)
            hold.unlink()
        open_gate(here, 3)
        here.wait_done(180)
        same(here, e.run().params)
        assert "opening a new one" in here.log("server")


@pytest.mark.faults
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_server_and_nodes_are_stopped_in_a_round(tmp_path, signum):
    """A node that is stopped sends its answer first. It is away until it is started again."""
    e = experiment(rounds=30)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@2,gate@4", node_1="honest@0", node_2="pace@1.0")
        at_gate(here, 2)
        here.processes["server"].send_signal(signum)
        assert here.processes["server"].wait(20) == 0
        here.start("server")
        open_gate(here, 2)
        at_gate(here, 4)
        idle(here, "node-1", 4)
        for name in ("node-0", "node-1"):
            here.processes[name].send_signal(signum)
        assert here.processes["node-1"].wait(20) == 0
        here.start("node-1")
        here.wait_logged("node-1", "as node")
        here.wait(lambda: here.log("node-1").count("as node") == 2, 40, "node-1")
        open_gate(here, 4)
        assert here.processes["node-0"].wait(20) == 0
        here.start("node-0")
        here.wait_done(120)
        lost = missed(here, "node-0")
        assert min(lost) == 5 and 29 not in lost, here.everything()
        same(here, without(e, lost))
        for name in ("server", "node-0", "node-1"):
            assert "stopped: the same command continues" in here.log(name)


@pytest.mark.faults
def test_all_processes_are_killed_at_once(tmp_path):
    e = experiment(rounds=10)
    with deployed(tmp_path, e) as here:
        start(here, node_0="gate@4")
        at_gate(here, 4)
        for name in ("server", *here.names):
            here.kill(name)
        open_gate(here, 4)
        start(here)
        here.wait_done(150)
        same(here, e.run().params)
