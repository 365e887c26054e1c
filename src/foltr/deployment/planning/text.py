"""A plan as text: a table with a column for each number of devices, and what breaks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from foltr.deployment.planning.limits import Limit, federations, first_break, limits
from foltr.deployment.planning.model import DAY, Measured, Plan

NEAR = 0.7  # a limit of which this share is used is worth a word
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
WIDTH = 36  # of the first column


class Prices(NamedTuple):
    """Prices, in any currency. None: not given."""

    core_hour: float | None = None
    gb_egress: float | None = None


def lines(
    plans: Sequence[Plan], memory: float, prices: Prices, known: Measured, fixed: bool = False
) -> list[str]:
    """The whole text. `memory`: gigabytes of a machine. `fixed`: whether the number of devices in
    a round does not grow with the devices."""
    found = [_row(title, values) for title, values in _rows(plans, memory, prices)]
    for plan in plans:
        found += ["", *_judged(plan, memory)]
    if idle := [f"{plan.load.devices:,}" for plan in plans if idle_share(plan) > 0.5]:
        named = " and ".join(filter(None, (", ".join(idle[:-1]), idle[-1])))
        found += [
            "",
            f"With {named} devices, most of the gateways' CPU goes to requests that"
            " find no ask: let devices without a connection request less often (poll, and a longer"
            " deadline).",
        ]
    broken = first_break(plans[0], memory, fixed)
    if broken is not None:
        limit = broken.limit
        found += [
            "",
            f"As the number of devices grows, this limit is exceeded first, at about"
            f" {rounded(broken.devices)} devices:",
            f"  {_of(limit)}. Way out: {limit.way_out}",
        ]
    return [*found, "", *_origin(known)]


def _rows(plans: Sequence[Plan], memory: float, prices: Prices) -> list[tuple[str, list[str]]]:
    def row(title: str, value: Any) -> tuple[str, list[str]]:
        return title, [value(plan) for plan in plans]

    rows = [
        row("devices", lambda p: f"{p.load.devices:,}"),
        row("asked in a round", lambda p: f"{p.load.asked:,}"),
        row("federations", lambda p: f"{federations(p, memory):,}"),
        row("gateways, one core each", lambda p: f"{p.gateways:,}"),
        row("  because of", lambda p: "as given" if p.given else p.why),
        row("cores that they keep busy", lambda p: number(p.cpu_day["gateways"] / DAY)),
        row("  of it for requests without an ask", lambda p: f"{100 * idle_share(p):.0f} %"),
        row("CPU of a device per round", lambda p: seconds(p.device_cpu)),
        row("CPU of the gateways per round", lambda p: seconds(p.gateway_round(p.gateways))),
        row("CPU of the server per round", lambda p: seconds(p.server_round)),
        row("CPU of the SuperLink per round", lambda p: seconds(p.superlink_round)),
        row("seconds of a round", lambda p: seconds(p.round_seconds)),
        row("a device in a round: up", lambda p: size(p.device_round.up)),
        row("  down", lambda p: size(p.device_round.down)),
        row("all devices in a day", lambda p: size(p.bytes_day)),
        row("  of it sent by gateways", lambda p: size(p.egress_day)),
        row("memory of a gateway", lambda p: size(1e6 * p.gateway_memory)),
        row("memory of the server", lambda p: size(1e6 * p.server_memory)),
        row("disk of all gateways", lambda p: size(1e6 * p.gateway_disk)),
    ]
    if prices != Prices():
        rows.append(row("price of a day", lambda p: number(p.money_day(*prices) or 0.0)))
    return rows


def _row(title: str, values: Sequence[str]) -> str:
    return f"{title:{WIDTH}}" + "".join(f"{value:>20}" for value in values)


def idle_share(plan: Plan) -> float:
    """The share of the gateways' CPU that goes to requests without an ask."""
    return DAY * plan.idle_cores / plan.cpu_day["gateways"]


def _judged(plan: Plan, memory: float) -> list[str]:
    """What is exceeded, or nearly so."""
    found, many = limits(plan, memory), f"{plan.load.devices:,} devices"
    over = [limit for limit in found if limit.used > 1.0]
    if over:
        said = [f"  {_of(limit)}. Way out: {limit.way_out}" for limit in over]
        return [f"{many} exceed these limits:", *said]
    close = [f"  {_of(limit)}" for limit in found if limit.used > NEAR]
    return [f"{many}: no limit is exceeded" + (", but these are near" if close else ""), *close]


def _of(limit: Limit) -> str:
    return f"{limit.name}: {number(limit.need)} needed, {number(limit.have)} possible"


def _origin(known: Measured) -> list[str]:
    cpu, cores = known.machine["cpu"], known.machine["cores"]
    return [
        f"Measured with up to {known.devices:,} devices ({known.summed:,} in a secure sum) on"
        f" {cores} cores ({cpu}, {known.date}, {known.command}). All else is computed from it."
    ]


def number(value: float) -> str:
    """A number with three digits."""
    if value >= 100.0:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def rounded(value: float) -> str:
    """A large number with two digits."""
    return f"{float(f'{value:.2g}'):,.0f}"


def size(count: float) -> str:
    """Bytes with a unit, such as 1.25 MB."""
    for unit, many in UNITS:
        if count >= many:
            return (
                f"{count / many:.3g} {unit}"
                if count / many < 1000
                else f"{count / many:,.0f} {unit}"
            )
    return f"{count:.3g} B"


def seconds(value: float) -> str:
    return f"{1e3 * value:.3g} ms" if value < 1.0 else f"{number(value)} s"


def as_json(plan: Plan, memory: float, prices: Prices) -> dict[str, Any]:
    """A plan as values of JSON. CPU in seconds, sizes in bytes."""
    load, cpu = plan.load, plan.cpu_day
    over = [limit for limit in limits(plan, memory) if limit.used > 1.0]
    money = plan.money_day(*prices)
    return {
        "devices": load.devices,
        "asked": load.asked,
        "rounds_per_day": load.rounds,
        "federations": federations(plan, memory),
        "gateways": plan.gateways,
        "gateways_needed": plan.reasons,
        "cpu_per_day": {name.lower(): value for name, value in cpu.items()},
        "cpu_per_round": {
            "gateways": plan.gateway_round(plan.gateways),
            "server": plan.server_round,
            "superlink": plan.superlink_round,
            "device": plan.device_cpu,
        },
        "seconds_per_round": plan.round_seconds,
        "device_bytes_per_round": {"up": plan.device_round.up, "down": plan.device_round.down},
        "bytes_per_day": {"all": plan.bytes_day, "sent_by_gateways": plan.egress_day},
        "memory": {"gateway": 1e6 * plan.gateway_memory, "server": 1e6 * plan.server_memory},
        "disk": {"gateways": 1e6 * plan.gateway_disk},
        "exceeded": {limit.name: [limit.need, limit.have, limit.way_out] for limit in over},
    } | ({} if money is None else {"price_per_day": money})
