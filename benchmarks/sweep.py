"""What a sweep costs: FPDGD on MQ2008, 5 folds x 3 click models x 5 seeds (100 clients x 4
sessions x 1000 rounds, evaluated every 10). Prints the wall time, the share of it spent in
kernels, and what the same runs cost one by one.

    FOLTR_DATA=... python benchmarks/sweep.py [jobs]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import foltr
from foltr.simulation.sweeps.file import Point, expanded
from foltr.simulation.sweeps.pools import Pool
from foltr.simulation.sweeps.run import sweep

BASE = {
    "data": "MQ2008()",
    "clients": 100,
    "rounds": 1000,
    "evaluate_every": 10,
    "learner.sessions": 4,
}
TABLE = {
    "data": {"fold": [1, 2, 3, 4, 5]},
    "users": {"kind": ["perfect", "navigational", "informational"]},
    "seed": [1, 2, 3, 4, 5],
}
# interactions a second of the published scripts, measured on two cores like these
PUBLISHED = (1200, 1600)


def warm(points: tuple[Point, ...]) -> None:
    """Compile and read once: a sweep's own cost is what is measured."""
    points[0].experiment.run()


def main(jobs: int) -> None:
    points = expanded(BASE, TABLE)
    warm(points)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        swept = sweep(points, folder, "bench", pool=Pool(jobs))
        wall = time.perf_counter() - began
        runs = foltr.load_runs(Path(folder))
        kernel, busy = sum(runs["kernel_seconds"]), sum(runs["seconds"])
        interactions = sum(runs["interactions"])
    slow, fast = (interactions / rate / 3600 for rate in PUBLISHED)
    print(f"runs                      {len(swept.made)} of {len(points)}, {jobs} at a time")
    print(
        f"wall time                 {wall:.1f} s, {interactions / wall:,.0f} interactions a second"
    )
    print(f"in kernels                {kernel / (wall * jobs):.1%} of wall time x jobs")
    print(
        f"in runs                   {busy / (wall * jobs):.1%}, of which kernels"
        f" {kernel / busy:.1%}"
    )
    print(f"published code would take {fast:.1f} to {slow:.1f} hours")
    print(f"nDCG@10                   {sum(runs['ndcg@10']) / len(runs):.4f} mean of all runs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
