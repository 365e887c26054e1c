"""Choose settings by the validation queries: `foltr tune`.

Among runs that differ only in the settings to be tuned and in the seed, the setting with the best
mean on the validation queries is chosen. Each data set, fold, kind of user and attack has a choice
of its own: in cross-validation, the validation queries of one fold are the test queries of
another."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foltr.errors import Mistake, did_you_mean
from foltr.report.measures import MAIN, column, value
from foltr.report.study import is_within
from foltr.results import Recorded, Runs
from foltr.runs.columns import VALIDATION, columns_of, parse_measures
from foltr.spec import opened
from foltr.sweeps.file import Point
from foltr.sweeps.state import SWEEP, Planned, Record
from foltr.system.files import write_whole
from foltr.system.table import Tidy

# never tuned: the conditions under which a setting is chosen, the repetitions, and how it is
# measured
FIXED = ("data", "users", "attack", "malicious", "roaming", "seed", "empty", "evaluate_every")
ONLY_IF_NAMED = ("partition", "privacy")  # conditions, unless `over` names them
SUFFIX = f".tuned{SWEEP}"  # the end of the file name of a record of chosen runs


@dataclass(frozen=True)
class Candidate:
    """One setting, with its runs of all seeds."""

    setting: dict[str, Any]  # the values of the tuned fields
    runs: tuple[Recorded, ...]
    validation: float  # mean over the runs

    def mean(self, measure: str) -> float | None:
        """The mean of another measure over its runs; None if one of them has no value."""
        values = [value(run, measure) for run in self.runs]
        known = [each for each in values if each is not None]
        return math.fsum(known) / len(known) if len(known) == len(values) else None


@dataclass(frozen=True)
class Choice:
    """The setting that was chosen for one method in one condition."""

    method: str | None
    condition: dict[str, Any]  # the fields in which choices differ
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
        conditions = dict.fromkeys(name for each in self.choices for name in each.condition)
        return Tidy.of(
            [
                {
                    **({} if choice.method is None else {"method": choice.method}),
                    **{name: choice.condition.get(name) for name in conditions},
                    **{name: choice.best.setting.get(name) for name in self.over},
                    "settings": choice.candidates,
                    "runs": len(choice.best.runs),
                    f"{VALIDATION}{self.by}": choice.best.validation,
                    self.by: choice.best.mean(self.by),
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
    in which runs of one method differ, but for data, users, attacks and seeds."""
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
    groups: dict[str, list[Recorded]] = {}
    for run in runs:
        groups.setdefault(repr((run.method, _without(run, (*over, "seed")))), []).append(run)
    tables = [_without(group[0], (*over, "seed")) for group in groups.values()]
    shown = _distinguishing(tables)
    choices = []
    for group, table in zip(groups.values(), tables, strict=True):
        found = _candidates(group, over, VALIDATION + by)
        best = found[0]
        for each in found[1:]:  # the first of equals
            better = each.validation > best.validation
            if each.validation != best.validation and better == higher_is_better:
                best = each
        condition = {name: _brief(name, table[name]) for name in shown if name in table}
        choices.append(Choice(group[0].method, condition, best, len(found)))
    return tuple(choices)


def _brief(name: str, value: Any) -> Any:
    """A component by its name: its fields stand beside it."""
    return opened(value).name if "." not in name and isinstance(value, str) else value


def _distinguishing(tables: list[dict[str, Any]]) -> list[str]:
    """The fields that tell groups apart: a component by its name, and by those of its fields in
    which groups that have them differ."""
    found, differing = [], _fields_that_differ(tables)
    for name in differing:
        values = [table[name] for table in tables if name in table]
        inner = any(other.startswith(f"{name}.") for other in differing)
        known = {_brief(name, value) for value in values} if inner else set(map(repr, values))
        if len(known) > 1 or (not inner and "." not in name):
            found.append(name)
    return found


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
    settings: dict[str, list[Recorded]] = {}
    for run in group:
        settings.setdefault(repr(_setting(run, over)), []).append(run)
    found, seeds = [], {_seed(run) for run in group}
    for runs in settings.values():
        setting = _setting(runs[0], over)
        if missing := seeds - {_seed(run) for run in runs}:
            raise Mistake(
                f"{_written(setting)} has no finished run with seed {min(missing)}, which others"
                " have: finish the sweep first"
            )
        values = [value(run, measure) for run in runs]
        known = [each for each in values if each is not None]
        if len(known) < len(values):
            raise Mistake(
                f"{_written(setting)} has no {measure}: its runs were not measured on validation"
                ' queries (evaluate_on = "validation"), or none of them has a relevant document'
            )
        found.append(Candidate(setting, tuple(runs), math.fsum(known) / len(known)))
    return found


def _differing(runs: Runs) -> tuple[str, ...]:
    """The fields in which runs of one method differ, but for FIXED and those that the method
    sets."""
    found: dict[str, None] = {}
    for method in dict.fromkeys(run.method for run in runs):
        tables = [run.fields for run in runs if run.method == method]
        owned = tuple({name for run in runs if run.method == method for name in run.sets})
        differ = _fields_that_differ(tables)
        # components of several classes are tuned as a whole
        whole = [n for n in differ if len({opened(table.get(n)).name for table in tables}) > 1]
        for name in differ:
            inner = [other for other in differ if other.startswith(f"{name}.")]
            outer = any(name.startswith(f"{other}.") for other in whole)
            if not is_within(name, (*FIXED, *ONLY_IF_NAMED, *owned)) and not outer:
                if name in whole or not inner:
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
    return tuple(over)


def _fields_that_differ(tables: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for table in tables for name in table)
    return [name for name in names if len({repr(table.get(name)) for table in tables}) > 1]


def _without(run: Recorded, left_out: Sequence[str]) -> dict[str, Any]:
    """The fields of a run but these. A component counts by its inner fields, if one of them is
    left out."""
    parts = [name.split(".") for name in left_out]
    whole = {".".join(each[:n]) for each in parts for n in range(1, len(each))}
    return {
        name: each
        for name, each in run.fields.items()
        if name not in whole and not is_within(name, left_out)
    }


def _setting(run: Recorded, over: Sequence[str]) -> dict[str, Any]:
    return {name: run.fields.get(name) for name in over}


def _seed(run: Recorded) -> Any:
    return run.fields.get("seed")


def _written(setting: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in setting.items())
