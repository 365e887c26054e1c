"""One real federation: a server, two nodes, and a gateway with two devices, each a process with
TLS and keys. The server is killed between two rounds."""

import os
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr.deployment import local as local_gateways
from foltr.deployment.gateway.enrolment import Enrolment, Standing
from foltr.deployment.gateway.process import DATABASE
from foltr.deployment.local import free_port
from foltr.deployment.node.clients import RECORDS
from foltr.deployment.protocol.records import Records
from foltr.deployment.settings import read_node
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from simulated_deployment import SimulatedDeployment

# what a service manager gives to a process, and PYTHONPATH, for a foltr that is not installed
VARIABLES = {"PATH", "HOME", "TMPDIR", "LANG", "TZ", "FOLTR_CACHE", "PYTHONPATH"}
PATIENCE_SECONDS = 120.0  # for each step, on a machine that is very busy
EXPERIMENT = Experiment(data="Synthetic(queries=20)", clients=6, rounds=2, seed=5)


class Federation(SimulatedDeployment):
    """Clients 0 and 1 are devices behind a gateway; two nodes have two clients each. A process
    that ends by itself fails the test at once."""

    def wait(self, ready, seconds, what):
        def ready_while_all_run():
            for name, process in self.processes.items():
                code = process.poll()
                assert code is None, f"{name} ended with exit code {code}\n{self.everything()}"
            return ready()

        super().wait(ready_while_all_run, seconds, what)

    def kill_server(self):
        """SIGKILL, as the system does when memory runs out. The SuperLink notices it and ends."""
        self.kill("server", signal.SIGKILL)
        del self.processes["server"]
        self.wait(lambda: is_closed(self.port), PATIENCE_SECONDS, "end of the SuperLink")

    def stop(self, *names):
        """Each process ends by itself after SIGTERM."""
        for name in names:
            self.processes[name].terminate()
        ended = {name: self.processes[name].poll for name in names}
        super().wait(
            lambda: all(poll() is not None for poll in ended.values()), PATIENCE_SECONDS, "end"
        )
        for name, poll in ended.items():
            assert poll() == 0, f"{name} ended with exit code {poll()}\n{self.everything()}"
            assert "stopped" in self.log(name).splitlines()[-1], self.everything()


def federation(folder, port):
    """All clients take part in each round. After a round, the server waits for a day."""
    return Federation(
        folder,
        EXPERIMENT,
        port=port,
        nodes=3,
        gateways=1,
        server={
            "status": "none",
            "wait": PATIENCE_SECONDS,
            "deadline": PATIENCE_SECONDS,
            "interval": 86_400.0,
        },
        agreed={"fewest": EXPERIMENT.clients, "rounds": EXPERIMENT.rounds + 1},
    )


def reserved_port(stack):
    """A port that no other program gets until the end of the test, also while the server is down:
    the system gives it to nobody, and a server that asks for it by number can listen."""
    if sys.platform != "linux":
        return free_port()
    holder = stack.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder.getsockname()[1]


def is_closed(port):
    with socket.socket() as visitor:
        return visitor.connect_ex(("127.0.0.1", port)) != 0


def processes_in(folder):
    """The command lines of all processes whose working directory is this folder."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder.resolve():
                commands.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return commands


def answers_of_clients(here, agreed):
    """Client -> how many rounds it has answered, by the nodes' own records."""
    spent = {}
    for i in (1, 2):
        records = Records(here.folder / f"state-{i}" / RECORDS, agreed.id)
        spent |= {id: record.spent for id, record in records.of(range(EXPERIMENT.clients)).items()}
        records.close()
    return spent


def test_a_federation_with_a_gateway_outlives_its_killed_server(tmp_path, monkeypatch):
    for name in set(os.environ) - VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    with ExitStack() as stack:
        monkeypatch.setattr(local_gateways, "free_port", lambda: reserved_port(stack))
        here = stack.enter_context(federation(tmp_path / "federation", reserved_port(stack)))
        here.start("server")
        simulated = EXPERIMENT.run()  # also compiles what the nodes need, unless it is stored
        here.wait_logged("server", "nodes connect to", PATIENCE_SECONDS)
        for name in ("gateway-0", "node-1", "node-2"):
            here.start(name)
        here.wait_logged("gateway-0", "connected to", PATIENCE_SECONDS)
        here.start("devices-0")  # before that, the gateway would tell them to come back later
        here.wait_round(1, PATIENCE_SECONDS)
        here.kill_server()
        here.start("server")
        here.wait_round(2, PATIENCE_SECONDS)
        here.stop(*here.names)
        here.stop("server")
        assert processes_in(here.folder) == []

    rounds = [(about["round"], about["answered"], about["failures"]) for about in here.rounds()]
    assert rounds == [(0, 6, {}), (1, 6, {})], here.everything()
    agreed, _ = read_node(here.folder / "node-1.toml", Code(()))
    assert answers_of_clients(here, agreed) == {2: 2, 3: 2, 4: 2, 5: 2}
    enrolment = Enrolment(here.folder / "state-0" / DATABASE, agreed.id)
    standings = {client: device.standing for client, device in enrolment.devices().items()}
    assert standings == {0: Standing.ACTIVE, 1: Standing.ACTIVE}
    assert enrolment.rounds_answered() == 2
    enrolment.close()
    assert np.array_equal(here.model(), simulated.params), here.everything()
