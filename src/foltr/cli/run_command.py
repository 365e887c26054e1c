"""`foltr run`: from a file and options to an experiment, its progress and its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foltr.cli.progress import Watcher, sparkline
from foltr.metrics import EMPTY
from foltr.runs import config
from foltr.runs.result import Result
from foltr.runs.user_files import use
from foltr.spec import brief


def run_command(
    file: Path | None,
    given: dict[str, Any],
    used: list[Path],
    engine: str,
    threads: int | float | str,
    out: Path,
    per_query: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from_file = config.read(file) if file else {}
    for path in [*config.used_files(from_file, file), *used]:
        use(path)
    experiment = config.experiment(config.overridden(config.flat(from_file), given))
    parts = (experiment.data, experiment.users, experiment.learner, experiment.ranker)
    label = "  ".join(brief(part) for part in parts)
    label += f"  {experiment.clients:,} clients, {experiment.rounds:,} rounds"
    with Watcher(label, quiet) as watch:
        result = experiment.run(out, threads, engine, watch, per_query)  # type: ignore[arg-type]  # checked there
    print(
        json.dumps({**result.final, "run": str(result.folder)}, allow_nan=False)
        if as_json
        else summary(result)
    )


def shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def summary(result: Result) -> str:
    final, e = result.final, result.experiment
    shown_lists = result.metrics.online["online_ndcg@10"]
    mean = (
        sum(shown_lists) / len(shown_lists) if shown_lists else float("nan")
    )  # NaN also where nobody may know
    online = [
        (
            f"online nDCG@10   {mean:.4f}  mean of all lists shown; discounted sum over rounds"
            f" {shown(final['online'])}"
        ),
        f"interactions     {final['interactions']:,} in {final['seconds']:.1f} s",
    ]
    if e.baseline is not None:
        online = [
            f"learned from     labels, in {final['seconds']:.1f} s: no round, no interaction"
        ]
    lines = [
        (
            f"offline nDCG@10  {shown(final['ndcg@10'])} "
            f" {sparkline(result.metrics.offline['ndcg@10'][1:])}"
        ),
        f"MRR@10           {shown(final['mrr@10'])}",
        f"expected MaxRR   {shown(final['expected_maxrr'])}",
        *online,
        (
            f"held-out queries {final['queries']:,}; {final['empty_queries']:,} with nothing"
            f" relevant {EMPTY[e.empty]}"
        ),
        *(f"note: {note}" for note in final["notes"]),
        *(final["privacy"]["lines"] if "privacy" in final else ()),
        f"{'finished before, not repeated' if result.found else 'run'}: {result.folder}",
    ]
    return "\n".join(lines)
