"""One call, one table: experiments side by side over folds and seeds, with corrected significance.

foltr.compare(
    [foltr.Experiment(aggregator="Mean()"), foltr.Experiment(aggregator="Median()")], baseline=0,
    seeds=range(1, 6)
)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
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
from foltr.report.study import Study, is_within, study
from foltr.report.tables.csv_table import csv_table
from foltr.report.tables.latex_table import latex_tables
from foltr.report.tables.screen_table import notebook_table, terminal_table
from foltr.simulation.runs import config
from foltr.simulation.runs.columns import usual_columns
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
        known = list(names or ())
        require(baseline in known, f"no experiment is called {baseline!r}: names are {known}")
        baseline = known.index(baseline)
    require(isinstance(seeds, Iterable), f"seeds must be a list of them, got {seeds!r}")
    require(
        0 <= baseline < len(experiments),
        f"baseline must be in 0 .. {len(experiments) - 1}, got {baseline}",
    )
    columns, specs = _columns((measures,) if isinstance(measures, str) else measures)
    given: dict[str, list[Any]] = {"seed": list(seeds)}  # the fields that are given from outside
    require(bool(given["seed"]), "compare wants at least one seed")
    if folds is not None:
        given["data.fold"] = list(folds)
    if users is not None:
        given["users"] = list(users)
    sets = _differing(experiments, given)
    points = [
        [Point(each, names[i] if names else None, sets) for each in _repetitions(e, given)]
        for i, e in enumerate(experiments)
    ]
    _refuse_equal(points)
    with TemporaryDirectory(prefix="foltr-") as folder, SweepPanel(NAME, quiet) as show:
        together = [point for each in zip(*points, strict=True) for point in each]
        swept = sweep(
            together,
            given_path(out or folder),
            NAME,
            options=RunOptions(threads, measures=tuple(specs)),
            pool=Pool(jobs),
            show=show,
        )
        if swept.failed:
            run, error = next(iter(swept.failed.items()))
            raise Mistake(f"{len(swept.failed)} runs failed, the first ({run}): {error}")
        if swept.full:
            raise Mistake(swept.full)
        if swept.waiting:
            raise KeyboardInterrupt(
                f"stopped with {swept.waiting} runs to go: the same call goes on"
            )
        runs = load_runs(swept.record.path)
        for one in runs:
            one.metrics  # noqa: B018  # read now: without `out` the folder goes
    sorted_runs = study(runs)
    wanted = points[baseline][0].experiment.config()
    (method,) = {
        method
        for (method, _), cell in sorted_runs.cells.items()
        if any(run.config == wanted for run in cell.values())
    }
    return Comparison(replace(sorted_runs, baseline=method), columns)


def _columns(given: Sequence[str]) -> tuple[tuple[str, ...], list[Measure]]:
    """The columns to compare, and the measures among them that must be asked for: each is the name
    of a usual column, or a spec such as nDCG(k=5)."""
    columns: list[str] = []
    specs: list[Measure] = []
    for each in given:
        if each in usual_columns():
            columns.append(each)
        elif opened(each).fields or each.endswith(")"):
            specs.append(measures_registry.build(each))
            columns.append(specs[-1].name)
        else:
            known = did_you_mean(each, usual_columns())
            raise Mistake(f"no measure is called {each!r}: {known}, or write it as nDCG(k=5)")
    return tuple(columns), specs


def _repetitions(e: Experiment, given: dict[str, list[Any]]) -> Iterator[Experiment]:
    """An experiment with every seed, fold and kind of user that is given."""
    for seed in given["seed"]:
        for fold in given.get("data.fold") or [None]:
            for user in given.get("users") or [None]:
                made = replace(e, seed=seed)
                if user is not None:
                    made = replace(made, users=user)
                if fold is not None:
                    data = config.with_fields(made.data, {"fold": fold}, "data")
                    made = replace(made, data=data)
                yield made


def _refuse_equal(points: list[list[Point]]) -> None:
    seen: dict[Experiment, int] = {}
    for i, each in enumerate(points):
        for point in each:
            require(
                point.experiment not in seen,
                f"experiments {seen.get(point.experiment)} and {i} are equal",
            )
            seen[point.experiment] = i


def _differing(experiments: Sequence[Experiment], given: Collection[str]) -> tuple[str, ...]:
    """Dotted names of the fields in which they differ, and which make the methods: not those that
    are given from outside."""
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
        name for name in dict.fromkeys([*whole, *differ]) if not is_within(name, [*given])
    )
