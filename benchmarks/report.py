"""What does a report cost? CPU seconds of `foltr report`, and of its parts.

Run: python benchmarks/report.py [FOLDER] [--study FILE] [--rounds N] [--keep-page FILE]

The runs are those of a study's file, by default the 3,465 of reproduce/thesis-5-attacks.toml with
its 4,000 rounds. They are not computed: each folder gets its config, and curves that are drawn at
random, in the format of real runs (minutes, once; by default below the cache). --rounds 500 makes
shorter ones. Prints the CPU seconds of the whole command (a process of its own), and of its parts
in one process: reading the runs, reading their curves, sorting them into a study, statistics, the
other content, drawing. Ends with one line of JSON. To compare with another commit, set PYTHONPATH
to the src folder of a worktree of that commit: --keep-page writes the page, without its time, to
compare it byte by byte."""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from subprocess import DEVNULL, run
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from foltr.core.metrics import online_performance
from foltr.core.system.files import cache_folder
from foltr.experiment import Experiment
from foltr.report.matrix import matrix
from foltr.report.measures import measured
from foltr.report.page.content import content_without_curves
from foltr.report.page.document import page
from foltr.report.page.packed_curves import packed_curves
from foltr.report.results import load_runs
from foltr.report.study import study
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.config import written
from foltr.simulation.runs.folder import CONFIG, ENVIRONMENT, Folder
from foltr.simulation.runs.identity import folder_name
from foltr.simulation.sweeps.file import read_sweep

STUDY = Path(__file__).parent.parent / "reproduce" / "thesis-5-attacks.toml"
MADE = datetime(2000, 1, 1, tzinfo=UTC)


def make(folder: Path, file: Path, rounds: int | None) -> int:
    """Write the runs of a study; those that are there already are kept. Returns how many there
    are."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as aside:
        real = Experiment(data="Synthetic(queries=20)", clients=2, rounds=2).run(aside).folder
        assert real is not None
        about = json.loads((real / ENVIRONMENT).read_text())
        final = Folder(real).final() or {}
    points = read_sweep(file, {"rounds": rounds} if rounds else None).points
    for i, point in enumerate(points):
        e = point.experiment
        text = written(e)
        identity = blake2b(text.encode(), digest_size=8).hexdigest()
        path = folder / folder_name(e, identity)
        if not (path / "result.json").exists():
            path.mkdir(exist_ok=True)
            content = blake2b(repr(e.data).encode()).hexdigest()[:32]
            data = {"train": content, "test": content}
            env = {**about, "identity": identity, "data": data}
            (path / CONFIG).write_text(text)
            (path / ENVIRONMENT).write_text(json.dumps(env, indent=1) + "\n")
            metrics = drawn(e, i)
            Folder(path).finish(np.zeros(46), metrics, {**final, **ends(metrics)})
        if i % 50 == 0:
            print(f"\r{i} of {len(points)} runs made", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return len(points)


def drawn(e: Experiment, seed: int) -> Metrics:
    """Learning curves that rise, with the noise of online measures."""
    rng, t = np.random.default_rng(seed), np.arange(e.rounds + 1)
    level = rng.normal(0.45, 0.03)
    curve = level - 0.2 * np.exp(-t / (0.1 * e.rounds)) + rng.normal(0, 0.002, len(t))
    online = {
        "online_ndcg@10": (curve - 0.05 + rng.normal(0, 0.03, len(t)))[1:],
        "maxrr": (curve + rng.normal(0, 0.05, len(t)))[1:],
        "interactions": np.full(e.rounds, float(e.clients * 5)),
    }
    at = [*range(0, e.rounds, e.evaluate_every), e.rounds]
    offline = {"ndcg@10": curve, "mrr@10": curve * 1.1, "expected_maxrr": curve * 1.2}
    return Metrics(
        {name: values.tolist() for name, values in online.items()},
        at,
        {name: values[at].tolist() for name, values in offline.items()},
    )


def ends(metrics: Metrics) -> dict[str, Any]:
    """The numbers of result.json that follow from the curves."""
    online = metrics.online
    return {
        **{name: values[-1] for name, values in metrics.offline.items()},
        "online": online_performance(np.array(online["online_ndcg@10"])),
        "online_ndcg@10": online["online_ndcg@10"][-1],
        "maxrr": online["maxrr"][-1],
        "interactions": int(sum(online["interactions"])),
        "rounds": len(online["interactions"]),
        "queries": 157,
        "empty_queries": 30,
    }


def timed(name: str, parts: dict[str, float], of: Callable[[], Any]) -> Any:
    begun = time.process_time()
    made = of()
    parts[name] = round(time.process_time() - begun, 2)
    print(f"{name:<22} {parts[name]:6.2f} s CPU", flush=True)
    return made


def whole_command(folder: Path) -> float:
    """CPU seconds of `foltr report FOLDER`, user and system."""
    before = getrusage(RUSAGE_CHILDREN)
    with TemporaryDirectory() as aside:
        call = "from foltr.cli.app import main; main()"
        words = ["report", str(folder), "-o", f"{aside}/report.html"]
        run([sys.executable, "-c", call, *words], check=True, stdout=DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    given = ArgumentParser()
    given.add_argument("folder", nargs="?", type=Path)
    given.add_argument("--study", type=Path, default=STUDY)
    given.add_argument("--rounds", type=int)
    given.add_argument("--keep-page", type=Path)
    asked = given.parse_args()
    name = f"report-{asked.study.stem}-{asked.rounds or 'all'}"
    folder = asked.folder or cache_folder("benchmarks") / name
    n = make(folder, asked.study, asked.rounds)
    whole = round(whole_command(folder), 2)
    print(f"foltr report of {n:,} runs: {whole} s CPU")
    parts: dict[str, float] = {}
    runs = timed("reading runs", parts, lambda: load_runs(folder))
    timed("reading curves", parts, lambda: [each.metrics for each in runs])
    sorted_runs = timed("study", parts, lambda: study(runs))
    timed(
        "statistics",
        parts,
        lambda: [matrix(sorted_runs, measure) for measure in measured(sorted_runs)],
    )
    timed("content, statistics", parts, lambda: content_without_curves(sorted_runs, MADE))
    timed("curves", parts, lambda: packed_curves(sorted_runs))
    text = timed("whole page", parts, lambda: page(sorted_runs, MADE))
    if asked.keep_page:
        asked.keep_page.write_text(text)
    print(json.dumps({"runs": n, "bytes": len(text.encode()), "whole": whole, **parts}))


if __name__ == "__main__":
    main()
