"""Seconds and CPU of rounds between a server and echoing nodes on this machine:

python tests/loopback/figures.py NODES [tls] [database] [rounds=30] [bytes=184]
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from link_federation import Federation

TICK = 1000 / os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Milliseconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def measure(nodes: int, tls: bool, database: bool, rounds: int, size: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        made = Federation(Path(folder), tls=tls, database=database)
        try:
            for number in range(nodes):
                made.node(number)
            ids = made.wait_for(nodes, 120)
            made.round(os.urandom(size), ids)
            pids = [made.link.process.pid, *(process.pid for process in made.nodes)]
            before, seconds = [cpu(pid) for pid in pids], []
            for _ in range(rounds):
                start = time.perf_counter()
                assert made.echoes(os.urandom(size), ids) == nodes
                seconds.append(time.perf_counter() - start)
            used = [cpu(pid) - start for pid, start in zip(pids, before, strict=True)]
        finally:
            made.close()
        ended = made.link.log.read_text().strip()
    each = rounds * nodes
    return (
        f"{nodes} nodes, tls={tls}, database={database}: {median(seconds):.2f} s a round (up to"
        f" {max(seconds):.2f}); CPU per node and round: SuperLink {used[0] / each:.1f} ms, node"
        f" {sum(used[1:]) / each:.1f} ms\n{ended}"
    )


if __name__ == "__main__":
    given = dict(word.split("=") for word in sys.argv[2:] if "=" in word)
    count = int(given.get("rounds", 30)), int(given.get("bytes", 184))
    print(measure(int(sys.argv[1]), "tls" in sys.argv, "database" in sys.argv, *count))
