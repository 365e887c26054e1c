"""The figures of `benchmarks/gateway.py` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway_fit import Point

PROCESSES = ("gateway", "server", "superlink", "devices")


def parts_lines(found: Mapping[str, Any]) -> list[str]:
    """The cost of an answer, with its parts."""
    answer, memory, sent = found["answer"], found["memory"], found["bytes"]
    tls = answer["gateway"] - found["answer without TLS"]
    of_ask, alone = found["idle request without TLS"], found["parts"]
    rest = answer["gateway"] - tls - of_ask - sum(alone.values())
    lines = [
        f"{found['enrolled']:,} devices enrolled, {found['connected']:,} connected:"
        f" {found['answers per second']:,.0f} answers a second,"
        f" {found['seconds a round']:.2f} s a round",
        "CPU per answer in ms (its ask included; keep-alive, TLS, signature, on disk)",
        *(_line(name, answer[name]) for name in PROCESSES),
        "of the gateway's",
        _line("the request for the ask, no TLS", of_ask, "requests without an ask"),
        _line("TLS of both requests", tls, "against the same rounds without TLS"),
        *(_line(name, seconds, "alone") for name, seconds in alone.items()),
        _line("HTTP of the answer, event loop", rest, "the rest"),
        "other CPU of the gateway in ms",
        _line("a request that finds no ask", found["idle request"]),
        _line("the same on a new TLS connection", found["new connection"]),
        _line("  of it the handshake itself", found["tls"]["handshake"], "alone"),
        _line("enrolling a device", found["enrol"]),
        f"memory of the gateway in MB: {memory['empty']:.0f} without devices,"
        f" {memory['full']:.0f} with them, {memory['enrolled only']:.0f} when all connections are"
        " closed",
        f"bytes per answer: {sent['up']:.0f} up and {sent['down']:.0f} down in HTTP,"
        f" {sent['wire']:.0f} on the wire, server and SuperLink included",
    ]
    return lines


def _line(title: str, seconds: float, how: str = "") -> str:
    return f"  {title:34} {1e3 * seconds:8.3f}   {how}".rstrip()


def crowd_lines(found: Mapping[str, Any]) -> list[str]:
    shares = ", ".join(f"{name} {100 * found['cpu share'][name]:.0f} %" for name in PROCESSES)
    memory, disk = found["memory"]["gateway"], found["disk"]["gateway"]
    rounds = [f"{answers:,} in {seconds:.1f} s" for answers, seconds in found["rounds"]]
    return [
        f"{found['enrolled']:,} devices enrolled, {found['connected']:,} hold a connection, the"
        f" others connect every {found['poll']:g} s: {found['requests per second']:.0f} requests"
        " a second",
        f"  CPU, of one core: {shares}",
        f"  gateway: {memory:.0f} MB of memory, {disk:.1f} MB on disk;"
        f" {found['failed']} failed requests",
        f"  {len(rounds)} rounds, answers of the first: {', '.join(rounds[:4])}",
    ]


def header() -> list[str]:
    cpu = " ".join(f"{name:>9}" for name in PROCESSES)
    return [
        f"{'':24} {'':8} {'':8} {'CPU in ms a round':>39} {'bytes a device: HTTP':>21} {'':9}"
        f" {'MB':>7}",
        f"{'':24} {'devices':>8} {'s/round':>8} {cpu} {'up':>11} {'down':>9} {'wire':>9}"
        f" {'gateway':>7}",
    ]


def point_line(p: Point) -> str:
    n, cpu = p.devices, " ".join(f"{1e3 * p.cpu[name]:9,.1f}" for name in PROCESSES)
    return (
        f"{p.name:24} {n:8,} {p.seconds:8.2f} {cpu} {p.up / n:11,.0f} {p.down / n:9,.0f}"
        f" {p.wire / n:9,.0f} {p.memory['gateway']:7.0f}"
    )


def memory_line(row: Mapping[str, Any]) -> str:
    memory = ", ".join(f"{name} {row['memory'][name]:.1f}" for name in PROCESSES)
    disk = row["disk"]
    return (
        f"  after {row['rounds']:4} rounds: MB of memory: {memory}; on disk: gateway"
        f" {disk['gateway']:.1f}, server {disk['server']:.1f}"
    )


def lasting_line(found: Mapping[str, Any]) -> str:
    return (
        f"  {found['devices']:,} devices, {found['died a round']:.0f} die in a round:"
        f" {found['answered a round']:.0f} answers a round (at least {found['fewest answers']}),"
        f" {found['seconds a round']:.2f} s a round, {1e3 * found['answer']:.3f} CPU ms of the"
        f" gateway per answer, {found['failed']} failed requests"
    )


def all_lines(found: Mapping[str, Any]) -> list[str]:
    """Everything that a file of `--json` has."""
    about, lines = found["machine"], list[str]()
    lines.append(
        f"{about['cores']} cores ({about['cpu']}), Python {about['python']}, {found['date']},"
        f" load before: {found['load before']:.1f}"
    )
    if "parts" in found:
        lines += ["", "parts", *parts_lines(found["parts"])]
    if "crowd" in found:
        lines += ["", "crowd", *crowd_lines(found["crowd"])]
    for name in ("memory", "dying"):
        if name in found:
            rows = map(memory_line, found[name]["rows"])
            lines += ["", name, *rows, lasting_line(found[name])]
    points = [Point(**each) for each in found.get("slopes", ())]
    if "round" in found:
        points.append(Point(**found["round"]))
    if points:
        lines += ["", *header(), *map(point_line, points)]
    return lines
