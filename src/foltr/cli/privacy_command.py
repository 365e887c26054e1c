"""`foltr privacy`: the ledger of an experiment, or of each method of a sweep, before anything is
run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import reduce
from pathlib import Path

from foltr.errors import Mistake, require
from foltr.experiment import Experiment
from foltr.runs import config
from foltr.runs.account import Exposure, exposure_of, ledger_of
from foltr.runs.preflight import checked_population
from foltr.runs.user_files import use_given
from foltr.spec import shortened
from foltr.sweeps.file import read_sweep
from foltr.world.dataset import Dataset
from foltr.world.protocols import Source

APART = (
    "data", "users", "aggregator", "optimizer", "history", "evaluate_every", "empty", "seed",
)  # no part of a promise, but for what a seed makes of exposure  # fmt: skip


def privacy_command(file: Path, delta: float, colluding: int, used: list[Path]) -> None:
    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    content = config.read(file, beside=("use", "sweep"))
    use_given(file, config.used_files(content, file), used)
    if "sweep" in content:
        points = read_sweep(file, load=False).points
        told = of_sweep(
            [(point.method or point.label, point.experiment) for point in points], delta, colluding
        )
        print("\n\n".join(told))
    else:
        experiment = config.experiment(config.flat(content))
        print(
            "\n".join(
                of_one(
                    experiment,
                    checked_width(experiment, splits(experiment.data)),
                    delta,
                    colluding,
                )
            )
        )


def splits(data: Source) -> tuple[Dataset, Dataset]:
    return data.load("train"), data.load("test")


def checked_width(experiment: Experiment, data: tuple[Dataset, Dataset]) -> int:
    """The number of features, if a run would not refuse the experiment."""
    checked_population(experiment, *data)
    return data[0].width


def of_one(
    experiment: Experiment,
    features: int,
    delta: float,
    colluding: int,
    exposure: Exposure | None = None,
) -> list[str]:
    if experiment.baseline is not None:
        return [
            "privacy       none: a baseline learns from labels in one place, and nobody is"
            " protected."
        ]
    return ledger_of(experiment, features, delta, colluding, exposure).lines()


def of_sweep(points: list[tuple[str, Experiment]], delta: float, colluding: int) -> Iterator[str]:
    """Each ledger once, below the names of the experiments that it is of. Those that differ only
    in who is drawn have the one of the busiest client and of the most malicious clients among them
    all."""
    loaded = {
        data: splits(data) for data in dict.fromkeys(experiment.data for _, experiment in points)
    }
    groups: dict[tuple[int, tuple[object, ...]], list[tuple[str, Experiment]]] = {}
    for name, experiment in points:
        try:
            features = checked_width(experiment, loaded[experiment.data])
        except Mistake as mistake:
            raise Mistake(f"{name}: {mistake}") from None
        promised = (
            getattr(experiment, field.name)
            for field in fields(Experiment)
            if field.name not in APART
        )
        groups.setdefault((features, tuple(promised)), []).append((name, experiment))
    told: dict[str, list[str]] = {}
    for (features, _), group in groups.items():
        worst = reduce(Exposure.or_worse, (exposure_of(experiment) for _, experiment in group))
        block = "\n".join(of_one(group[0][1], features, delta, colluding, worst))
        told.setdefault(block, []).extend(name for name, _ in group)
    for block, names in told.items():
        count = "1 experiment" if len(names) == 1 else f"{len(names):,} experiments"
        yield f"{count}: {shortened('; '.join(dict.fromkeys(names)), 80)}\n{block}"
