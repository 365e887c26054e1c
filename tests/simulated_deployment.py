"""Gateways and their simulated devices as processes on this machine."""

import subprocess
from dataclasses import dataclass

from foltr.deployment.local import GatewayDeployment, toml


@dataclass
class SimulatedDeployment(GatewayDeployment):
    """A `Deployment` whose first nodes, or all of them, are gateways. The devices of each gateway
    share one process (`devices-0`, ...)."""

    gateways: int | None = None  # number of nodes that are gateways; None: all

    def add_gateway(self, i: int) -> None:
        if self.gateways is not None and i >= self.gateways:
            return
        super().add_gateway(i)
        e = self.experiment
        table = {
            "gateway": f"https://localhost:{self.ports[i]}",
            "ca": "gateway-tls/ca.pem",
            "devices": e.clients // self.nodes,
            "population": e.clients,
            "invitations": f"invitations-{i}.txt",
            "seed": e.seed,
            "data": repr(e.data),
            "users": repr(e.users),
            "partition": repr(e.partition),
        }
        text = self.agreement(i) + "[devices]\n" + toml(table)
        (self.folder / f"devices-{i}.toml").write_text(text)

    @property
    def names(self) -> list[str]:
        gateways = len(self.ports)
        behind = [f"{kind}-{i}" for i in range(gateways) for kind in ("gateway", "devices")]
        return behind + [f"node-{i}" for i in range(gateways, self.nodes)]

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        if name.startswith("devices"):
            return self.start_module(name, "foltr", "simulate-devices", *options)
        return super().start(name, *options)
