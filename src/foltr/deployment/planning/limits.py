"""What breaks first: the limits of the code and of its settings, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from foltr.deployment.flower.superlink import CONNECTIONS
from foltr.deployment.keys.roster_file import LARGEST as ROSTER
from foltr.deployment.planning.model import DAY, SHARE, Plan
from foltr.deployment.protocol.frames import ALL_CLIENTS, LARGEST, MOST_CLIENTS
from foltr.deployment.settings import GatewayTable

ASKED = 10**6  # clients in a round (`Agreement.asked`), and in a secure sum
PER_NODE = 2  # connections of a node to its SuperLink
CARD = 330  # bytes of a node in a roster
DEVICE_ANSWER = GatewayTable.max_bytes
DEVICE_ASK = 64_000_000  # bytes of an ask that a device accepts (`deployment/gateway/client.py`)
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
              "divide the devices among several federations; foltr does not average their models"),
        Limit("devices asked in a round", load.asked, ASKED,
              "ask fewer devices, in more rounds"),
        Limit("clients in a frame", each, MOST_CLIENTS, "more gateways", False),
        Limit("bytes of a frame between server and gateway", max(largest.down, largest.up),
              LARGEST, "more gateways, or fewer devices in a secure sum", False),
        Limit("gateways at one SuperLink", many, CONNECTIONS // PER_NODE,
              "several federations, or a change of foltr: CONNECTIONS in flower/superlink.py"),
        Limit("gateways in a roster", many, ROSTER // CARD,
              "several federations, or a change of foltr: LARGEST in keys/roster_file.py"),
        Limit("seconds of the SuperLink for an ask", link, upstream,
              "a longer deadline, fewer gateways or fewer devices in a round"),
        Limit("core of the server", plan.cpu_day["server"] / DAY, load.busy,
              "fewer rounds a day, or several federations"),
        Limit("core of the SuperLink", plan.cpu_day["SuperLink"] / DAY, load.busy,
              "database = false, larger gateways, or several federations"),
        Limit("memory of the server", 1e-3 * plan.server_memory, memory,
              "fewer devices in a round, or several federations"),
        Limit("memory of a gateway", 1e-3 * plan.gateway_memory, memory, "more gateways", False),
        Limit("bytes of a device's answer", max(step.up for step in steps), DEVICE_ANSWER,
              "raise max_bytes of the gateway, or a smaller model", False),
        Limit("bytes of an ask at a device", max(step.down for step in steps), DEVICE_ASK,
              "a smaller model, or fewer devices in a secure sum", False),
    ]  # fmt: skip
    idle = between - plan.waiting  # seconds that a round has besides waiting for devices
    if idle > 0.0:
        found.append(
            Limit("seconds of work in a round", plan.round_seconds - plan.waiting, idle,
                  "fewer rounds a day, fewer devices in a round, or a shorter poll")
        )  # fmt: skip
    else:
        found.append(
            Limit("seconds until the last device has polled", plan.waiting, between,
                  "fewer rounds a day, or a shorter poll", False)
        )  # fmt: skip
    for why, needed in plan.reasons.items() if plan.given is not None else ():
        way_out = f"--gateways {plan.needed}"
        found.append(Limit(f"gateways, because of {why}", needed, many, way_out, False))
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


def first_break(plan: Plan, memory: float, fixed: bool = False) -> Break | None:
    """The limit that more devices exceed first. The number of devices in a round grows with them,
    or is `fixed`. None if no limit is exceeded by 10^12 devices. Limits that two devices exceed
    already do not depend on their number, and are left out."""

    def at(devices: int) -> list[Limit]:
        load = plan.load
        share = 1.0 if fixed else devices / load.devices
        asked = min(devices, max(2, round(load.asked * share)))
        load = replace(load, devices=devices, asked=asked)
        return limits(replace(plan, load=load), memory)

    always = {limit.name for limit in at(2) if limit.used > 1.0}

    def worst(devices: int) -> Limit:
        return next(limit for limit in at(devices) if limit.name not in always)

    found = _first(lambda devices: worst(devices).used > 1.0)
    return None if found is None else Break(worst(found), found)


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
