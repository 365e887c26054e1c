"""Machines that fail: full disks, and networks that lose and delay."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import (
    at_gate,
    deployed,
    experiment,
    failures,
    kill_link,
    missed,
    open_gate,
    same,
    start,
    without,
)

from foltr.deployment.local import free_port

pytestmark = pytest.mark.usefixtures("modules")


@contextmanager
def small_disk(folder, size="6m"):
    """A file system of its own; needs the right to mount one."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine forbids mounting a file system: no full disk is tested")
    try:
        yield folder / "filler"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file):
    with pytest.raises(OSError, match="No space left"):
        with open(file, "wb", buffering=0) as opened:
            while opened.write(bytes(4096)):
                pass


@pytest.mark.loopback
def test_the_disk_of_a_node_is_full(tmp_path):
    """It refuses rounds until there is space, and then takes part again."""
    e = experiment(rounds=9)
    with small_disk(tmp_path / "state-0", "1m") as filler, deployed(tmp_path, e) as here:
        start(here, node_1="gate@2,gate@4")
        at_gate(here, 2, "node-1")
        here.wait(lambda: b"client" in (tmp_path / "state-0" / "records.db").read_bytes(), 20, "")
        here.wait_round(2)
        fill(filler)
        open_gate(here, 2)
        at_gate(here, 4, "node-1")
        here.wait_logged("node-0", "free some space")
        filler.unlink()
        open_gate(here, 4)
        here.wait_done()
        lost = missed(here, "node-0")
        assert 3 in lost and lost.keys() <= {2, 3, 4}, here.everything()
        assert set(failures(here)) == {"disk"}
        assert "node-0: disk: the node cannot read or write its records" in here.log("server")
        same(here, without(e, lost))


@pytest.mark.faults
@pytest.mark.parametrize("database", [True, False])
def test_the_disk_of_the_server_is_full(tmp_path, database):
    """With a database, rounds wait for space; without, the server ends when it cannot save."""
    e = experiment()
    disk = small_disk(tmp_path / "state")
    with disk as filler, deployed(tmp_path, e, database=database) as here:
        start(here, node_0="gate@3,pace@0.3")
        at_gate(here, 3)
        fill(filler)
        open_gate(here, 3)
        here.wait_logged("server", "No space left on", 60)
        if database:
            time.sleep(3.0)
            assert here.processes["server"].poll() is None, here.everything()
            here.kill("server")
        assert here.processes["server"].wait(60) in (2, -signal.SIGKILL)
        here.start("server")  # while it is full
        assert here.processes["server"].wait(90) == 2, here.everything()
        assert len(here.rounds()) == 3
        filler.unlink()
        here.start("server")
        here.wait_round(5)
        if database:  # at any moment: it goes on by itself, unless it had just to save
            fill(filler)
            here.wait(lambda: here.log("server").count("No space left on") > 2, 60, "full disk")
            filler.unlink()
            time.sleep(3.0)
            if here.processes["server"].poll() == 2:
                here.start("server")
        here.wait_done()
        same(here, e.run().params)


class Network:
    """A way to a port that is slow: every piece is 0.2 s late, one in a hundred a second more (as
    if it had to be sent again), and one in two hundred cuts the connection."""

    def __init__(self, target, seed):
        self.target, self.port, self.draws = target, free_port(), random.Random(seed)
        self.pieces = self.cuts = 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        assert ready.wait(10)

    async def serve(self, ready):
        server = await asyncio.start_server(self.connected, "127.0.0.1", self.port)
        ready.set()
        async with server:
            await server.serve_forever()

    async def connected(self, reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        ways = self.carry(reader, there[1]), self.carry(there[0], writer)
        await asyncio.gather(*ways, return_exceptions=True)

    async def carry(self, reader, writer):
        try:
            while piece := await reader.read(1400):
                self.pieces += 1
                luck = self.draws.random()
                if luck < 0.005:
                    self.cuts += 1
                    break
                await asyncio.sleep(0.2 if luck < 0.99 else 1.2)
                writer.write(piece)
                await writer.drain()
        finally:
            writer.close()


@pytest.mark.faults
def test_a_slow_network_that_cuts_connections(tmp_path):
    e = experiment(rounds=12)
    with deployed(tmp_path, e, wait=90.0) as here:
        network = Network(here.port, 1)
        for name in here.names:
            file = tmp_path / f"{name}.toml"
            text = file.read_text().replace(f"localhost:{here.port}", f"localhost:{network.port}")
            file.write_text(text)
        start(here)
        here.wait_round(3, 120)
        kill_link(here)
        here.wait_done(300)
        assert network.pieces > 100
        assert not failures(here), (network.cuts, here.everything())
        same(here, e.run().params)


def over_this_network(folder):
    """A whole federation: called in a process of the network namespace below."""
    e = experiment(rounds=5)
    with deployed(Path(folder), e, wait=90.0) as here:
        start(here).wait_done(240)
        assert not failures(here), here.everything()
        same(here, e.run().params)


@pytest.mark.faults
def test_one_packet_in_a_hundred_is_lost_and_all_are_late(tmp_path):
    """The kernel's own losses, in a network namespace."""
    name = f"foltr{os.getpid()}"
    made = (
        f"ip netns add {name} && ip -n {name} link set lo up &&"
        f" tc -n {name} qdisc add dev lo root netem loss 1% delay 100ms"
    )
    call = f"from test_faults_machines import *; over_this_network({str(tmp_path / 'here')!r})"
    try:
        told = subprocess.run(["sh", "-c", made], capture_output=True, text=True)
        if told.returncode:
            pytest.skip(f"this machine forbids losing packets: {told.stderr.strip()}")
        command = ["ip", "netns", "exec", name, sys.executable, "-c", call]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
