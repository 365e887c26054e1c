"""What does the page cost? 300 real runs (4 methods x 3 click models x 25 seeds, 1000 rounds,
evaluated every 10).

Run: python benchmarks/report.py [FOLDER] (runs are made there once; by default below the cache,
which takes minutes). Prints the CPU seconds of reading the runs and of making the page, and its
bytes: for the 300 runs in 12 groups, and for the same runs as 300 groups of one. Ends with one
line of JSON."""

import json
import sys
import time
from pathlib import Path

from foltr.experiment import Experiment
from foltr.report.page.document import page
from foltr.report.study import study
from foltr.results import load_runs
from foltr.system.paths import cache_folder

KINDS = ("perfect", "navigational", "informational")
METHODS = (
    (10, "Linear()", 4),
    (100, "Linear()", 4),
    (10, "MLP(hidden=8)", 4),
    (10, "Linear()", 8),
)


def make(folder: Path, seeds: int = 25, rounds: int = 1000) -> None:
    """The runs; those that are there already are not repeated."""
    for seed in range(1, seeds + 1):
        for kind in KINDS:
            for clients, ranker, sessions in METHODS:
                Experiment(
                    data="Synthetic(queries=60)",
                    users=f"Cascade(kind='{kind}')",
                    clients=clients,
                    ranker=ranker,
                    learner=f"PDGD(sessions={sessions})",
                    rounds=rounds,
                    evaluate_every=10,
                    seed=seed,
                ).run(folder)
        print(f"\r{seed} of {seeds} seeds made", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder("benchmarks") / "report"
    make(folder)
    begun = time.process_time()
    runs = load_runs(folder)
    reading, rows = time.process_time() - begun, {}
    print(f"reading {len(runs)} runs: {reading:.2f} s CPU")
    for name, how in (("12 groups", {}), ("300 groups", {"pairs": ("data.fold",)})):
        begun = time.process_time()
        text = page(study(runs, **how))
        rows[name] = {
            "cpu_seconds": round(time.process_time() - begun + reading, 2),
            "bytes": len(text.encode()),
        }
        print(
            f"{name}: {rows[name]['cpu_seconds']} s CPU with reading, {rows[name]['bytes']:,}"
            " bytes"
        )
    print(json.dumps({"reading": round(reading, 2), **rows}))


if __name__ == "__main__":
    main()
