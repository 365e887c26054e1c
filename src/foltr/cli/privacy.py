"""`foltr privacy`: the guarantee of an experiment, or of each experiment of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Delta, UseOnly, given_code
from foltr.core.errors import Mistake, require

if TYPE_CHECKING:
    from foltr.core.world.dataset import Dataset
    from foltr.core.world.protocols import Source
    from foltr.experiment import Experiment
    from foltr.privacy.participation import Exposure

# fields that change no guarantee (`history` only where clients are unlearned); a seed changes
# only who takes part how often; what patience stops is counted as if all rounds were made
NO_EFFECT = (
    "data", "users", "aggregator", "optimizer", "history", "evaluate_every", "empty", "seed",
    "evaluate_on", "patience",
)  # fmt: skip


def privacy(
    file: Annotated[
        Path, typer.Argument(help="An experiment's TOML file, or one with a sweep table.")
    ],
    delta: Delta = 1e-5,
    colluding: Annotated[
        int, typer.Option(help="Clients per round that reveal their noise to the server.")
    ] = 0,
    use: UseOnly = None,
) -> None:
    """Print the privacy guarantee of an experiment, without running it.

    A guarantee states an epsilon, what it protects, against whom, and who must be trusted.

    Component files of your own (`use` in the TOML file) must also be given by --use: no other code
    is loaded.

    Each run prints the same guarantee in its summary, and keeps it in result.json."""
    from foltr.simulation.runs import config
    from foltr.simulation.runs.config import flat
    from foltr.simulation.sweeps.file import sweep_of

    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    content = config.load(file, given_code(use), sweep=True)
    if "sweep" in content:
        points = sweep_of(content, file).points
        named = [(point.method or point.label, point.experiment) for point in points]
        print("\n\n".join(guarantees_of_sweep(named, delta, colluding)))
    else:
        experiment = config.experiment(flat(content))
        width = checked_width(experiment, splits(experiment.data))
        print("\n".join(guarantee(experiment, width, delta, colluding)))


def splits(data: Source) -> tuple[Dataset, Dataset]:
    return data.load("train"), data.load("test")


def checked_width(experiment: Experiment, data: tuple[Dataset, Dataset]) -> int:
    """The number of features, if the experiment can be run."""
    from foltr.simulation.runs.setup import checked_population

    checked_population(experiment, *data)
    return data[0].width


def guarantee(
    experiment: Experiment,
    features: int,
    delta: float,
    colluding: int,
    exposure: Exposure | None = None,
) -> list[str]:
    from foltr.privacy.guarantee import ledger_of

    if experiment.baseline is not None:
        return [
            "privacy       none: a baseline collects all labels in one place and protects nobody."
        ]
    return ledger_of(experiment, features, delta, colluding, exposure).lines()


def guarantees_of_sweep(
    points: list[tuple[str, Experiment]], delta: float, colluding: int
) -> Iterator[str]:
    """Each guarantee once, below the names of its experiments. Experiments that differ only in
    their random draws share the guarantee of the worst: of its busiest client, and with the most
    malicious clients."""
    from functools import reduce

    from foltr.core.spec import shortened
    from foltr.privacy.participation import Exposure, exposure_of

    blocks: dict[str, list[str]] = {}
    for (features, _), group in _alike(points).items():
        worst = reduce(Exposure.or_worse, (exposure_of(experiment) for _, experiment in group))
        block = "\n".join(guarantee(group[0][1], features, delta, colluding, worst))
        blocks.setdefault(block, []).extend(name for name, _ in group)
    for block, names in blocks.items():
        count = "1 experiment" if len(names) == 1 else f"{len(names):,} experiments"
        yield f"{count}: {shortened('; '.join(dict.fromkeys(names)), 80)}\n{block}"


Alike = dict[tuple[int, tuple[object, ...]], list[tuple[str, "Experiment"]]]


def _alike(points: list[tuple[str, Experiment]]) -> Alike:
    """Experiments by the number of their features and the fields that set a guarantee."""
    from foltr.experiment import Experiment

    sources = dict.fromkeys(experiment.data for _, experiment in points)
    loaded = {data: splits(data) for data in sources}
    relevant = [field.name for field in fields(Experiment) if field.name not in NO_EFFECT]
    groups: Alike = {}
    for name, experiment in points:
        try:
            features = checked_width(experiment, loaded[experiment.data])
        except Mistake as mistake:
            raise Mistake(f"{name}: {mistake}") from None
        values: tuple[object, ...] = tuple(getattr(experiment, field) for field in relevant)
        if experiment.unlearning is not None:  # stored rounds may be made again
            values += (experiment.history,)
        groups.setdefault((features, values), []).append((name, experiment))
    return groups
