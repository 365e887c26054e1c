"""The constants of `foltr plan`, from the figures of `benchmarks/gateway.py`.

Constants that share a figure are fitted to all points together: least squares of the relative
errors, with no constant below zero."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from foltr.core import Array
from foltr.deployment.planning.model import DAY, FILE, HOLD_SECONDS, Constants, Plan, Workload
from foltr.deployment.planning.traffic import Traffic
from foltr.deployment.protocol.frames import HEADER
from foltr.secure_sum.terms import LEAST as LEAST_SHARE

LEAST = 1e-4  # seconds: less cannot be measured
SEARCHES = (4, 40)  # of the devices that were measured
WIDTH = 46  # features of the crowd that was measured


class Point(NamedTuple):
    """What a round of n devices used, all behind one gateway. CPU in seconds of each process,
    bytes in all."""

    name: str
    ranker: str
    learner: str
    channel: str | None
    features: int
    devices: int
    degree: int  # neighbours in a secure sum; 0 without one
    steps: int  # asks to each device
    parameters: int
    words: int  # numbers of a message
    rewards: bool  # whether messages are a seed and rewards
    rounds: int  # that were measured
    seconds: float
    cpu: Mapping[str, float]
    thinking: float  # CPU of all devices in their part of a secure sum
    up: float  # HTTP between the devices and the gateway
    down: float
    wire: float  # everything on the loopback interface
    frames_down: float  # frames between the server and the gateway
    frames_up: float
    memory: Mapping[str, float]  # megabytes of each process


def stored_points() -> list[Point]:
    """The measured rounds that the stored constants are fitted to."""
    return [Point(**each) for each in json.loads(FILE.read_text())["slopes"]]


def traffic_of(point: Point) -> Traffic:
    n = point.devices
    return Traffic(n, n, point.parameters, point.words, point.degree)


def frames_of(point: Point) -> float:
    """Bytes of the devices' frames in a round."""
    return point.devices * traffic_of(point).of_device().both


def upstream_of(point: Point) -> float:
    """Bytes of the frames between the server and the gateway in a round."""
    n = point.devices
    return traffic_of(point).of_gateway(n, n, rolls_of(point)).both


def rolls_of(p: Point) -> float:
    """How often in a round the server asked who can be reached. It uses an answer for a second, so
    rounds that follow each other quickly share one."""
    steps = sum(step.down for step in traffic_of(p).steps(p.devices))
    return min(1.0, max(0.0, (p.frames_down - steps) / HEADER.size))


def gateway_row(p: Point) -> list[float]:
    return [p.steps, p.steps * p.devices, frames_of(p)]


def server_row(p: Point) -> list[float]:
    draws = p.devices * p.parameters if p.rewards else 0
    return [p.steps, p.steps * p.devices, upstream_of(p), p.devices * p.degree, draws]


def superlink_row(p: Point) -> list[float]:
    return [rolls_of(p) + p.steps, upstream_of(p), p.seconds]


def device_row(p: Point) -> list[float]:
    return [p.steps * p.devices, frames_of(p)]


def sum_row(p: Point) -> list[float]:
    return [p.devices, p.devices * p.degree, p.devices * p.degree * p.parameters]


def predicted(p: Point, costs: Constants, rolls: float | None = None) -> dict[str, float]:
    """What the model says about a point: CPU seconds of each process, and seconds, of a round. In
    a measurement, all devices share one core, and the gateway has the other one; the server and
    the SuperLink wait for them (`cpu_seconds`). Messages between the processes take time, too.
    `rolls`: how often the server asks who can be reached; None for as often as was measured."""
    load = Workload(
        p.devices, 1.0, p.devices, p.parameters, p.words, rewards=p.rewards,
        fewest=LEAST_SHARE if p.degree else None, connected=1.0,
    )  # fmt: skip
    often = rolls_of(p) if rolls is None else rolls
    plan = Plan(load, costs, given=1, rolls=often, waited=p.seconds)
    each = costs.device_sum, costs.device_neighbour, costs.device_mask
    sums = float(np.dot(sum_row(p), each)) if p.degree else 0.0
    found = {
        "gateway": plan.gateway_round(1),
        "server": plan.server_round,
        "superlink": plan.superlink_round,
        "devices": sums + float(np.dot(device_row(p), [costs.device_request, costs.device_byte])),
    }
    seconds = (plan.rolls + p.steps) * costs.latency + cpu_seconds(found)
    return found | {"thinking": sums, "seconds": seconds}


def cpu_seconds(cpu: Mapping[str, float]) -> float:
    """The seconds of a round on two cores, without the time of messages: the gateway and the
    devices work at the same time, then the SuperLink and the server."""
    return cpu["server"] + cpu["superlink"] + max(cpu["gateway"], cpu["devices"])


def fitted(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Constants c >= 0 that minimise sum_i ((rows_i . c - values_i) / values_i)^2."""
    from scipy.optimize import nnls

    known = np.maximum(np.array(values, float), LEAST)
    scaled = np.array(rows, float) / known[:, None]
    size = np.maximum(scaled.max(axis=0), 1e-300)
    found: Array = nnls(scaled / size, np.ones(len(known)))[0]
    return (found / size).tolist()


def constants_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `measured.json`, from what `benchmarks/gateway.py --json` stored."""
    points = [Point(**each) for each in found["slopes"]]
    plain, sums = [p for p in points if not p.degree], [p for p in points if p.degree]
    parts = found["parts"]
    names: dict[str, float] = {}

    def take(prefix: str, keys: str, values: Sequence[float]) -> None:
        named = keys.split()
        names.update({f"{prefix}_{key}": value for key, value in zip(named, values, strict=True)})

    roll = {"gateway": 0.0, "server": 0.0, "superlink": 0.0, **parts["roll"]}
    cpu = {
        name: [p.cpu[name] - rolls_of(p) * p.devices * each for p in points]
        for name, each in roll.items()
    }
    take("gateway", "step answer byte", fitted(list(map(gateway_row, points)), cpu["gateway"]))
    keys = "step answer byte neighbour draw"
    take("server", keys, fitted(list(map(server_row, points)), cpu["server"]))
    keys = "step byte second"
    take("superlink", keys, fitted(list(map(superlink_row, points)), cpu["superlink"]))
    sent = [p.cpu["devices"] - p.thinking for p in points]
    take("device", "request byte", fitted(list(map(device_row, points)), sent))
    take("gateway", "idle enrol", [parts["idle request"], parts["enrol"]])
    names |= {"gateway_roll": roll["gateway"], "server_roll": roll["server"]}
    names |= {"server_second": found["crowd"]["cpu share"]["server"]}
    names["gateway_connection"] = _connection(found["crowd"], names)
    rows, seconds = [], []
    for name, costs in found["device"].items():
        (size,) = {p.parameters for p in plain if p.name == name}
        for searches, each in zip(SEARCHES, costs, strict=True):
            rows.append([1, searches, searches * size])
            seconds.append(each)
    take("device", "answer search number", fitted(rows, seconds))
    thought = [p.thinking for p in sums]
    take("device", "sum neighbour mask", fitted(list(map(sum_row, sums)), thought))
    names["latency"] = _latency(points)
    names |= _bytes(points, parts) | _memory(points, found)
    names |= _crowded(found["crowd"], names)
    named = "machine", "date", "command", "load before", "parts", "device", "crowd", "memory"
    kept = {key: short(found[key]) for key in (*named, "dying") if key in found}
    constants = asdict(Constants(**{key: short(value) for key, value in names.items()}))
    return {**kept, "constants": constants, "slopes": [short(p._asdict()) for p in points]}


def _latency(points: Sequence[Point]) -> float:
    """Seconds L of an exchange that minimise sum_i ((cpu_seconds_i + L exchanges_i - seconds_i) /
    seconds_i)^2, if they are not negative."""
    s = np.array([p.seconds for p in points])
    x = np.array([rolls_of(p) + p.steps for p in points]) / s
    return max(0.0, float(x @ (1.0 - [cpu_seconds(p.cpu) for p in points] / s) / (x @ x)))


def _bytes(points: Sequence[Point], parts: Mapping[str, Any]) -> dict[str, float]:
    """HTTP around frames, and TCP and TLS around HTTP."""
    answers = [p.steps * p.devices for p in points]
    sizes = [traffic_of(p).of_device() for p in points]
    up = [(p.up - p.devices * s.up) / a for p, s, a in zip(points, sizes, answers, strict=True)]
    down = [
        (p.down - p.devices * s.down) / a for p, s, a in zip(points, sizes, answers, strict=True)
    ]
    idle, new = parts["idle bytes"], parts["new connection bytes"]
    wire = idle["wire"] - idle["up"] - idle["down"]
    return {
        "http_up": float(np.median(up)),
        "http_down": float(np.median(down)),
        "wire_answer": 2.0 * wire,  # two requests
        "idle_up": idle["up"],
        "idle_down": idle["down"],
        "idle_wire": idle["wire"],
        "connection_wire": new["wire"],
    }


def crowd_load(crowd: Mapping[str, Any]) -> Workload:
    """The workload of the crowd that was measured: PDGD with a linear ranker."""
    enrolled, connected = crowd["enrolled"], crowd["connected"]
    rounds = len(crowd["rounds"]) * DAY / crowd["seconds"]
    return Workload(
        enrolled, rounds, connected, WIDTH, WIDTH, connected=connected / enrolled,
        poll=crowd["poll"], deadline=1.5 * crowd["poll"],
    )  # fmt: skip


def _connection(crowd: Mapping[str, Any], names: Mapping[str, float]) -> float:
    """CPU of the gateway for a request on a new connection: what the crowd needed besides answers
    and requests on connections that are kept. A gateway that is mostly idle needs more for each
    connection than one that is busy."""
    load, seconds = crowd_load(crowd), crowd["seconds"]
    kept = load.connected * load.devices
    known = crowd["answers"] * names["gateway_answer"]
    known += seconds * kept / HOLD_SECONDS * names["gateway_idle"]
    known += len(crowd["rounds"]) * load.devices * names["gateway_roll"]
    many = seconds * (load.devices - kept) / load.poll
    return max(0.0, (seconds * crowd["cpu share"]["gateway"] - known) / many)


def _crowded(crowd: Mapping[str, Any], names: Mapping[str, float]) -> dict[str, float]:
    """Memory of the gateway for each enrolled device, most of which come and go, and the part of
    its disk that does not depend on them."""
    load = crowd_load(crowd)
    frames = load.traffic.of_device()
    shared = load.asked * names["gateway_connection_memory"]
    shared += load.asked * frames.both * names["gateway_frame_memory"]
    left = crowd["memory"]["gateway"] - names["gateway_base_memory"] - shared
    stored = 1e-6 * (load.devices * names["device_disk"] + load.asked * frames.up)
    return {
        "device_memory": max(names["device_memory"], left / load.devices),
        "gateway_base_disk": max(0.0, crowd["disk"]["gateway"] - stored),
    }


def _memory(points: Sequence[Point], found: Mapping[str, Any]) -> dict[str, float]:
    """Memory of the gateway by connections and frames, and of the server by answers."""
    parts, each = found["parts"], found["parts"]["device memory"]
    plain = [p for p in points if not p.degree]
    rows: list[list[float]] = [[1, p.devices, frames_of(p)] for p in plain]
    gateway = fitted(rows, [p.memory["gateway"] - p.devices * each for p in plain])
    rows = [[1, p.devices, p.frames_up] for p in plain]
    server = fitted(rows, [p.memory["server"] for p in plain])
    keys = "gateway_base gateway_connection gateway_frame server_base server_answer server_byte"
    named = dict(zip(keys.split(), gateway + server, strict=True))
    return {f"{key}_memory": value for key, value in named.items()} | {
        "device_memory": each,
        "device_disk": parts["disk"],
    }


def short(value: Any) -> Any:
    """A value of JSON whose numbers have eight digits."""
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, Mapping):
        return {key: short(each) for key, each in value.items()}
    return [short(each) for each in value] if isinstance(value, list | tuple) else value
