"""What a deployment costs: rounds a minute, CPU, bytes and memory, with real processes on this
machine.

    python benchmarks/federation.py                 # the table, about four minutes
    python benchmarks/federation.py --rounds 1000 3 # one row, with memory and disk over time

Bytes are those of the loopback interface, all processes and both directions together: nothing else
should use it meanwhile. Payload is what the frames hold."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from foltr.deployment.local import Deployment
from foltr.experiment import Experiment

TICK = os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    title: str
    nodes: int
    clients: int
    database: bool
    rounds: int
    learner: str = "PDGD()"


ROWS = (
    Row("3 nodes, database, TLS", 3, 12, True, 60),
    Row("20 nodes, database, TLS", 20, 20, True, 20),
    Row("3 nodes, memory, TLS", 3, 12, False, 60),
    Row("20 nodes, memory, TLS", 20, 20, False, 20),
    Row("3 nodes, 30,000 clients", 3, 30_000, True, 6),
    Row("3 nodes, 30,000 clients, ES", 3, 30_000, True, 6, "ES()"),
)


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(pid: int) -> float:
    """Megabytes in memory."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def loopback_bytes() -> int:
    return int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(stat[1]) == pid:
                found.append(int(entry.name))
    return found


def folder_size(folder: Path) -> float:
    """Megabytes."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6


def measure(row: Row, over_time: bool = False) -> dict[str, Any]:
    e = Experiment(clients=row.clients, rounds=row.rounds, learner=row.learner)
    table = {"database": row.database, "deadline": 120.0, "wait": 120.0, "keep_models": 10}
    with tempfile.TemporaryDirectory() as place:
        with Deployment(Path(place) / "federation", e, row.nodes, table) as here:
            here.start_all()
            here.wait_round(2, 300.0)  # the first rounds compile and greet
            server = here.processes["server"].pid
            link = children(server)[0]
            nodes = [here.processes[name].pid for name in here.names]
            first, began, sent = len(here.rounds()), time.monotonic(), loopback_bytes()
            before = cpu(server), cpu(link), sum(map(cpu, nodes))
            last, looked = row.rounds - 1, 0.0
            while len(here.rounds()) < last:
                if over_time and time.monotonic() - looked > 30.0:
                    looked = time.monotonic()
                    state = here.folder / "state"
                    print(
                        f"  round {len(here.rounds()):5d}: server {resident(server):.0f} MB,"
                        f" SuperLink {resident(link):.0f} MB, node {resident(nodes[0]):.0f} MB,"
                        f" state {folder_size(state):.2f} MB, of it messages"
                        f" {folder_size(state / 'superlink'):.2f} MB",
                        flush=True,
                    )
                time.sleep(0.02)
            seconds, made = time.monotonic() - began, last - first
            after = cpu(server), cpu(link), sum(map(cpu, nodes))
            bytes_all = loopback_bytes() - sent
            payload = sum(sum(r["bytes"]) for r in here.rounds()[first:last])
            here.wait_done(120.0)
    per = made * row.nodes
    used = [1000.0 * (b - a) / per for a, b in zip(before, after, strict=True)]
    return {
        "s": seconds / made,
        "rounds a minute": 60.0 * made / seconds,
        "CPU ms per node-round": used,
        "bytes": bytes_all / per,
        "payload": payload / per,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nodes", nargs="?", type=int, help="one row with so many nodes")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--memory", action="store_true", help="no database")
    given = parser.parse_args()
    rows: tuple[Row, ...] = ROWS
    if given.nodes is not None:
        title = f"{given.nodes} nodes, {given.rounds} rounds"
        rows = (Row(title, given.nodes, given.nodes, not given.memory, given.rounds),)
    print(
        f"{'':30} {'s/round':>8} {'per minute':>10} {'CPU ms per node-round':>26}"
        f" {'bytes per node-round':>24}"
    )
    print(f"{'':30} {'':8} {'':10} {'server SuperLink  node':>26} {'all    in frames':>24}")
    for row in rows:
        found = measure(row, given.nodes is not None)
        server, link, node = found["CPU ms per node-round"]
        print(
            f"{row.title:30} {found['s']:8.2f} {found['rounds a minute']:10.0f} {server:10.1f}"
            f" {link:8.1f} {node:6.1f} {found['bytes']:12,.0f} {found['payload']:11,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
