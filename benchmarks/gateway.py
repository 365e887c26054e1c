"""What a gateway costs: CPU, bytes, memory and time, with real processes on this machine.

    python benchmarks/gateway.py                    # everything, about 25 minutes on two cores
    python benchmarks/gateway.py parts round        # some of it
    python benchmarks/gateway.py --quick            # small numbers: does it work? three minutes
    python benchmarks/gateway.py --json FILE        # also stores all figures

    parts    the cost of an answer and its parts: 10,000 devices enrolled, 2,000 connected
    crowd    10,000 devices enrolled: 2,000 hold a connection, the others connect every minute
    round    rounds of 10,000 devices
    memory   500 rounds of 200 devices, a tenth of which dies in every round
    dying    rounds of 1,000 devices, a tenth of which dies in every round
    slopes   rounds of 10, 100, 1,000 and 10,000 devices, for PDGD linear, PDGD MLP and ES; and
             secure sums of 10, 100, 200 and 400 devices

    python benchmarks/gateway.py show FILE          # the tables of such a file
    python benchmarks/gateway.py fit FILE           # constants for `foltr plan`, from such a file
    python benchmarks/gateway.py page               # the picture and tables of docs/scale.md

(`fit` needs parts, crowd and slopes; `page` uses what `fit` stored.)

A `foltr serve`, a `foltr gateway` and a process with all devices run at the same time. Everything
is as in a deployment (TLS, keys, signatures, state on disk), except that devices do not learn:
they send a made-up message (`gateway_devices.py`). The CPU of the devices' process is given apart.

CPU is user and system time of a process, from /proc. Bytes of HTTP are counted by the devices.
Bytes on the wire are those of the loopback interface, both directions of all processes together,
TCP and TLS included: nothing else should use it meanwhile. (Who is root can give the benchmark an
interface of its own: unshare --net --mount sh -c 'mount -t sysfs none /sys; ip link set lo up;
python benchmarks/gateway.py'.) A device that dies aborts its connection after it has fetched the
ask, and comes back half a second later.

Every measurement has a time limit. Ctrl-C stops all processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from gateway_federation import Case, Federation, Overdue
from gateway_fit import Point, constants_of
from gateway_parts import (
    device_cost,
    device_memory,
    disk_part,
    gateway_parts,
    roll_parts,
    tls_parts,
)
from gateway_tables import (
    PROCESSES,
    all_lines,
    crowd_lines,
    header,
    lasting_line,
    memory_line,
    parts_lines,
    point_line,
)

from foltr.core.scoring import numbered
from foltr.core.system.files import write_whole
from foltr.deployment.planning.model import FILE
from foltr.deployment.protocol.agreement import Agreement

PLAIN = (Case("PDGD linear"), Case("PDGD MLP", ranker="MLP()"), Case("ES linear", learner="ES()"))
SUMS = (
    Case("PDGD linear, secure sum", channel="SecureSum()"),
    Case("PDGD MLP, secure sum", ranker="MLP()", channel="SecureSum()"),
)
WHAT = ("parts", "crowd", "round", "memory", "dying", "slopes")
FAILURES = (Overdue, AssertionError)  # the latter from `foltr.deployment.local`
BATCH = 100  # answers that the gateway writes together when it is busy, as it was seen to do


class Sizes(NamedTuple):
    """How much is measured."""

    enrolled: int = 10_000
    connected: int = 2_000
    rounds: int = 12
    idle: float = 15.0  # seconds
    crowd: float = 130.0  # seconds
    whole: int = 10_000
    whole_rounds: int = 3
    lasting: int = 200
    lasting_rounds: int = 500
    dying: int = 1_000
    dying_rounds: int = 30
    slopes: tuple[tuple[int, int], ...] = ((10, 60), (100, 40), (1_000, 12), (10_000, 3))
    sums: tuple[tuple[int, int], ...] = ((10, 12), (100, 4), (200, 3), (400, 2))
    wide_sums: tuple[tuple[int, int], ...] = ((10, 12), (100, 4))


QUICK = Sizes(
    enrolled=200, connected=100, rounds=4, idle=3.0, crowd=8.0, whole=300, whole_rounds=2,
    lasting=20, lasting_rounds=20, dying=50, dying_rounds=4,
    slopes=((10, 4), (40, 3)), sums=((10, 2), (20, 1)), wide_sums=((10, 1),),
)  # fmt: skip


def parts(sizes: Sizes) -> dict[str, Any]:
    """The cost of an answer, of other requests, and of memory."""
    case, poll = PLAIN[0], 1e6
    crowd = {"wait": 5, "poll": poll}
    found: dict[str, Any] = {"enrolled": sizes.enrolled, "connected": sizes.connected}
    rounds = sizes.rounds + 4
    with Federation(case, sizes.enrolled, rounds, sizes.connected, sizes.connected,
                    crowd=crowd) as here:  # fmt: skip
        empty = here.memory()["gateway"]
        here.enrolled()
        found["enrol"] = (here.now().cpu["gateway"] - here.idle) / sizes.enrolled
        used = here.measured(sizes.rounds)
        answers = used.devices["answered"]
        found["answer"] = {name: used.cpu[name] / answers for name in PROCESSES}
        found["answers per second"] = answers / used.time
        found["seconds a round"] = used.time / used.rounds
        sent, got = used.devices["sent"], used.devices["got"]
        counted = {"up": sent, "down": got, "wire": used.loopback}
        found["bytes"] = {name: number / answers for name, number in counted.items()}
        found["memory"] = {"empty": empty, "full": here.memory()["gateway"]}
        here.here.wait_done(60.0)
        found["idle request"], found["idle bytes"] = idle(here, sizes.idle)
        here.command("poll 4")
        here.command("held 0")
        here.pause(6.0)
        found["memory"]["enrolled only"] = here.memory()["gateway"]
        found["new connection"], found["new connection bytes"] = idle(here, sizes.idle)
    with Federation(case, sizes.connected, rounds, insecure=True, crowd=crowd) as here:
        here.enrolled()
        used = here.measured(sizes.rounds)
        found["answer without TLS"] = used.cpu["gateway"] / used.devices["answered"]
        here.here.wait_done(60.0)
        found["idle request without TLS"], _ = idle(here, sizes.idle)
    e = case.experiment(sizes.connected, rounds)
    agreed = Agreement(
        e.ranker, e.learner, numbered(46), sizes.connected, 1, e.learner.sessions, 9
    )
    found["parts"] = gateway_parts(agreed, sizes.connected, BATCH)
    found["tls"] = tls_parts((200, 600), (520, 60))
    found["roll"] = roll_parts(agreed, sizes.enrolled)
    found["disk"] = disk_part(1_000)
    found["device memory"] = device_memory(sizes.enrolled)
    return found


def idle(here: Federation, seconds: float) -> tuple[float, dict[str, float]]:
    """CPU seconds of the gateway, and bytes, for a request that no ask is waiting for."""
    here.pause(1.0)
    before = here.now()
    here.pause(seconds)
    used = here.now().since(before)
    requests = max(1, used.devices["asked"])
    counted = {"up": used.devices["sent"], "down": used.devices["got"], "wire": used.loopback}
    each = {name: number / requests for name, number in counted.items()}
    return used.cpu["gateway"] / requests, each


def crowd(sizes: Sizes) -> dict[str, Any]:
    """Many enrolled devices: some hold a connection, the others come every minute."""
    poll = min(60.0, sizes.crowd / 2)
    with Federation(
        PLAIN[0], sizes.enrolled, held=sizes.connected, asked=sizes.connected, enough=0.01,
        crowd={"poll": poll}, gateway={"poll": max(1.0, poll), "grace": 3.0},
        server={"deadline": 1.5 * poll},
    ) as here:  # fmt: skip
        here.enrolled()
        here.pause(5.0)
        before = here.now()
        here.pause(sizes.crowd)
        used = here.now().since(before)
        rounds = here.here.rounds()[before.rounds :]
        return {
            "enrolled": sizes.enrolled,
            "connected": sizes.connected,
            "poll": poll,
            "seconds": used.time,
            "cpu share": {name: used.cpu[name] / used.time for name in PROCESSES},
            "requests per second": used.devices["asked"] / used.time,
            "answers": used.devices["answered"],
            "failed": used.devices["failed"],
            "rounds": [[each["answered"], each["seconds"]] for each in rounds],
            "memory": here.memory(),
            "disk": here.disk(),
        }


def point(case: Case, devices: int, rounds: int, warm: int = 2) -> Point:
    """One point of the slopes: rounds in which all devices take part."""
    with Federation(case, devices, rounds=rounds + warm + 50) as here:
        here.enrolled()
        used = here.measured(rounds, 1 if case.channel else warm)
        made = used.rounds
        sent, got = here.frames(made)
        answered = here.answered(made)
        if min(answered) < devices:
            log = here.here.log("server")[-500:]
            raise Overdue(f"{answered} of {devices} devices answered\n{log}")
        return Point(
            **case.about(devices),
            rounds=made,
            seconds=used.time / made,
            cpu={name: used.cpu[name] / made for name in PROCESSES},
            thinking=used.devices["thinking"] / made,
            up=used.devices["sent"] / made,
            down=used.devices["got"] / made,
            wire=used.loopback / made,
            frames_down=sent,
            frames_up=got,
            memory=here.memory(),
        )


def lasting(devices: int, rounds: int, every: int) -> dict[str, Any]:
    """Memory over many rounds in which a tenth of the devices dies."""
    rows: list[dict[str, Any]] = []
    with Federation(
        PLAIN[0], devices, rounds=rounds + 100, enough=0.5,
        crowd={"dying": 0.1, "away": 0.5}, gateway={"grace": 0.2, "poll": 1.0}, limit=1_500.0,
    ) as here:  # fmt: skip
        here.enrolled()
        here.wait_rounds(2)
        before = here.now()
        for done in range(every, rounds + 1, every):
            here.wait_rounds(before.rounds + done)
            rows.append({"rounds": done, "memory": here.memory(), "disk": here.disk()})
            print(memory_line(rows[-1]), flush=True)
        used = here.now().since(before)
        answered = here.answered(used.rounds)
    return {
        "devices": devices,
        "rows": rows,
        "seconds a round": used.time / used.rounds,
        "answer": used.cpu["gateway"] / used.devices["answered"],
        "died a round": used.devices["died"] / used.rounds,
        "answered a round": sum(answered) / len(answered),
        "fewest answers": min(answered),
        "failed": used.devices["failed"],
    }


def slopes(sizes: Sizes) -> list[Point]:
    points: list[Point] = []
    jobs = [(case, *size) for case in PLAIN for size in sizes.slopes]
    jobs += [(SUMS[0], *size) for size in sizes.sums]
    jobs += [(SUMS[1], *size) for size in sizes.wide_sums]
    print("\n".join(header()), flush=True)
    for case, devices, rounds in jobs:
        try:
            points.append(point(case, devices, rounds))
        except FAILURES as error:
            print(f"{case.name}, {devices} devices, failed: {error}", file=sys.stderr)
            continue
        print(point_line(points[-1]), flush=True)
    return points


def device_costs() -> dict[str, list[float]]:
    """CPU seconds of a device per answer, with 4 and with 40 searches."""
    return {
        case.name: [device_cost(case.ranker, case.learner, searches) for searches in (4, 40)]
        for case in PLAIN
    }


def machine() -> dict[str, Any]:
    model = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {
        "cpu": model[0].partition(": ")[2] if model else platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def section(name: str, sizes: Sizes) -> tuple[dict[str, Any], list[str]]:
    """Measure one thing. Returns its figures, and lines about them that were not yet printed."""
    if name == "parts":
        found = parts(sizes)
        return {name: found}, parts_lines(found)
    if name == "crowd":
        found = crowd(sizes)
        return {name: found}, crowd_lines(found)
    if name == "round":
        one = point(PLAIN[0], sizes.whole, sizes.whole_rounds)
        return {name: one._asdict()}, [*header(), point_line(one)]
    if name == "slopes":
        return {"device": device_costs(), name: [one._asdict() for one in slopes(sizes)]}, []
    which = (sizes.lasting, sizes.lasting_rounds, 5), (sizes.dying, sizes.dying_rounds, 2)
    devices, rounds, rows = which[name == "dying"]
    found = lasting(devices, rounds, rounds // rows)
    return {name: found}, [lasting_line(found)]


def measure(what: list[str], sizes: Sizes, file: Path | None) -> int:
    """Measure one thing after the other. Returns the exit code. What has been measured is stored
    in `file`, even if something fails later."""
    found: dict[str, Any] = {
        "machine": machine(),
        "date": date.today().isoformat(),
        "command": " ".join(["python benchmarks/gateway.py", *(what if what != [*WHAT] else ())]),
        "load before": os.getloadavg()[0],
    }
    failed = False
    for name in what:
        print(f"\n{name}", flush=True)
        try:
            figures, lines = section(name, sizes)
        except FAILURES as error:
            failed = True
            print(f"{name} failed: {error}", file=sys.stderr)
            continue
        found |= figures
        print("\n".join(lines), flush=True)
        if file is not None:
            write_whole(file, json.dumps(found, indent=1) + "\n")
    return 1 if failed else 0


def stop(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help=f"of {', '.join(WHAT)}; show FILE; fit FILE; page")
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--json", type=Path, help="store the figures in this file")
    given = parser.parse_args()
    if given.what[:1] in (["fit"], ["show"]) and len(given.what) == 2:
        found = json.loads(Path(given.what[1]).read_text())
        if given.what[0] == "show":
            print("\n".join(all_lines(found)))
        else:
            write_whole(FILE, json.dumps(constants_of(found), indent=1) + "\n")
            print(f"wrote {FILE}")
        return 0
    if given.what == ["page"]:
        from gateway_page import draw, rewrite

        print(f"wrote {draw()} and {rewrite()}")
        return 0
    unknown = [name for name in given.what if name not in WHAT]
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    for signum in (signal.SIGINT, signal.SIGTERM):  # a shell may have ignored the first
        signal.signal(signum, stop)
    try:
        sizes = QUICK if given.quick else Sizes()
        return measure(given.what or list(WHAT), sizes, given.json)
    except KeyboardInterrupt:
        print("stopped: all processes have ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
