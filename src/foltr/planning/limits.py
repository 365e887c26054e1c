"""What breaks first: the limits of the code and of its settings, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from foltr.federated.frames import ALL_CLIENTS, LARGEST, MOST_CLIENTS
from foltr.federated.roster_file import LARGEST as ROSTER
from foltr.federated.superlink import CONNECTIONS
from foltr.planning.model import DAY, SHARE, Plan
from foltr.serving.settings import GatewayTable

ASKED = 10**6  # clients in a round (`Agreement.asked`), and in a secure sum
PER_NODE = 2  # connections of a node to its SuperLink
CARD = 330  # bytes of a node in a roster
DEVICE_ANSWER = GatewayTable.max_bytes
DEVICE_ASK = 64_000_000  # bytes of an ask that a device accepts (`gateway/client.py`)
MOST_DEVICES = 10**12


class Limit(NamedTuple):
    """A limit: what is needed, how much there is, and what to do when it is too little.

    `own`: whether dividing the devices among several federations helps."""

    name: str
    need: float
    have: float
    way_out: str
    own: bool = True

    @property
    def used(self) -> float:
        return self.need / self.have


def limits(plan: Plan, memory: float) -> list[Limit]:
    """All limits, the one that is used most first. `memory`: gigabytes of a machine."""
    load, many = plan.load, plan.gateways
    each = ceil(load.asked / many)
    largest, steps = load.traffic.largest(each), load.traffic.steps()
    between = DAY / load.rounds
    upstream = (1.0 - SHARE) * load.deadline  # what is left of a step for the server
    link = plan.superlink_work / (1 + load.steps)
    found = [
        Limit("devices of a federation", load.devices, ALL_CLIENTS,
              "divide the devices among several federations, and average their models"),
        Limit("devices asked in a round", load.asked, ASKED,
              "ask fewer devices, in more rounds"),
        Limit("clients in a frame", each, MOST_CLIENTS, "more gateways", False),
        Limit("bytes of a frame between server and gateway", max(largest.down, largest.up),
              LARGEST, "more gateways, or fewer devices in a secure sum", False),
        Limit("gateways at one SuperLink", many, CONNECTIONS // PER_NODE,
              "raise CONNECTIONS in superlink.py, or several federations"),
        Limit("gateways in a roster", many, ROSTER // CARD,
              "raise LARGEST in roster_file.py, or several federations"),
        Limit("seconds of the SuperLink in a step", link, upstream,
              "a longer deadline, fewer gateways or fewer devices in a round"),
        Limit("seconds of a round", plan.round_seconds, between,
              "fewer rounds a day, fewer devices in a round, or a shorter poll"),
        Limit("core of the server", plan.server_round / between, load.busy,
              "fewer rounds a day, or several federations"),
        Limit("core of the SuperLink", plan.superlink_round / between, load.busy,
              "database = false, larger gateways, or several federations"),
        Limit("memory of the server", 1e-3 * plan.server_memory, memory,
              "fewer devices in a round, or several federations"),
        Limit("memory of a gateway", 1e-3 * plan.gateway_memory, memory, "more gateways", False),
        Limit("bytes of a device's answer", max(step.up for step in steps), DEVICE_ANSWER,
              "raise max_bytes of the gateway, or a smaller model", False),
        Limit("bytes of an ask at a device", max(step.down for step in steps), DEVICE_ASK,
              "a smaller model, or fewer devices in a secure sum", False),
    ]  # fmt: skip
    if load.connected < 1.0:
        found.append(
            Limit("seconds until a polling device has asked", load.poll, SHARE * load.deadline,
                  f"raise deadline to {ceil(load.poll / SHARE)} s, or poll more often", False)
        )  # fmt: skip
    return sorted(found, key=lambda limit: -limit.used)


def federations(plan: Plan, memory: float) -> int:
    """Into how many federations the devices must be divided."""
    return max(1, *(ceil(limit.used) for limit in limits(plan, memory) if limit.own))


@dataclass(frozen=True)
class Break:
    """A limit, and the number of devices from which it is exceeded."""

    limit: Limit
    devices: int


def first_break(plan: Plan, memory: float) -> Break | None:
    """The limit that more devices exceed first, if all else grows with them; None if no limit is
    exceeded by 10^12 devices."""

    def at(devices: int) -> Limit:
        load = plan.load
        asked = min(devices, max(2, round(load.asked / load.devices * devices)))
        return limits(Plan(replace(load, devices=devices, asked=asked), plan.costs), memory)[0]

    found = _first(lambda devices: at(devices).used > 1.0)
    return None if found is None else Break(at(found), found)


def _first(exceeded: Callable[[int], bool]) -> int | None:
    """The smallest number, to 1 %, for which something that stays true is true."""
    high = 2
    while not exceeded(high):
        high *= 2
        if high > MOST_DEVICES:
            return None
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if exceeded(middle) else (middle, high)
    return high
