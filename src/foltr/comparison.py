"""One call, one table: experiments side by side over folds and seeds, with corrected significance.

foltr.compare(
    [foltr.Experiment(aggregator="Mean()"), foltr.Experiment(aggregator="Median()")], baseline=0, seeds=range(1, 6)
)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foltr import toml
from foltr.core import require
from foltr.errors import Mistake
from foltr.experiment import Experiment
from foltr.files import write_whole
from foltr.pools import Pool
from foltr.report import tables
from foltr.report.matrix import Matrix, matrix
from foltr.report.study import Study, study
from foltr.results import Runs, load_runs
from foltr.sweep import Point
from foltr.sweeping import sweep

NAME = "compare"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Prints itself as a table per measure; `latex()`, `csv()` and `report(path)` are for papers and colleagues."""

    study: Study
    measures: tuple[str, ...]

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(matrix(self.study, measure) for measure in self.measures)

    @property
    def runs(self) -> Runs:
        return self.study.runs

    def __repr__(self) -> str:
        return "\n".join(tables.text(found) for found in self.matrices)

    def latex(self) -> str:
        return tables.latex(*self.matrices)

    def csv(self) -> str:
        return tables.csv(*self.matrices)

    def report(self, path: str | Path) -> None:
        """The page of `foltr report`."""
        from foltr.report.page import page

        write_whole(Path(path), page(self.study))


def compare(
    experiments: Sequence[Experiment],
    baseline: int = 0,
    names: Sequence[str] | None = None,
    seeds: Iterable[int] = (1, 2, 3, 4, 5),
    folds: Iterable[int] | None = None,
    users: Iterable[Any] | None = None,
    measures: Sequence[str] = ("ndcg@10", "online"),
    out: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
) -> Comparison:
    """Run every experiment with every seed, fold (of a data set that has them) and kind of user, and test each against
    the baseline. With `out`, runs are kept there, shared and not repeated; `jobs` of them are made at a time."""
    require(len(experiments) >= 2, f"compare wants at least two experiments, got {len(experiments)}")
    require(names is None or len(names) == len(experiments), f"{len(experiments)} experiments need as many names")
    require(0 <= baseline < len(experiments), f"baseline must be in 0 .. {len(experiments) - 1}, got {baseline}")
    points = _points(experiments, names, list(seeds), _list(folds), _list(users))
    if out is None:
        with TemporaryDirectory(prefix="foltr-") as folder:
            return _compared(points, Path(folder), baseline, tuple(measures), jobs, threads)
    return _compared(points, Path(out), baseline, tuple(measures), jobs, threads)


def _list(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _points(
    experiments: Sequence[Experiment], names: Sequence[str] | None, seeds: list[int], folds: list[int] | None,
    users: list[Any] | None,
) -> list[Point]:  # fmt: skip
    require(bool(seeds), "compare wants at least one seed")
    points = []
    for seed in seeds:
        for fold in folds or [None]:  # type: ignore[list-item]
            for user in users or [None]:
                for i, e in enumerate(experiments):
                    made = replace(e, seed=seed, **({} if user is None else {"users": user}))
                    if fold is not None:
                        made = toml.changed(made, "data.fold", fold)
                    points.append(Point(made, names[i] if names else None))
    for i, point in enumerate(points):
        if point.experiment in [other.experiment for other in points[:i]]:
            raise Mistake(f"two of the experiments are equal: {point.experiment}")
    return points


def _compared(
    points: list[Point], out: Path, baseline: int, measures: tuple[str, ...], jobs: int, threads: int
) -> Comparison:
    swept = sweep(points, out, NAME, pool=Pool(jobs), threads=threads)
    if swept.failed:
        run, error = next(iter(swept.failed.items()))
        raise Mistake(f"{len(swept.failed)} of {len(points)} runs failed, the first ({run}): {error}")
    if swept.full or swept.waiting:
        raise KeyboardInterrupt(swept.full or f"stopped with {swept.waiting} runs to go: the same call goes on")
    return Comparison(study(load_runs(swept.record.path), baseline), measures)
