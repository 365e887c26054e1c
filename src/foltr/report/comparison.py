"""One call, one table: experiments side by side over folds and seeds, with corrected significance.

foltr.compare(
    [foltr.Experiment(aggregator="Mean()"), foltr.Experiment(aggregator="Median()")], baseline=0,
    seeds=range(1, 6)
)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foltr.core.errors import Mistake, did_you_mean, require
from foltr.core.spec import measures as measures_registry
from foltr.core.spec import opened
from foltr.core.system.files import given_path, write_whole
from foltr.core.world.measures import Measure
from foltr.experiment import Experiment
from foltr.report.matrix import Matrix, matrix
from foltr.report.measures import HEADLINES
from foltr.report.results import Runs, load_runs
from foltr.report.study import Study, study
from foltr.report.tables.csv_table import csv_table
from foltr.report.tables.latex_table import latex_tables
from foltr.report.tables.notebook_table import notebook_table
from foltr.report.tables.terminal_table import terminal_table
from foltr.simulation.runs import config
from foltr.simulation.runs.columns import parse_measures, usual_columns
from foltr.simulation.runs.execution import RunOptions
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.pools import Pool
from foltr.simulation.sweeps.run import sweep
from foltr.simulation.sweeps.state import SweepPanel

NAME = "compare"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Prints itself as a table per measure; `latex()`, `csv()` and `report(path)` are for papers
    and colleagues."""

    study: Study  # the runs, sorted by what they differ in
    measures: tuple[str, ...]

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(matrix(self.study, measure) for measure in self.measures)

    @property
    def runs(self) -> Runs:
        """All of them, as `foltr.load_runs` gives them."""
        return self.study.runs

    def __repr__(self) -> str:
        return "\n".join(terminal_table(found) for found in self.matrices)

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return "".join(notebook_table(found) for found in self.matrices)

    def latex(self) -> str:
        """The tables for a paper."""
        return latex_tables(*self.matrices)

    def csv(self) -> str:
        """The same numbers, a row per cell."""
        return csv_table(*self.matrices)

    def report(self, path: str | Path) -> None:
        """The page of `foltr report`."""
        from foltr.report.page.document import page

        write_whole(given_path(path), page(self.study))


def compare(
    experiments: Sequence[Experiment],
    baseline: int | str = 0,
    names: Sequence[str] | None = None,
    seeds: Iterable[int] = (1, 2, 3, 4, 5),
    folds: Iterable[int] | None = None,
    users: Iterable[Any] | None = None,
    measures: Sequence[str] = HEADLINES,
    out: str | Path | None = None,
    jobs: int = 1,
    threads: int = 1,
    quiet: bool = False,
) -> Comparison:
    """Run every experiment with every seed, fold (of a data set that has them) and kind of user,
    and test each against the baseline. With `out`, runs are kept there, shared and not repeated;
    `jobs` of them are made at a time. `measures` are names of columns, or specs such as
    "nDCG(k=5)"."""
    require(
        len(experiments) >= 2, f"compare wants at least two experiments, got {len(experiments)}"
    )
    require(
        names is None or len(names) == len(experiments),
        f"{len(experiments)} experiments need as many names",
    )
    if isinstance(baseline, str):
        require(
            baseline in (names or ()),
            f"no experiment is called {baseline!r}: names are {list(names or ())}",
        )
        baseline = list(names or ()).index(baseline)
    require(isinstance(seeds, Iterable), f"seeds must be a list of them, got {seeds!r}")
    measures = (measures,) if isinstance(measures, str) else measures
    require(
        0 <= baseline < len(experiments),
        f"baseline must be in 0 .. {len(experiments) - 1}, got {baseline}",
    )
    names_of_columns, asked = _measures(measures)
    points = _points(experiments, names, list(seeds), _list(folds), _list(users))
    seen: dict[Experiment, int] = {}
    for i, each in enumerate(points):
        for point in each:
            require(
                point.experiment not in seen,
                f"experiments {seen.get(point.experiment)} and {i} are equal",
            )
            seen[point.experiment] = i
    with TemporaryDirectory(prefix="foltr-") as folder, SweepPanel(NAME, quiet) as show:
        place = given_path(out or folder)
        return _compared(
            points, place, baseline, names_of_columns, asked, Pool(jobs), threads, show
        )


def _measures(given: Sequence[str]) -> tuple[tuple[str, ...], tuple[Measure, ...]]:
    """The columns to compare, and the measures among them that must be asked for: each is the name
    of a usual column, or a spec such as nDCG(k=5)."""
    names: list[str] = []
    asked: list[Measure] = []
    for each in given:
        if each in usual_columns():
            names.append(each)
        elif opened(each).fields or each.endswith(")"):
            made = measures_registry.build(each)
            names.append(made.name)
            asked += parse_measures([made])
        else:
            known = did_you_mean(each, usual_columns())
            raise Mistake(f"no measure is called {each!r}: {known}, or write it as nDCG(k=5)")
    return tuple(names), tuple(asked)


def _list(values: Iterable[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _points(
    experiments: Sequence[Experiment],
    names: Sequence[str] | None,
    seeds: list[int],
    folds: list[int] | None,
    users: list[Any] | None,
) -> list[list[Point]]:
    """For each experiment its points; the fields in which the experiments differ make the
    methods."""
    require(bool(seeds), "compare wants at least one seed")
    sets = _differing(experiments, users is not None, folds is not None)
    return [
        [
            Point(_with(e, seed, fold, user), names[i] if names else None, sets)
            for seed in seeds
            for fold in folds or [None]  # type: ignore[list-item]
            for user in users or [None]
        ]
        for i, e in enumerate(experiments)
    ]


def _with(e: Experiment, seed: int, fold: int | None, user: Any) -> Experiment:
    made = replace(e, seed=seed, **({} if user is None else {"users": user}))
    return (
        made
        if fold is None
        else replace(made, data=config.with_fields(made.data, {"fold": fold}, "data"))
    )


def _differing(experiments: Sequence[Experiment], users: bool, folds: bool) -> tuple[str, ...]:
    """Dotted names of the fields in which they differ, but for those that are given from
    outside."""
    given = {"seed", *(["users"] if users else []), *(["data.fold"] if folds else [])}
    tables = [
        dict(pair for name, value in e.config().items() for pair in config.fields_of(name, value))
        for e in experiments
    ]
    names = dict.fromkeys(name for table in tables for name in table)
    inner = [
        name
        for name in names
        if "." in name or not any(other.startswith(f"{name}.") for other in names)
    ]
    differ = [name for name in inner if len({repr(table.get(name)) for table in tables}) > 1]
    whole = [
        name
        for name in names
        if "." not in name and len({opened(t.get(name)).name for t in tables}) > 1
    ]
    return tuple(
        name for name in dict.fromkeys([*whole, *differ]) if not {name, name.split(".")[0]} & given
    )


def _compared(
    points: list[list[Point]],
    out: Path,
    baseline: int,
    measures: tuple[str, ...],
    asked: tuple[Measure, ...],
    pool: Pool,
    threads: int,
    show: SweepPanel,
) -> Comparison:
    together = [point for each in zip(*points, strict=True) for point in each]
    options = RunOptions(threads, measures=asked)
    swept = sweep(together, out, NAME, options=options, pool=pool, show=show)
    if swept.failed:
        run, error = next(iter(swept.failed.items()))
        raise Mistake(f"{len(swept.failed)} runs failed, the first ({run}): {error}")
    if swept.full:
        raise Mistake(swept.full)
    if swept.waiting:
        raise KeyboardInterrupt(f"stopped with {swept.waiting} runs to go: the same call goes on")
    runs = load_runs(swept.record.path)
    for one in runs:
        one.metrics  # noqa: B018  # read now: without `out` the folder goes
    first = study(runs)
    (chosen,) = {method for (method, _), cell in first.cells.items() for run in cell.values()
                 if run.config == points[baseline][0].experiment.config()}  # fmt: skip
    return Comparison(replace(first, baseline=chosen), measures)
