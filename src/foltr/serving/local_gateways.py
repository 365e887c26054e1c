"""A federation of processes on this machine whose clients are devices behind gateways: one `foltr
serve`, several `foltr gateway`, and simulated devices. For tests and benchmarks."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import Any

from foltr.federated.keys import make_server
from foltr.runs.user_files import Code
from foltr.serving.gateway_commands import make_invitations
from foltr.serving.local_deployment import Deployment, free_port, toml


@dataclass
class GatewayDeployment(Deployment):
    """A `Deployment` whose first nodes, or all of them, are gateways. Every gateway has the same
    number of devices, which share one process per gateway (`devices-0`, ...)."""

    gateways: int | None = None  # number of nodes that are gateways; None: all
    gateway: dict[str, Any] = field(default_factory=dict)  # more keys of [gateway]
    ports: list[int] = field(default_factory=list)  # of the gateways

    def __post_init__(self) -> None:
        super().__post_init__()
        e, each = self.experiment, self.experiment.clients // self.nodes
        make_server(self.folder / "gateway-tls", ["localhost"])
        for i in range(self.nodes if self.gateways is None else self.gateways):
            agreed, _, _ = (self.folder / f"node-{i}.toml").read_text().partition("[node]\n")
            self.ports.append(free_port())
            table = {
                "server": f"localhost:{self.port}",
                "ca": "server/ca.pem",
                "keys": f"node-{i}",
                "state": f"state-{i}",
                "clients": each,
                "listen": f"127.0.0.1:{self.ports[i]}",
                "certificate": "gateway-tls/server.pem",
                "certificate_key": "gateway-tls/server.key",
                "status": "none",
                "rate": 10_000.0,
                **self.gateway,
            }
            (self.folder / f"gateway-{i}.toml").write_text(agreed + "[gateway]\n" + toml(table))
            devices = {
                "gateway": f"https://localhost:{self.ports[i]}",
                "ca": "gateway-tls/ca.pem",
                "devices": each,
                "population": e.clients,
                "invitations": f"invitations-{i}.txt",
                "seed": e.seed,
                "data": repr(e.data),
                "users": repr(e.users),
                "partition": repr(e.partition),
            }
            (self.folder / f"devices-{i}.toml").write_text(agreed + "[devices]\n" + toml(devices))
            self.invite(i, each)

    def invite(self, i: int, devices: int) -> list[str]:
        """Make invitations of a gateway, and store them in the devices' file."""
        tokens = make_invitations(self.folder / f"gateway-{i}.toml", Code(()), devices, 1, 1.0)
        (self.folder / f"invitations-{i}.txt").write_text("\n".join(tokens) + "\n")
        return tokens

    @property
    def names(self) -> list[str]:
        gateways = len(self.ports)
        behind = [f"{kind}-{i}" for i in range(gateways) for kind in ("gateway", "devices")]
        return behind + [f"node-{i}" for i in range(gateways, self.nodes)]

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        if name.startswith("gateway"):
            return self.start_module(name, "foltr", "gateway", *options)
        if name.startswith("devices"):
            return self.start_module(name, "foltr", "simulate-devices", *options)
        return super().start(name, *options)
