"""One federation for `benchmarks/gateway.py`: a `foltr serve`, a `foltr gateway` and a process
with many devices, all real, and what they use: CPU, memory, bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from federation import children, cpu, folder_size, loopback_bytes, resident
from gateway_devices import Devices

from foltr.core.seeds import stream
from foltr.deployment.gateway.process import make_invitations
from foltr.deployment.local import GatewayDeployment
from foltr.deployment.planning.traffic import example_message
from foltr.deployment.protocol.frames import LARGEST
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code
from foltr.secure_sum.terms import degree_and_quorum

FEATURES = 46  # of `Synthetic`, the data that an experiment has without other instructions
SUM_STEPS = 4  # asks of a secure sum: keys, shares, masked updates, unmasking


@dataclass(frozen=True)
class Case:
    """What devices learn and send."""

    name: str
    ranker: str = "Linear()"
    learner: str = "PDGD()"
    channel: str | None = None

    def experiment(self, devices: int, rounds: int) -> Experiment:
        parts: dict[str, Any] = {"ranker": self.ranker, "learner": self.learner}
        if self.channel is not None:
            parts["channel"] = self.channel
        return Experiment(clients=devices, rounds=rounds, **parts)

    def about(self, devices: int) -> dict[str, Any]:
        """What a model of the cost must know of a round of all devices."""
        e = self.experiment(devices, 1)
        degree, _ = (
            degree_and_quorum(devices, e.channel.fewest(devices), False) if e.channel else (0, 0)
        )
        message, _ = example_message(e.learner, e.ranker, FEATURES)
        return {
            **asdict(self),
            "features": FEATURES,
            "devices": devices,
            "degree": degree,
            "steps": SUM_STEPS if e.channel else 1,
            "parameters": len(e.ranker.init(FEATURES, stream(0))),
            "words": len(message),
            "rewards": e.learner.reward_levels > 0,
        }


@dataclass(frozen=True)
class Moment:
    """What had been used at a moment: CPU in seconds by process, bytes, rounds."""

    time: float
    cpu: dict[str, float]
    loopback: int
    rounds: int
    devices: dict[str, Any]

    def since(self, before: Moment) -> Moment:
        """What was used since then."""
        counted = {
            name: value - before.devices[name]
            for name, value in self.devices.items()
            if isinstance(value, int | float) and name != "connected"
        }
        return Moment(
            self.time - before.time,
            {name: value - before.cpu[name] for name, value in self.cpu.items()},
            self.loopback - before.loopback,
            self.rounds - before.rounds,
            counted | {"connected": self.devices["connected"]},
        )


class Overdue(Exception):
    """A measurement that took longer than it may."""


@dataclass
class Federation:
    """The processes, while this is open.

    held: devices that keep their connection; None for all
    asked: devices in a round; None for all
    enough: share of them with which the server makes a round
    insecure: no TLS, neither at the gateway nor behind it"""

    case: Case
    devices: int
    rounds: int = 10**6
    held: int | None = None
    asked: int | None = None
    enough: float = 1.0
    insecure: bool = False
    gateway: dict[str, Any] = field(default_factory=dict)  # more keys of [gateway]
    server: dict[str, Any] = field(default_factory=dict)  # more keys of [server]
    crowd: dict[str, Any] = field(default_factory=dict)  # more settings of the devices
    limit: float = 600.0  # seconds until this is given up

    def __enter__(self) -> Federation:
        self.until = time.monotonic() + self.limit
        self._place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._devices: subprocess.Popen[str] | None = None
        self._here: GatewayDeployment | None = None
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        e = self.case.experiment(self.devices, self.rounds)
        asked = self.devices if self.asked is None else self.asked
        fewest = round(self.enough * asked) if e.channel is None else e.channel.fewest(asked)
        agreed = {"asked": asked, "fewest": fewest, "noise": "system"}
        held = self.devices if self.held is None else self.held
        door = {"max_held": held, "grace": 0.5, "max_connections": 2 * self.devices + 100}
        door |= self.gateway
        server = {"deadline": 60.0, "wait": 300.0, "keep_models": 10, "max_bytes": LARGEST}
        server |= self.server
        folder = Path(self._place.name) / "federation"
        self._here = here = GatewayDeployment(folder, e, 1, server, agreed, gateway=door)
        settings, options = folder / "gateway-0.toml", ("--insecure",) if self.insecure else ()
        (token,) = make_invitations(settings, Code(()), self.devices, self.devices, 1.0)
        here.start("server", *options)
        here.wait_logged("server", "nodes connect to", self._left(60.0))
        here.start("gateway-0", *options)
        here.wait_logged("gateway-0", "devices connect to", self._left(60.0))
        here.wait_logged("gateway-0", "as node", self._left(60.0))
        ca = None if self.insecure else str(folder / "gateway-tls" / "ca.pem")
        how = Devices(str(settings), here.ports[0], ca, token, self.devices, held, **self.crowd)
        (folder / "crowd.json").write_text(json.dumps(asdict(how)))
        self.idle = cpu(here.processes["gateway-0"].pid)  # before the first device
        words = [sys.executable, str(Path(__file__).with_name("gateway_devices.py"))]
        self._devices = subprocess.Popen(
            [*words, str(folder / "crowd.json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        server_process = here.processes["server"].pid
        self.pids = {
            "gateway": here.processes["gateway-0"].pid,
            "server": server_process,
            "superlink": children(server_process)[0],
            "devices": self._devices.pid,
        }

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._devices is not None:
            self._devices.kill()
            self._devices.wait()
        if self._here is not None:
            self._here.__exit__(None, None, None)
        self._place.cleanup()

    def _left(self, most: float = 1e9) -> float:
        left = self.until - time.monotonic()
        if left <= 0.0:
            raise Overdue(f"not done after {self.limit:g} s\n{self.here.everything()[-2000:]}")
        return min(left, most)

    @property
    def here(self) -> GatewayDeployment:
        assert self._here is not None
        return self._here

    def command(self, words: str) -> dict[str, Any]:
        """Send a command to the devices. Returns their counters."""
        assert self._devices is not None and self._devices.stdin and self._devices.stdout
        try:
            self._devices.stdin.write(words + "\n")
            self._devices.stdin.flush()
            return json.loads(self._devices.stdout.readline())
        except (OSError, ValueError):
            raise Overdue("the devices' process has ended: see above") from None

    def report(self) -> dict[str, Any]:
        return self.command("report")

    def now(self) -> Moment:
        counters, rounds = self.report(), len(self.here.rounds())
        used = {name: cpu(pid) for name, pid in self.pids.items()}
        return Moment(time.monotonic(), used, loopback_bytes(), rounds, counters)

    def memory(self) -> dict[str, float]:
        """Megabytes of each process."""
        return {name: round(resident(pid), 1) for name, pid in self.pids.items()}

    def disk(self) -> dict[str, float]:
        """Megabytes on disk: the states of the gateway and of the server."""
        folder = self.here.folder
        return {
            "gateway": folder_size(folder / "state-0"),
            "server": folder_size(folder / "state"),
        }

    def enrolled(self) -> None:
        """Wait until all devices are enrolled."""
        while self.report()["enrolled"] < self.devices:
            self._left()
            time.sleep(0.2)

    def wait_rounds(self, rounds: int) -> None:
        """Wait until so many rounds are done."""
        while len(self.here.rounds()) < rounds:
            if self.here.processes["server"].poll() not in (None, 0):
                raise Overdue(f"the server has ended\n{self.here.everything()[-2000:]}")
            self._left()
            time.sleep(0.01)

    def pause(self, seconds: float) -> None:
        self._left()
        time.sleep(seconds)

    def measured(self, rounds: int, warm: int = 2) -> Moment:
        """What so many rounds use, after some that do not count."""
        begin = len(self.here.rounds()) + warm
        self.wait_rounds(begin)
        before = self.now()
        self.wait_rounds(before.rounds + rounds)
        return self.now().since(before)

    def answered(self, rounds: int) -> list[int]:
        """The messages of each of the last rounds."""
        return [about["answered"] for about in self.here.rounds()[-rounds:]]

    def frames(self, rounds: int) -> tuple[float, float]:
        """Mean bytes of the frames that the server sent and got in each of the last rounds."""
        last = [about["bytes"] for about in self.here.rounds()[-rounds:]]
        return sum(a for a, _ in last) / len(last), sum(b for _, b in last) / len(last)
