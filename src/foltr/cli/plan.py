"""`foltr plan`: what a federation of many devices costs, on paper."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr.cli.tools import Json
from foltr.core.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.deployment.planning.model import Workload


def plan(
    devices: Annotated[
        str, typer.Option(help="Enrolled devices: a number, or several such as 1e4,1e6,1e8.")
    ] = "1e4,1e6,1e8",
    rounds_per_day: Annotated[float, typer.Option(help="Rounds in a day.")] = 24.0,
    times_per_day: Annotated[
        float, typer.Option(help="How often a device takes part in a day, on average.")
    ] = 1.0,
    asked: Annotated[
        int | None, typer.Option(help="Devices in a round, instead of --times-per-day.")
    ] = None,
    ranker: Annotated[str, typer.Option(help="As in an experiment.")] = "Linear()",
    learner: Annotated[str, typer.Option(help="As in an experiment.")] = "PDGD()",
    channel: Annotated[
        str | None, typer.Option(help="As in an experiment: SecureSum() or none.")
    ] = None,
    features: Annotated[int, typer.Option(help="Features of a document.")] = 46,
    searches: Annotated[
        int | None,
        typer.Option(help="Searches of a device in a round; default: as the learner says."),
    ] = None,
    connected: Annotated[
        float, typer.Option(help="Share of the devices that keep a connection.")
    ] = 0.2,
    poll: Annotated[
        float, typer.Option(help="Seconds between two requests of a device without a connection.")
    ] = 60.0,
    deadline: Annotated[
        float | None,
        typer.Option(help="The server's deadline in seconds; default: long enough for --poll."),
    ] = None,
    busy: Annotated[
        float, typer.Option(help="Share of a core that a gateway may use, at the peak.")
    ] = 0.5,
    connections: Annotated[
        int, typer.Option(help="Connections of a gateway (its max_connections and max_held).")
    ] = 16_000,
    gateways: Annotated[
        int | None, typer.Option(help="Number of gateways; default: as many as needed.")
    ] = None,
    memory_gb: Annotated[float, typer.Option(help="Memory of a machine in GB.")] = 16.0,
    price_core_hour: Annotated[
        float | None, typer.Option(help="Price of a core for an hour, in any currency.")
    ] = None,
    price_gb_egress: Annotated[
        float | None, typer.Option(help="Price of a GB that gateways send to devices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute what a federation with gateways costs: CPU, bytes, memory, gateways and money.

    The model is linear. Its constants were measured on one machine with at most 10,000 devices;
    larger numbers are extrapolated. The page "Plan a large federation" of the
    documentation explains it.

    The plan names the limits that are exceeded, and what to do."""
    from foltr.deployment.planning import text
    from foltr.deployment.planning.model import Plan, Workload, measured

    numbers = {
        "--rounds-per-day": rounds_per_day,
        "--times-per-day": times_per_day,
        "--poll": poll,
        "--deadline": deadline,
        "--memory-gb": memory_gb,
        "--connected": connected,
        "--price-core-hour": price_core_hour,
        "--busy": busy,
        "--price-gb-egress": price_gb_egress,
    }
    for option, number in numbers.items():
        require(number is None or isfinite(number), f"{option} must be a number, got {number}")
    for name, price in (("core-hour", price_core_hour), ("gb-egress", price_gb_egress)):
        require(price is None or price >= 0.0, f"--price-{name} must be >= 0, got {price}")
    require(memory_gb > 0.0, f"--memory-gb must be > 0, got {memory_gb:g}")
    require(gateways is None or gateways >= 1, f"--gateways must be >= 1, got {gateways}")
    require(times_per_day > 0.0, f"--times-per-day must be > 0, got {times_per_day:g}")
    require(rounds_per_day > 0.0, f"--rounds-per-day must be > 0, got {rounds_per_day:g}")
    message = message_of(ranker, learner, channel, features, searches)
    known = measured()
    share = times_per_day / rounds_per_day
    plans = []
    for enrolled in enrolments(devices):
        require(
            asked is not None or share <= 1.0,
            f"{times_per_day:g} times a day needs {times_per_day:g} rounds a day or more, got"
            f" {rounds_per_day:g}",
        )
        load = Workload(
            enrolled,
            rounds_per_day,
            min(max(2, round(share * enrolled)), enrolled) if asked is None else asked,
            connected=connected,
            poll=poll,
            deadline=usual_deadline(connected, poll) if deadline is None else deadline,
            busy=busy,
            connections=connections,
            **message,
        )
        plans.append(Plan(load, known.constants, gateways))
    prices = text.Prices(price_core_hour, price_gb_egress)
    if as_json:
        print(json.dumps([text.as_json(each, memory_gb, prices) for each in plans]))
    else:
        print(_about(plans[0].load, rounds_per_day, ranker, learner, channel))
        print("\n".join(text.lines(plans, memory_gb, prices, known, asked is not None)))


def _about(load: Workload, rounds: float, ranker: str, learner: str, channel: str | None) -> str:
    sums = "no secure sum" if channel is None else channel
    return (
        f"{learner}, {ranker} ({load.parameters:,} parameters), {sums}; {rounds:g} rounds a day,"
        f" {100 * load.connected:g} % of the devices connected, the others request every"
        f" {load.poll:g} s, deadline {load.deadline:g} s"
    )


def enrolments(typed: str) -> list[int]:
    """Numbers of devices: 1e6, or 1e4,1e6."""
    found = []
    for word in typed.split(","):
        try:
            value = float(word)
        except ValueError:
            value = 0.0
        require(
            2 <= value <= 1e10 and value == int(value),
            f"--devices {word.strip()!r}: give whole numbers from 2 to 1e10, such as 1e6",
        )
        found.append(int(value))
    return found


def usual_deadline(connected: float, poll: float) -> float:
    """A deadline that is long enough for devices that ask every `poll` seconds."""
    from math import ceil

    from foltr.deployment.planning.model import SHARE
    from foltr.deployment.settings import ServerTable

    usual = ServerTable.deadline
    return usual if connected >= 1.0 else max(usual, float(ceil(1.5 * poll / SHARE)))


def message_of(
    ranker: str, learner: str, channel: str | None, features: int, searches: int | None
) -> dict[str, Any]:
    """What a device sends in a round, as fields of a `Workload`."""
    from foltr.core.seeds import stream
    from foltr.core.spec import coerce, hints_of
    from foltr.deployment.planning.traffic import example_message
    from foltr.deployment.protocol.agreement import Agreement

    hints = hints_of(Agreement)
    model = coerce(ranker, hints["ranker"], "--ranker")
    how = coerce(learner, hints["learner"], "--learner")
    by = coerce(channel, hints["channel"], "--channel")
    require(1 <= features <= 10**6, f"--features must be in 1 .. 10^6, got {features}")
    if by is not None and how.reward_levels:
        name = type(how).__name__
        raise Mistake(f"{name} sends rewards, and their sum is no update: leave --channel out")
    if by is not None and by.consistency:
        raise Mistake(
            f"{channel}: every device masks with every other, and that was not measured: give"
            " SecureSum()"
        )
    made = how.sessions if searches is None else searches
    require(made >= 1, f"--searches must be >= 1, got {made}")
    message, _ = example_message(how, model, features)
    return {
        "parameters": len(model.init(features, stream(0))),
        "words": len(message),
        "searches": made,
        "rewards": how.reward_levels > 0,
        "fewest": None if by is None else by.fewest(10_000) / 10_000,
    }
