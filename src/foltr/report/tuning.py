"""Choose settings by the validation queries: `foltr tune`.

Among runs that differ only in the settings to be tuned and in the seed, the setting with the best
mean on the validation queries is chosen. Each data set, fold, kind of user and attack has a choice
of its own: in cross-validation, the validation queries of one fold are the test queries of
another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, did_you_mean
from foltr.core.system.files import write_whole
from foltr.core.system.tables import Tidy
from foltr.report.measures import MAIN, column, value
from foltr.report.results import Recorded, Runs
from foltr.report.statistics import exact_mean
from foltr.report.study import Groups, differing_fields, is_within, leaves_of
from foltr.simulation.runs.columns import VALIDATION, columns_of, parse_measures
from foltr.simulation.sweeps.file import Point
from foltr.simulation.sweeps.state import SWEEP, Planned, Record

# never tuned: the conditions under which a setting is chosen, the repetitions, and how it is
# measured
FIXED = ("data", "users", "attack", "malicious", "roaming", "seed", "empty", "evaluate_every")
REPETITIONS = ("seed",)  # a fold is a condition here
ONLY_IF_NAMED = ("partition", "privacy")  # conditions, unless `over` names them
SUFFIX = f".tuned{SWEEP}"  # the end of the file name of a record of chosen runs


@dataclass(frozen=True)
class Candidate:
    """One setting, with its runs of all seeds."""

    setting: dict[str, Any]  # the values of the tuned fields
    runs: tuple[Recorded, ...]
    validation: float  # mean over the runs


@dataclass(frozen=True)
class Choice:
    """The setting that was chosen for one method in one condition."""

    method: str | None
    condition: str  # its label, as in a report
    best: Candidate
    candidates: int


@dataclass(frozen=True)
class Tuned:
    """All choices of a study."""

    by: str  # the measure, as it is called on the test queries
    over: tuple[str, ...]  # the tuned fields
    choices: tuple[Choice, ...]
    runs: Runs  # those of the chosen settings

    @property
    def statement(self) -> str:
        """What a reader of the results must know."""
        most = max(choice.candidates for choice in self.choices)
        label = column(self.runs, self.by).measure.label
        return (
            f"Settings ({', '.join(self.over)}) were chosen among {most} by {label} on the"
            " validation queries, separately for each data set, fold, kind of user and attack."
            " Only the chosen ones are shown, on the test queries."
        )

    def table(self) -> Tidy:
        """A row per choice: what was chosen, its mean on the validation and on the test
        queries."""
        several = len({choice.condition for choice in self.choices}) > 1
        return Tidy.of(
            [
                {
                    **({} if choice.method is None else {"method": choice.method}),
                    **({"condition": choice.condition} if several else {}),
                    **choice.best.setting,
                    "settings": choice.candidates,
                    "runs": len(choice.best.runs),
                    f"{VALIDATION}{self.by}": choice.best.validation,
                    self.by: _mean(choice.best.runs, self.by),
                }
                for choice in self.choices
            ]
        )

    def keep(self, path: Path) -> None:
        """Write a record of the chosen runs, for `foltr report` and `load_runs`."""
        planned = tuple(
            Planned(run.name, choice.method or "tuned", sets=run.sets, chosen=self.over)
            for choice in self.choices
            for run in choice.best.runs
        )
        record = Record(path, self.runs.title, planned, self.statement, self.by)
        write_whole(path, record.written())


def tuned(runs: Runs, by: str = MAIN, over: Sequence[str] = ()) -> Tuned:
    """Choose the settings of finished runs that were measured on the validation queries.

    `over` names the fields that are tuned, such as ("learner.lr",). By default they are all fields
    in which runs of one method differ, except FIXED and ONLY_IF_NAMED."""
    if not len(runs):
        raise Mistake("there is no finished run to choose from")
    higher_is_better = column(runs, VALIDATION + by).measure.higher_is_better
    known = {name for run in runs for name in run.fields}
    over = _checked(known, over) if over else _differing(runs)
    choices = _choices(runs, by, over, higher_is_better)
    if all(choice.candidates == 1 for choice in choices):
        raise Mistake(
            f"there is one setting only of {', '.join(over)}: sweep over several values of it"
        )
    chosen = tuple(run for choice in choices for run in choice.best.runs)
    return Tuned(by, over, choices, replace(runs, recorded=chosen, planned=None))


def chosen_before(runs: Runs) -> Tuned | None:
    """The choices behind the runs of a record that `Tuned.keep` wrote; None for other runs. How
    many settings there were is not in them."""
    over = tuple(dict.fromkeys(name for run in runs for name in run.chosen))
    if not over or not runs.tuned_by or VALIDATION + runs.tuned_by not in runs.columns:
        return None
    return Tuned(runs.tuned_by, over, _choices(runs, runs.tuned_by, over, True), runs)


def _choices(
    runs: Runs, by: str, over: tuple[str, ...], higher_is_better: bool
) -> tuple[Choice, ...]:
    """The best setting of each method in each condition."""
    tuning = replace(runs, recorded=tuple(replace(run, chosen=over) for run in runs))
    conditions = Groups()
    members: dict[tuple[str | None, int], list[Recorded]] = {}
    for run, leaves in zip(runs, leaves_of(tuning, REPETITIONS), strict=True):
        shared = {name: each for name, each in leaves.items() if not is_within(name, run.sets)}
        members.setdefault((run.method, conditions.number(shared, None)), []).append(run)
    labels = [condition.label for condition in conditions.groups()]
    choices = []
    for (method, condition), group in members.items():
        found = _candidates(group, over, VALIDATION + by)
        first = max if higher_is_better else min  # the first of equals
        best = first(found, key=lambda each: each.validation)
        choices.append(Choice(method, labels[condition], best, len(found)))
    return tuple(choices)


def check_tuning(points: Sequence[Point], by: str, over: Sequence[str], measures: str) -> None:
    """Raises, before anything runs, if `tuned` would refuse these experiments or words."""
    known = columns_of(map(repr, parse_measures(measures)))
    offline = {name.removeprefix(VALIDATION) for name in known if name.startswith(VALIDATION)}
    if by not in offline:
        raise Mistake(
            f"no measure of the validation queries is called {by!r}: {did_you_mean(by, offline)};"
            " others must be asked for by --measures"
        )
    planned = [
        Recorded(Path(), each.experiment.config(), {}, {}, method=each.method, sets=each.sets)
        for each in points
    ]
    if over:
        _checked({name for run in planned for name in run.fields}, over)
    else:
        _differing(Runs(tuple(planned)))


def _candidates(group: list[Recorded], over: tuple[str, ...], measure: str) -> list[Candidate]:
    """The settings of one method in one condition, each with the same seeds."""
    settings: dict[str, tuple[dict[str, Any], list[Recorded]]] = {}
    for run in group:
        setting = {name: run.fields.get(name) for name in over}
        settings.setdefault(repr(setting), (setting, []))[1].append(run)
    found = []
    for setting, runs in settings.values():
        written = ", ".join(f"{name} = {value!r}" for name, value in setting.items())
        if missing := _seeds(group) - _seeds(runs):
            raise Mistake(
                f"{written} has no finished run with seed {min(missing)}, which others have:"
                " finish the sweep first"
            )
        validation = _mean(runs, measure)
        if validation is None:
            raise Mistake(
                f"{written} has no {measure}: its runs were not measured on validation queries"
                ' (evaluate_on = "validation"), or none of them has a relevant document'
            )
        found.append(Candidate(setting, tuple(runs), validation))
    return found


def _seeds(runs: Sequence[Recorded]) -> set[Any]:
    return {run.fields.get("seed") for run in runs}


def _mean(runs: Sequence[Recorded], measure: str) -> float | None:
    """The mean of a measure over runs; None if one of them has no value."""
    values = [value(run, measure) for run in runs]
    known = [each for each in values if each is not None]
    return exact_mean(known) if len(known) == len(values) else None


def _differing(runs: Runs) -> tuple[str, ...]:
    """The fields in which runs of one method differ, but for FIXED and those that the method
    sets. A component is tuned by its fields, or as a whole where there are several classes."""
    found: dict[str, None] = {}
    for method in dict.fromkeys(run.method for run in runs):
        own = replace(runs, recorded=tuple(run for run in runs if run.method == method))
        tables = leaves_of(own, REPETITIONS)
        fixed = (*FIXED, *ONLY_IF_NAMED, *(name for run in own for name in run.sets))
        differ = differing_fields(tables)
        for name in dict.fromkeys(name for table in tables for name in table if name in differ):
            whole = "." in name and name.partition(".")[0] in differ
            if not whole and not is_within(name, fixed):
                found[name] = None
    if not found:
        raise Mistake(
            "there is nothing to choose from: runs of one method differ only in data, users,"
            " attacks or seeds. Sweep over several values of a setting, such as learner.lr"
        )
    return tuple(found)


def _checked(known: Collection[str], over: Sequence[str]) -> tuple[str, ...]:
    for name in over:
        if name not in known:
            raise Mistake(f"no run has a field {name!r} to tune: {did_you_mean(name, known)}")
        if is_within(name, FIXED):
            raise Mistake(
                f"{name} is not tuned: it is a condition, or a repetition. Each has its own choice"
            )
        if name.count(".") > 1:
            inner = ".".join(name.split(".")[:2])
            raise Mistake(f"{name} is inside a component of a component: tune {inner} as a whole")
    return tuple(over)
