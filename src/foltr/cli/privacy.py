"""`foltr privacy`: the guarantee of an experiment, or of each experiment of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Delta, UseOnly, given_code
from foltr.core.errors import Mistake, require
from foltr.core.system.tables import count

if TYPE_CHECKING:
    from foltr.core.world.dataset import Dataset
    from foltr.core.world.protocols import Source
    from foltr.experiment import Experiment


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
    from foltr.privacy.guarantee import lines_of
    from foltr.simulation.runs import config
    from foltr.simulation.runs.config import flat
    from foltr.simulation.sweeps.file import sweep_of

    require(0.0 < delta < 1.0, f"delta is a probability in (0, 1), got {delta}")
    content = config.load(file, given_code(use), sweep=True)
    if "sweep" not in content:
        experiment = config.experiment(flat(content))
        features = checked_width(experiment, splits(experiment.data))
        print("\n".join(lines_of([experiment], features, delta, colluding)))
        return
    points = sweep_of(content, file).points
    named = [(point.method or point.label, point.experiment) for point in points]
    print("\n\n".join(guarantees_of_sweep(named, delta, colluding)))


def splits(data: Source) -> tuple[Dataset, Dataset]:
    return data.load("train"), data.load("test")


def checked_width(experiment: Experiment, data: tuple[Dataset, Dataset]) -> int:
    """The number of features, if the experiment can be run."""
    from foltr.simulation.runs.setup import checked_population

    checked_population(experiment, *data)
    return data[0].width


def guarantees_of_sweep(
    points: list[tuple[str, Experiment]], delta: float, colluding: int
) -> Iterator[str]:
    """Each guarantee once, below the names of its experiments."""
    from foltr.core.errors import shortened
    from foltr.privacy.guarantee import lines_of, relevant

    loaded = {data: splits(data) for data in dict.fromkeys(e.data for _, e in points)}
    groups: dict[tuple[int, tuple[object, ...]], list[tuple[str, Experiment]]] = {}
    for name, experiment in points:
        try:
            features = checked_width(experiment, loaded[experiment.data])
        except Mistake as mistake:
            raise Mistake(f"{name}: {mistake}") from None
        groups.setdefault((features, relevant(experiment)), []).append((name, experiment))
    blocks: dict[str, list[str]] = {}
    for (features, _), group in groups.items():
        lines = lines_of([experiment for _, experiment in group], features, delta, colluding)
        blocks.setdefault("\n".join(lines), []).extend(name for name, _ in group)
    for block, names in blocks.items():
        heading = f"{count(len(names), 'experiment')}: "
        yield f"{heading}{shortened('; '.join(dict.fromkeys(names)), 80)}\n{block}"
