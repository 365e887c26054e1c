"""A federation on paper: CPU, bytes, memory, gateways and money of many devices.

Everything is linear in constants that `benchmarks/gateway.py` measured and fitted; `measured.json`
stores them. In a round, each of n devices answers S
asks (one, or the four steps of a secure sum) through one of G gateways:

    gateway    S G step + S n answer + bytes of the devices' frames + roll of all devices
    server     S G step + S n answer + bytes of the gateways' frames + roll of all devices
               + n k (secure sum of degree k) + n d (if messages are a seed and rewards)
    SuperLink  (S + 1) G step + bytes of the gateways' frames + seconds in which the server waits

A roll is the server's question which devices a gateway can reach, once in a round. Besides the
rounds, a device asks for asks: on a connection that it keeps, every HOLD_SECONDS, or
on a new connection, every `poll` seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil
from pathlib import Path
from typing import Any

from foltr.core.errors import require
from foltr.deployment.keys.roster import MOST
from foltr.deployment.planning.traffic import Bytes, Traffic
from foltr.deployment.settings import GatewayTable
from foltr.secure_sum.terms import degree_and_quorum

FILE = Path(__file__).with_name("measured.json")
DAY = 86_400.0
HOLD_SECONDS = GatewayTable.hold  # for which a request waits for an ask
FRAME_BYTES = 64_000_000  # between a gateway and the server, at most
POLL_SECONDS = 1.0  # for which a device that polls is connected, at most
SHARE = 0.8  # share of the deadline in which devices must answer (`deployment/gateway/process.py`)
SUM_STEPS = 4  # of a secure sum: keys, shares, masked updates, unmasking


@dataclass(frozen=True)
class Constants:
    """The constants of the model: seconds of one core, bytes, and megabytes where they say so."""

    gateway_step: float  # an ask of the server
    gateway_answer: float  # an answer of a device, with the request for its ask
    gateway_byte: float  # a byte of the devices' frames
    gateway_idle: float  # a request that finds no ask
    gateway_connection: float  # the same on a new TLS connection, of one that is mostly idle
    gateway_enrol: float
    gateway_roll: float  # for each enrolled device, in a round
    server_step: float
    server_answer: float
    server_byte: float
    server_neighbour: float  # for each client and neighbour in a secure sum
    server_draw: float  # for each client and parameter, if messages are a seed and rewards
    server_roll: float  # for each enrolled device, in a round
    server_second: float  # a second, whatever the server does
    superlink_step: float
    superlink_byte: float
    superlink_second: float  # a second in which the server waits for answers
    device_answer: float
    device_search: float
    device_number: float  # for each search and parameter
    device_request: float  # HTTP and TLS of an answer
    device_byte: float
    device_sum: float  # a secure sum
    device_neighbour: float
    device_mask: float  # for each neighbour and parameter
    latency: float  # seconds of an exchange in which nobody computes
    http_up: float  # bytes of HTTP around the frames of an answer
    http_down: float
    wire_answer: float  # bytes of TCP and TLS for an answer
    idle_up: float
    idle_down: float
    idle_wire: float
    connection_wire: float  # bytes of a request on a new connection, all included
    gateway_base_memory: float  # megabytes
    gateway_connection_memory: float
    gateway_frame_memory: float  # for each byte of the devices' frames
    device_memory: float  # of the gateway, for each enrolled device
    server_base_memory: float
    server_answer_memory: float
    server_byte_memory: float  # for each byte of the answers
    device_disk: float  # of the gateway, for each enrolled device
    gateway_base_disk: float  # megabytes


@dataclass(frozen=True)
class Measured:
    """What `foltr plan` computes with, as `benchmarks/gateway.py` measured it.

    Fields
        machine, date, command: where, when and how it was measured
        devices: the largest number of devices in a measured round
        summed: the same of rounds with a secure sum; 0 without any
        constants: fitted to all rounds"""

    machine: Mapping[str, Any]
    date: str
    command: str
    devices: int
    summed: int
    constants: Constants


@cache
def measured() -> Measured:
    content = json.loads(FILE.read_text())
    rounds = content["slopes"]
    return Measured(
        machine=content["machine"],
        date=content["date"],
        command=content["command"],
        devices=max(each["devices"] for each in rounds),
        summed=max((each["devices"] for each in rounds if each["degree"]), default=0),
        constants=Constants(**content["constants"]),
    )


@dataclass(frozen=True)
class Workload:
    """What is planned.

    devices: enrolled devices
    rounds: rounds a day
    asked: devices in a round
    parameters, words: numbers of the model, and of a message
    searches: of a device in a round
    rewards: whether messages are a seed and rewards
    fewest: share of the asked devices that a secure sum needs; None without one
    connected: share of the devices that keep a connection
    poll: seconds between two requests of the other devices
    deadline: seconds of a step (`deadline` of the server)
    busy: share of a core that a gateway uses at most
    connections: most connections of a gateway"""

    devices: int
    rounds: float
    asked: int
    parameters: int
    words: int
    searches: int = 4
    rewards: bool = False
    fewest: float | None = None
    connected: float = 0.2
    poll: float = 60.0
    deadline: float = 100.0
    busy: float = 0.5
    connections: int = 16_000

    def __post_init__(self) -> None:
        require(self.devices >= 1, f"devices must be >= 1, got {self.devices}")
        inside = 1 <= self.asked <= self.devices
        require(inside, f"asked must be in 1 .. {self.devices} (devices), got {self.asked}")
        require(self.rounds > 0.0, f"rounds a day must be > 0, got {self.rounds:g}")
        share = f"connected is a share of the devices, 0 .. 1, got {self.connected:g}"
        require(0.0 <= self.connected <= 1.0, share)
        require(self.poll >= 1.0, f"poll must be >= 1 second, got {self.poll:g}")
        require(self.deadline > 0.0, f"deadline must be > 0 seconds, got {self.deadline:g}")
        require(0.0 < self.busy <= 1.0, f"busy is a share of a core, (0, 1], got {self.busy:g}")
        require(self.connections >= 1, f"connections must be >= 1, got {self.connections}")
        require(self.searches >= 1, f"searches must be >= 1, got {self.searches}")
        alone = f"a secure sum needs at least 2 devices in a round, got {self.asked}"
        require(self.fewest is None or self.asked >= 2, alone)

    @property
    def steps(self) -> int:
        """Asks to each device in a round."""
        return 1 if self.fewest is None else SUM_STEPS

    @cached_property
    def degree(self) -> int:
        """Neighbours of a device in a secure sum; 0 without one."""
        if self.fewest is None:
            return 0
        least = max(self.asked // 2 + 1, ceil(self.fewest * self.asked - 1e-9))
        return degree_and_quorum(self.asked, least, False)[0]

    @cached_property
    def traffic(self) -> Traffic:
        sizes = self.parameters, self.words, self.degree
        return Traffic(self.asked, self.devices, *sizes)


@dataclass(frozen=True)
class Plan:
    """The cost of a workload. CPU is in seconds of one core of the machine that was measured.
    `given`: the number of gateways; None for as many as are needed. `rolls`: how often in a round
    the server asks who can be reached. `waited`: seconds of a round in which the server waits;
    None for as long as devices that poll may take."""

    load: Workload
    costs: Constants
    given: int | None = None
    rolls: float = 1.0
    waited: float | None = None

    # --- devices ---

    @property
    def kept(self) -> float:
        """Connections that devices keep."""
        return self.load.connected * self.load.devices

    @property
    def requests(self) -> float:
        """Requests a second that find no ask, on connections that are kept."""
        return self.kept / HOLD_SECONDS

    @property
    def polls(self) -> float:
        """Requests a second on new connections."""
        return (self.load.devices - self.kept) / self.load.poll

    @property
    def device_cpu(self) -> float:
        """CPU of a device in a round in which it is asked."""
        c, load = self.costs, self.load
        learning = c.device_search + c.device_number * load.parameters
        sums = c.device_sum + load.degree * (c.device_neighbour + c.device_mask * load.parameters)
        requests = load.steps * c.device_request + load.traffic.of_device().both * c.device_byte
        made = c.device_answer + load.searches * learning + requests
        return made + (sums if load.degree else 0.0)

    @cached_property
    def device_round(self) -> Bytes:
        """HTTP bytes of a device in a round in which it is asked."""
        c, frames = self.costs, self.load.traffic.of_device()
        around = Bytes(c.http_down + c.wire_answer / 2, c.http_up + c.wire_answer / 2)
        return Bytes(
            frames.down + self.load.steps * around.down, frames.up + self.load.steps * around.up
        )

    @property
    def idle_day(self) -> float:
        """Bytes a day of all requests that find no ask, both directions."""
        c = self.costs
        return DAY * (self.requests * c.idle_wire + self.polls * c.connection_wire)

    @property
    def bytes_day(self) -> float:
        """Bytes a day between all devices and the gateways, both directions."""
        return self.load.rounds * self.load.asked * self.device_round.both + self.idle_day

    @property
    def egress_day(self) -> float:
        """Bytes a day that gateways send to devices. Half of the bytes of idle requests, whose
        headers and handshakes go both ways."""
        return self.load.rounds * self.load.asked * self.device_round.down + self.idle_day / 2

    # --- gateways ---

    def gateway_round(self, gateways: int) -> float:
        """CPU of all gateways in a round."""
        c, load = self.costs, self.load
        steps = load.steps * (gateways * c.gateway_step + load.asked * c.gateway_answer)
        frames = load.asked * load.traffic.of_device().both * c.gateway_byte
        return steps + frames + self.rolls * load.devices * c.gateway_roll

    @property
    def idle_cores(self) -> float:
        """Cores that requests without an ask use."""
        c = self.costs
        return self.requests * c.gateway_idle + self.polls * c.gateway_connection

    @property
    def window(self) -> float:
        """Seconds in which the answers of a round arrive, over all steps: at most until the next
        round."""
        return min(SHARE * self.load.deadline * self.load.steps, DAY / self.load.rounds)

    @cached_property
    def reasons(self) -> dict[str, int]:
        """How many gateways are needed, by reason."""
        load, busy = self.load, self.load.busy
        peak = self.gateway_round(0) / self.window + self.idle_cores
        free = busy - load.steps * self.costs.gateway_step / self.window
        return {
            "CPU": ceil(peak / max(free, 1e-3)),
            "connections": ceil((self.kept + POLL_SECONDS * self.polls) / load.connections),
            "size of frames": ceil(load.asked / self._fitting(FRAME_BYTES)),
            "places for devices": ceil(load.devices / MOST),
        }

    def _fitting(self, largest: int) -> int:
        """How many clients of a round fit into one frame."""
        low, high = 1, self.load.asked
        while low < high:
            middle = (low + high + 1) // 2
            size = self.load.traffic.largest(middle)
            if max(size.down, size.up) <= largest:
                low = middle
            else:
                high = middle - 1
        return low

    @property
    def gateways(self) -> int:
        return self.needed if self.given is None else self.given

    @property
    def needed(self) -> int:
        return max(1, *self.reasons.values())

    @property
    def why(self) -> str:
        """What decides how many gateways are needed."""
        return max(self.reasons, key=lambda name: self.reasons[name])

    @property
    def gateway_memory(self) -> float:
        """Megabytes of one gateway."""
        c, load = self.costs, self.load
        shared = max(self.kept, load.asked) * c.gateway_connection_memory
        shared += load.asked * load.traffic.of_device().both * c.gateway_frame_memory
        shared += load.devices * c.device_memory
        return c.gateway_base_memory + shared / self.gateways

    @property
    def gateway_disk(self) -> float:
        """Megabytes on the disks of all gateways: devices, the answers of a round, and SQLite's
        log of changes."""
        frames = self.load.asked * max(step.up for step in self.load.traffic.steps())
        logs = self.gateways * self.costs.gateway_base_disk
        return 1e-6 * (self.load.devices * self.costs.device_disk + frames) + logs

    # --- the server ---

    @cached_property
    def upstream(self) -> float:
        """Bytes of frames between the server and all gateways in a round."""
        load, many = self.load, self.gateways
        each = ceil(load.asked / many), ceil(load.devices / many)
        return many * load.traffic.of_gateway(*each, self.rolls).both

    @property
    def server_round(self) -> float:
        """CPU of the server in a round."""
        c, load = self.costs, self.load
        found = load.steps * (self.gateways * c.server_step + load.asked * c.server_answer)
        found += self.upstream * c.server_byte + self.rolls * load.devices * c.server_roll
        found += load.asked * load.degree * c.server_neighbour
        return found + (load.asked * load.parameters * c.server_draw if load.rewards else 0.0)

    @property
    def superlink_round(self) -> float:
        """CPU of the SuperLink in a round."""
        return self.superlink_work + self.waiting * self.costs.superlink_second

    @property
    def superlink_work(self) -> float:
        """CPU of the SuperLink for the messages of a round."""
        c, exchanges = self.costs, (self.rolls + self.load.steps) * self.gateways
        return exchanges * c.superlink_step + self.upstream * c.superlink_byte

    @property
    def waiting(self) -> float:
        """Seconds of a round in which the server waits until the last device has asked."""
        if self.waited is not None:
            return self.waited
        return 0.0 if self.load.connected >= 1.0 else self.load.poll

    @property
    def server_memory(self) -> float:
        """Megabytes of the server."""
        c, load = self.costs, self.load
        each = c.server_answer_memory + load.traffic.of_device().up * c.server_byte_memory
        return c.server_base_memory + load.asked * each

    @property
    def round_seconds(self) -> float:
        """Seconds of a round: until the last device has asked, then one process after the other.
        Gateways work at the same time, and devices too. A device that has answered a step waits
        for the next one on its connection."""
        gateway = self.gateway_round(self.gateways) / self.gateways
        waits = self.waiting + (self.rolls + self.load.steps) * self.costs.latency
        return waits + self.device_cpu + gateway + self.server_round + self.superlink_work

    # --- a day ---

    @property
    def cpu_day(self) -> dict[str, float]:
        """CPU seconds a day, by process; those of the devices are of all devices together."""
        load = self.load
        return {
            "gateways": load.rounds * self.gateway_round(self.gateways) + DAY * self.idle_cores,
            "server": load.rounds * self.server_round + DAY * self.costs.server_second,
            "SuperLink": load.rounds * self.superlink_round,
            "devices": load.rounds * load.asked * self.device_cpu,
        }

    @property
    def cores(self) -> int:
        """Cores to rent: one for each gateway, for the server and for the SuperLink."""
        return self.gateways + 2

    def money_day(self, core_hour: float | None, gb_egress: float | None) -> float | None:
        """The price of a day; None without prices."""
        if core_hour is None and gb_egress is None:
            return None
        cores = 24.0 * self.cores * (core_hour or 0.0)
        return cores + 1e-9 * self.egress_day * (gb_egress or 0.0)
