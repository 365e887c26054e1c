"""A federation of processes on this machine: one `foltr serve`, and several `foltr node` or `foltr
gateway`, with TLS and node keys. For demonstrations, tests and benchmarks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from foltr.deployment.gateway.process import make_invitations
from foltr.deployment.keys.keys import make_node, make_server
from foltr.deployment.keys.roster_file import add_node
from foltr.deployment.server.state import FILE as STATE_FILE
from foltr.deployment.server.state import ServerState
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from foltr.simulation.runs.interruptions import Stopped, on_signals


@contextmanager
def stoppable(folder: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the processes in `folder`, and the message says where their files
    are."""

    def stopped(signum: int, frame: object) -> None:
        raise Stopped(f"stopped: all processes are ended; files are in {folder}", signum)

    with on_signals(stopped):
        yield


AGREED = ("ranker", "learner", "privacy", "channel", "rounds", "history")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def toml(values: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


@dataclass
class Deployment:
    """A federation of `nodes` nodes that share the clients of an experiment. They make the same
    random draws as its simulation, noise included: unless `agreed` changes that, the noise gives
    no privacy."""

    folder: Path
    experiment: Experiment
    nodes: int = 3
    server: dict[str, Any] = field(default_factory=dict)  # more keys of [server]
    agreed: dict[str, Any] = field(default_factory=dict)  # more keys of the agreement
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        e, config = self.experiment, self.experiment.config()
        self.folder.mkdir(parents=True, exist_ok=True)
        width = e.data.load("train").width
        agreed = {name: config[name] for name in AGREED if name in config}
        agreed |= {"features": width, "asked": e.cohort, "noise": "address", **self.agreed}
        make_server(self.folder / "server", ["localhost"])
        each = e.clients // self.nodes
        for i in range(self.nodes):
            name = f"node-{i}"
            seat, _ = make_node(self.folder / name, name, each)
            add_node(self.folder / "roster.toml", seat)
            table = {
                "server": f"localhost:{self.port}",
                "ca": "server/ca.pem",
                "keys": name,
                "state": f"state-{i}",
                "clients": each,
                "population": e.clients,
                "seed": e.seed,
                "data": repr(e.data),
                "users": repr(e.users),
                "partition": repr(e.partition),
            }
            if agreed.get("channel", "").find("consistency=True") >= 0:
                table["roster"] = "roster.toml"
            text = toml(agreed) + "[node]\n" + toml(table)
            (self.folder / f"{name}.toml").write_text(text)
        table = {
            "roster": "roster.toml",
            "state": "state",
            "keys": "server",
            "listen": f"127.0.0.1:{self.port}",
            "aggregator": repr(e.aggregator),
            "optimizer": repr(e.optimizer),
            "seed": e.seed,
            "status": f"127.0.0.1:{free_port()}",
            **self.server,
        }
        text = toml(agreed) + "[server]\n" + toml(table)
        (self.folder / "server.toml").write_text(text)

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start the server ("server") or a node ("node-0")."""
        command = "serve" if name == "server" else "node"
        return self.start_module(name, "foltr", command, *options)

    def start_module(self, name: str, module: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a process of another module with the settings of `name`."""
        first, rest = options[:1], options[1:]
        words = [sys.executable, "-m", module, *first, f"{name}.toml", *rest]
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        self.processes[name] = process
        return process

    def start_all(self) -> Self:
        self.start("server")
        self.wait_logged("server", "nodes connect to")
        for name in self.names:
            self.start(name)
        return self

    @property
    def names(self) -> list[str]:
        return [f"node-{i}" for i in range(self.nodes)]

    def kill(self, name: str, signum: int = signal.SIGKILL) -> None:
        self.processes[name].send_signal(signum)
        self.processes[name].wait(20)

    def log(self, name: str) -> str:
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""

    @property
    def state(self) -> ServerState:
        """The server's state, which may be running."""
        return ServerState(self.folder / "state" / STATE_FILE)

    def rounds(self) -> list[dict[str, Any]]:
        begun = (self.folder / "state" / STATE_FILE).exists()
        return self.state.rounds() if begun else []

    def wait_round(self, t: int, seconds: float = 60.0) -> None:
        """Wait until t rounds are done."""
        self.wait(lambda: len(self.rounds()) >= t, seconds, f"round {t}")

    def wait_done(self, seconds: float = 90.0) -> None:
        server = self.processes["server"]
        self.wait(lambda: server.poll() is not None, seconds, "the end")
        assert server.returncode == 0, self.everything()

    def wait_logged(self, name: str, text: str, seconds: float = 40.0) -> None:
        self.wait(lambda: text in self.log(name), seconds, f"{text!r} in the log of {name}")

    def wait(self, ready: Any, seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < until, f"no {what} after {seconds} s\n{self.everything()}"
            time.sleep(0.05)

    def model(self, t: int | None = None) -> np.ndarray:
        return self.state.model(self.state.models()[-1] if t is None else t)

    def everything(self) -> str:
        texts = {name: self.log(name) for name in ("server", *self.names)}
        link = self.folder / "state" / "superlink" / "superlink.log"
        if link.exists():
            texts["superlink"] = link.read_text()
        return "\n".join(f"--- {name}\n{text[-3000:]}" for name, text in texts.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@dataclass
class GatewayDeployment(Deployment):
    """A `Deployment` whose nodes are gateways. Every gateway has the same number of devices;
    `invitations-0.txt` has what those of the first one need to enrol."""

    gateway: dict[str, Any] = field(default_factory=dict)  # more keys of [gateway]
    ports: list[int] = field(default_factory=list)  # of the gateways

    def __post_init__(self) -> None:
        super().__post_init__()
        make_server(self.folder / "gateway-tls", ["localhost"])
        for i in range(self.nodes):
            self.add_gateway(i)

    def agreement(self, i: int) -> str:
        """The first part of all settings files."""
        return (self.folder / f"node-{i}.toml").read_text().partition("[node]\n")[0]

    def add_gateway(self, i: int) -> None:
        devices = self.experiment.clients // self.nodes
        self.ports.append(free_port())
        table = {
            "server": f"localhost:{self.port}",
            "ca": "server/ca.pem",
            "keys": f"node-{i}",
            "state": f"state-{i}",
            "clients": devices,
            "listen": f"127.0.0.1:{self.ports[i]}",
            "certificate": "gateway-tls/server.pem",
            "certificate_key": "gateway-tls/server.key",
            "status": "none",
            "rate": 10_000.0,
            **self.gateway,
        }
        text = self.agreement(i) + "[gateway]\n" + toml(table)
        (self.folder / f"gateway-{i}.toml").write_text(text)
        self.invite(i, devices)

    def invite(self, i: int, devices: int) -> list[str]:
        """Make invitations of a gateway, and store them in the devices' file."""
        tokens = make_invitations(self.folder / f"gateway-{i}.toml", Code(()), devices, 1, 1.0)
        (self.folder / f"invitations-{i}.txt").write_text("\n".join(tokens) + "\n")
        return tokens

    @property
    def names(self) -> list[str]:
        return [f"gateway-{i}" for i in range(self.nodes)]

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        if name.startswith("gateway"):
            return self.start_module(name, "foltr", "gateway", *options)
        return super().start(name, *options)
