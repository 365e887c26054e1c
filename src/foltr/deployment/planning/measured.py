"""The figures of `benchmarks/gateway.py` that `foltr plan` computes with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("measured.json")


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
    """The content of the file."""

    machine: Mapping[str, Any]
    date: str
    command: str
    points: tuple[Point, ...]
    constants: Constants


@cache
def measured(path: Path = FILE) -> Measured:
    content = json.loads(path.read_text())
    points = tuple(Point(**each) for each in content["slopes"])
    about = content["machine"], content["date"], content["command"]
    return Measured(*about, points, Constants(**content["constants"]))
