"""A stock SuperLink with stock SuperNodes on this machine, and the template that runs on them."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from link_federation import certificates

from foltr.deployment.keys.keys import make_node
from foltr.deployment.keys.roster_file import add_node

TEMPLATE = Path(__file__).resolve().parents[2] / "examples" / "flower_app" / "app"
PROGRAMS = Path(sys.executable).parent


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Stock:
    """Flower's own programs, as its documentation starts them, in a folder of their own. `nodes`
    are the clients behind each SuperNode. With `tls`, nodes are known to Flower by their keys."""

    folder: Path
    nodes: tuple[int, ...] = (4, 4, 4)
    tls: bool = False
    running: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self):
        self.port, home = free_port(), self.folder / "flower"
        home.mkdir()
        self.environment = {
            **os.environ,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(home),
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
        }
        how, safety = "insecure = true", ["--insecure"]
        if self.tls:
            files = certificates(self.folder, "stock")
            self.roots = files["roots"]
            how = f'root-certificates = "{self.roots}"'
            safety = ["--ssl-ca-certfile", self.roots, "--ssl-certfile", files["certificate"]]
            safety += ["--ssl-keyfile", files["key"], "--enable-supernode-auth"]
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "stock"\n[superlink.stock]\n'
            f'address = "127.0.0.1:{self.port}"\n{how}\n'
        )
        offline = "--disable-runtime-dependency-installation"
        self.start("flower-superlink", "--port", self.port, offline, *safety)
        self.wait_for_port()
        for number, clients in enumerate(self.nodes):
            self.add(number, clients)

    def add(self, number, clients):
        """The keys of a node, its place in the roster, and its SuperNode."""
        name = f"node-{number}"
        seat, _ = make_node(self.folder / name / "keys", name, clients)
        add_node(self.folder / "roster.toml", seat)
        if self.tls:
            public = self.folder / name / "node.pub"
            public.write_bytes(seat.key + b"\n")
            self.flwr("supernode", "register", public, "stock")
        self.start_node(number)

    def start_node(self, number):
        folder = self.folder / f"node-{number}"
        safety = ["--insecure"]
        if self.tls:
            safety = ["--root-certificates", self.roots]
            safety += ["--auth-supernode-private-key", folder / "keys" / "node.key"]
        where = ["--superlink", f"127.0.0.1:{self.port}", "--port", free_port()]
        config = f'settings="{folder / "node.toml"}"'
        words = "flower-supernode", *where, *safety, "--node-config", config
        return self.start(*words, log=f"supernode-{number}")

    def start(self, *command, log=None):
        words = [str(PROGRAMS / command[0]), *map(str, command[1:])]
        with open(self.folder / f"{log or command[0]}.log", "a") as file:
            self.running.append(
                subprocess.Popen(
                    words, cwd=self.folder, env=self.environment, stdout=file, stderr=file
                )
            )
        return self.running[-1]

    def wait_for_port(self, seconds=30.0):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with socket.socket() as tried:
                if not tried.connect_ex(("127.0.0.1", self.port)):
                    return
            time.sleep(0.1)
        raise AssertionError((self.folder / "flower-superlink.log").read_text())

    def flwr(self, *command, seconds=300.0):
        words = [str(PROGRAMS / "flwr"), *map(str, command)]
        made = subprocess.run(
            words, cwd=self.folder, env=self.environment, text=True, timeout=seconds,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout
        return made.stdout

    def write(self, name, agreed, server, node):
        """The settings of all for one federation: the lines of the agreement, and those of each
        table. Whatever is asked next is asked of this one."""
        lines = f'[server]\nroster = "roster.toml"\nstate = "{name}"\nwait = 60.0\n{server}\n'
        (self.folder / "server.toml").write_text(f"{agreed}\n{lines}")
        for number, clients in enumerate(self.nodes):
            table = f'[node]\nserver = "127.0.0.1:{self.port}"\nstate = "{name}"\nkeys = "keys"\n'
            table += f'roster = "../roster.toml"\nclients = {clients}\n{node}\n'
            (self.folder / f"node-{number}" / "node.toml").write_text(f"{agreed}\n{table}")

    def submit(self, *options, seconds=300.0):
        """`flwr run` of the template; what it tells."""
        named = f'settings="{self.folder / "server.toml"}"'
        return self.flwr("run", TEMPLATE, "stock", *options, "-c", named, seconds=seconds)

    def run(self):
        """All rounds; what the server tells."""
        return self.submit("--stream")

    def told(self):
        return "\n".join(
            f"--- {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log"))
        )

    def close(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
