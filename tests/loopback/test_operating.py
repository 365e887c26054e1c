"""Operating a federation of real processes: it is watched, its certificate, its authority and a
node's keys are replaced, it is backed up, restored and stopped; meanwhile rounds go on."""

import os
import shutil
import signal
import time

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import experiment, kill_link, link_of
from operated import Operated

SOON = 10.0  # seconds in which a process must end after SIGTERM, on a busy machine


def federation(folder, rounds=500, server=None, **changes):
    e = experiment(rounds=rounds, clients=6, **changes)
    return Operated(folder, e, 2, {"wait": 60.0, **(server or {})})


def stopped(here, name, signum=signal.SIGTERM):
    """Seconds until a process has ended by itself, with exit code 0."""
    began = time.monotonic()
    here.processes[name].send_signal(signum)
    assert here.processes[name].wait(90) == 0, here.everything()
    return time.monotonic() - began


@pytest.mark.loopback
def test_all_keys_are_replaced_and_no_round_is_lost(tmp_path):
    with federation(tmp_path, learner="PDGD(sessions=1)") as here:
        here.start_all().wait_round(1)
        thief, first = here.kept_key("node-0"), here.certificate
        assert here.seen_certificate() == first

        here.foltr("keys", "renew", "--out", ".", "--new-key")
        here.wait_logged("server", "the certificate was replaced")
        here.wait(lambda: here.seen_certificate() == here.certificate != first, 5, "renewal")

        here.foltr("keys", "rotate", "node-0")
        card = "node-0/next/node-0.replace.toml"
        here.foltr("keys", "replace", card, "--roster", "roster.toml")
        here.wait_logged("node-0", "the new keys are in use")
        assert not (tmp_path / "node-0" / "next").exists()
        assert not here.is_known(thief), "the old key is refused"
        here.more()
        assert here.health() == (200, {})
        found, done = here.metrics(), here.whole_rounds(6)
        assert done - 3 <= found["foltr_rounds_total",] <= done
        assert found["foltr_nodes", "connected"] == 2 and found["foltr_superlink_up",] == 1
        assert (
            "6 clients" not in here.page("metrics")[1] and "node-0" not in here.page("metrics")[1]
        )
        for name in ("server", *here.names):
            assert stopped(here, name) < SOON
        assert here.log("server").count("not valid any more") == 1

        here.start("node-0")  # with the new keys, from its folder
        here.start("server")
        here.start("node-1")
        here.more()
        here.whole_rounds(6)


@pytest.mark.faults
@pytest.mark.parametrize("channel", ["SecureSum()", "SecureSum(consistency=True)"])
def test_a_nodes_keys_are_replaced_during_secure_sums(tmp_path, channel):
    with federation(tmp_path, channel=channel) as here:
        here.start_all().wait_round(2)
        for name in ("node-0", "node-1"):
            thief = here.kept_key(name)
            here.foltr("keys", "rotate", name)
            card = f"{name}/next/{name}.replace.toml"
            here.foltr("keys", "replace", card, "--roster", "roster.toml")
            here.wait_logged(name, "the new keys are in use")
            here.more()
            assert not here.is_known(thief)
        here.whole_rounds(6)
        assert stopped(here, "node-0") < SOON and stopped(here, "server") < SOON


@pytest.mark.faults
def test_an_authority_is_replaced_and_all_nodes_stay(tmp_path):
    with federation(tmp_path) as here:
        for i, name in enumerate(here.names):  # a copy for each node, as on other machines
            file = tmp_path / f"{name}.toml"
            file.write_text(file.read_text().replace("server/ca.pem", f"ca-{i}.pem"))

        def send():
            for i in range(2):
                part = tmp_path / "part"
                shutil.copy(tmp_path / "server" / "ca.pem", part)
                part.replace(tmp_path / f"ca-{i}.pem")

        send()
        here.start_all().wait_round(2)
        old = (tmp_path / "server" / "ca.pem").read_bytes()
        here.foltr("keys", "authority", "--begin", "--out", ".")
        send()
        for name in here.names:
            here.wait_logged(name, "has changed: connecting by what it trusts now")
        here.foltr("keys", "authority", "--switch", "--out", ".")
        here.wait(lambda: here.seen_certificate() == here.certificate, 5, "new certificate")
        kill_link(here)  # every node must connect anew
        here.more(3)
        here.foltr("keys", "authority", "--finish", "--out", ".")
        send()
        here.wait(
            lambda: all(
                here.log(name).count("has changed: connecting") == 2 for name in here.names
            ),
            40,
            "nodes that trust only the new authority",
        )
        assert old not in (tmp_path / "ca-0.pem").read_bytes()
        here.more(3)
        here.whole_rounds(6)


@pytest.mark.faults
def test_a_node_with_an_old_authority_comes_back_when_it_has_the_new_one(tmp_path):
    with federation(tmp_path) as here:
        old = tmp_path / "ca-0.pem"
        shutil.copy(tmp_path / "server" / "ca.pem", old)
        file = tmp_path / "node-0.toml"
        file.write_text(file.read_text().replace("server/ca.pem", "ca-0.pem"))
        here.start_all().wait_round(2)
        here.foltr("keys", "authority", "--begin", "--out", ".")
        here.foltr("keys", "authority", "--switch", "--out", ".")
        here.wait(lambda: here.seen_certificate() == here.certificate, 5, "new certificate")
        kill_link(here)
        here.wait_logged("node-0", "certificate verify failed")
        here.more(2)
        shutil.copy(tmp_path / "server" / "ca.pem", old)
        here.wait(lambda: here.rounds()[-1]["answered"] == 6, 60, "node-0")


@pytest.mark.faults
def test_a_broken_certificate_keeps_the_server_running(tmp_path):
    with federation(tmp_path) as here:
        here.start_all().wait_round(2)
        first = here.certificate
        (tmp_path / "server" / "server.pem").write_text("-----BEGIN CERT")
        here.wait_logged("server", "a changed file cannot be used")
        assert here.seen_certificate() == first
        here.more()
        (tmp_path / "server" / "server.pem").unlink()
        here.more()
        assert here.seen_certificate() == first and here.health() == (200, {})
        here.whole_rounds(6)


@pytest.mark.faults
def test_a_server_is_backed_up_and_restored(tmp_path):
    """Its state and its SuperLink are lost; the nodes have answered since the backup. One of them
    lies about its last round."""
    with federation(tmp_path, rounds=60, server={"wait": 20.0}) as here:
        here.start_all().wait_round(3)
        told = here.foltr("backup", "server.toml", "b.tar")
        assert told == "made b.tar\n" and os.stat(tmp_path / "b.tar").st_mode & 0o077 == 0
        here.more(3)
        here.kill("server")
        last = len(here.rounds())
        shutil.rmtree(tmp_path / "state")
        assert "restored the state after round" in here.foltr("restore", "b.tar", "server.toml")
        made = len(here.rounds())
        assert 3 <= made < last
        told = here.foltr("serve", "server.toml", code=2)
        number = int(told.split()[-1])
        assert number in (last, last + 1) and f"node-0 {number}, node-1 {number}." in told
        assert len(here.rounds()) == made, "no node was asked to learn"
        here.foltr("serve", "server.toml", "--continue-after", made - 1, code=2)
        here.start("server", "--continue-after", str(number))
        here.more(3)
        after = [about for about in here.rounds() if about["round"] >= made]
        assert [about["round"] for about in after[:3]] == [number, number + 1, number + 2]
        assert all(about["answered"] == 6 and not about["failures"] for about in after)
        assert here.state.restored is None


@pytest.mark.faults
def test_a_backup_of_a_server_that_was_stopped_continues_by_itself(tmp_path):
    with federation(tmp_path, rounds=60) as here:
        here.start_all().wait_round(3)
        for name in ("node-0", "node-1"):
            stopped(here, name)
        here.wait_logged("server", "waiting for nodes")
        stopped(here, "server")
        here.foltr("backup", "server.toml", "b.tar")
        shutil.rmtree(tmp_path / "state")
        here.foltr("restore", "b.tar", "server.toml")
        before = len(here.rounds())
        here.start("server")
        for name in here.names:
            here.start(name)
        here.wait_logged("server", "no node has answered a round since then")
        here.more(2)
        assert [about["round"] for about in here.rounds()][before:][0] >= before


@pytest.mark.faults
def test_a_backup_from_before_a_forgetting_forgets_again(tmp_path):
    agreed = {"history": 1}
    e = experiment(rounds=60, clients=6)
    with Operated(tmp_path, e, 2, {"wait": 20.0, "training_rounds": 30}, agreed) as here:
        here.start_all().wait_round(3)
        here.foltr("backup", "server.toml", "b.tar")
        here.kill("node-1", signal.SIGTERM)
        here.start("node-1", "--forget-me")
        here.processes["node-1"].wait(60)
        here.wait_logged("server", "delete old backups and their copies")
        assert "b.tar" in here.log("server").partition("delete old backups")[2]
        here.kill("server")
        shutil.rmtree(tmp_path / "state")
        told = here.foltr("restore", "b.tar", "server.toml")
        assert "node-1 was forgotten after this backup was made" in told
        here.start("server", "--continue-after", "40")
        here.wait_logged("server", "this state has not forgotten it")
        here.wait(lambda: here.log("server").count("node-1 forgotten after round") == 2, 60, "end")
        kept = here.state.forgotten
        assert kept.nodes == ("node-1",) and kept.pending == ()


@pytest.mark.faults
def test_what_the_page_says_when_the_superlink_hangs(tmp_path):
    with federation(tmp_path, server={"deadline": 5.0}) as here:
        here.start_all().wait_round(2)
        link = link_of(here)
        os.kill(link, signal.SIGSTOP)
        try:
            here.wait(lambda: here.health()[0] == 503, 120, "problem")
            assert here.health()[1] == {"superlink": "the SuperLink does not respond"}
            assert "the SuperLink does not respond" in here.foltr("check", "server.toml", code=1)
            assert here.metrics()["foltr_healthy",] == 0
            assert stopped(here, "server") < 60  # requests to the SuperLink time out first
        finally:
            if os.path.exists(f"/proc/{link}"):
                os.kill(link, signal.SIGKILL)


@pytest.mark.faults
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_every_process_stops_by_itself(tmp_path, signum):
    """A server with a SuperLink of its own or another one, a SuperLink, nodes; in any order."""
    with federation(tmp_path, server={"superlink": "link"}) as here:
        shutil.copy(tmp_path / "server.toml", tmp_path / "superlink.toml")
        here.start_module("superlink", "foltr", "serve", "--superlink-only")
        here.wait_logged("superlink", "nodes connect to")
        here.start("server")
        for name in here.names:
            here.start(name)
        here.wait_round(2)
        assert stopped(here, "node-0", signum) < SOON
        assert stopped(here, "superlink", signum) < SOON  # before its server and a node
        assert stopped(here, "server", signum) < SOON
        assert stopped(here, "node-1", signum) < SOON
        for name in ("superlink", "server", "node-0", "node-1"):
            assert "stopped: the same command continues" in here.log(name)
