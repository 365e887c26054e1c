"""`foltr privacy`: the ledger of an experiment, or of each method of a sweep, before anything is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from foltr import toml
from foltr.core import require
from foltr.experiment import Experiment
from foltr.privacy_account import busiest, ledger_of
from foltr.spec import shortened
from foltr.sweep import read_sweep
from foltr.user_files import use
from foltr.worlds import Source

APART = (
    "data", "users", "attack", "malicious", "roaming", "aggregator", "optimizer", "history", "evaluate_every", "empty",
    "seed",
)  # no part of a promise  # fmt: skip


def privacy_command(file: Path, delta: float, colluding: int, used: list[Path]) -> None:
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    content = toml.read(file, beside=("use", "sweep"))
    if "sweep" in content:
        points = read_sweep(file, used=used).points
        told = of_sweep([(point.method or point.label, point.experiment) for point in points], delta, colluding)
        print("\n\n".join(told))
    else:
        for path in [*toml.used_files(content, file), *used]:
            use(path)
        experiment = toml.experiment(toml.flat(content))
        print("\n".join(of_one(experiment, width(experiment.data), delta, colluding)))


def width(data: Source) -> int:
    return data.load("train").width


def of_one(experiment: Experiment, features: int, delta: float, colluding: int) -> list[str]:
    if experiment.baseline is not None:
        return ["privacy       none: a baseline learns from labels in one place, and nobody is protected."]
    return ledger_of(experiment, features, delta, colluding).lines()


def of_sweep(points: list[tuple[str, Experiment]], delta: float, colluding: int) -> Iterator[str]:
    """Each ledger once, below the names of the experiments that it is of. Of those that differ only in who is drawn to
    take part, it is that of the one whose busiest client is asked most often."""
    widths = {data: width(data) for data in dict.fromkeys(experiment.data for _, experiment in points)}
    groups: dict[tuple[object, ...], list[tuple[str, Experiment]]] = {}
    for name, experiment in points:
        promised = [getattr(experiment, field.name) for field in fields(Experiment) if field.name not in APART]
        groups.setdefault((widths[experiment.data], *promised), []).append((name, experiment))
    told: dict[str, list[str]] = {}
    for group in groups.values():
        worst = max((experiment for _, experiment in group), key=busiest)
        block = "\n".join(of_one(worst, widths[worst.data], delta, colluding))
        told.setdefault(block, []).extend(name for name, _ in group)
    for block, names in told.items():
        count = "1 experiment" if len(names) == 1 else f"{len(names):,} experiments"
        yield f"{count}: {shortened('; '.join(dict.fromkeys(names)), 80)}\n{block}"
