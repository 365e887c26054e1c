"""Chapter "Unlearning": how near a ranker that unlearned clients is to one that was trained
without them, and at what cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.cohorts import cosine
from foltr.core.spec import unlearners
from foltr.core.system.files import text_of
from foltr.core.system.tables import NONE
from foltr.report.chapters.reference_comparison import ReferenceComparison, about_tests
from foltr.report.chapters.registry import (
    Block,
    Cell,
    Column,
    TableCell,
    chapter,
    side_by_side,
    table_block,
)
from foltr.report.measures import MAIN, finite
from foltr.report.results import Recorded, Runs
from foltr.report.spec_text import config_key, config_labels, says, without
from foltr.report.statistics import exact_mean
from foltr.report.study import (
    ATTACK_FIELDS,
    NOT_METHOD,
    UNLEARNING_FIELDS,
    Place,
    Study,
    study_by_fields,
)
from foltr.simulation.runs.folder import UNREADABLE, Folder
from foltr.simulation.runs.result import COSTS

CHAPTER = "Unlearning"
HONEST, ATTACKED, RETRAINED, UNLEARNED = range(4)  # kinds of methods, in the order of the rows
TRACES = (
    "L2 to retrained",
    "cosine to retrained",
    "nDCG@10 on their data, before",
    "nDCG@10 on their data, after",
    "influence left",
)


@chapter(place=50)
def unlearning(runs: Runs) -> list[Block] | None:
    """nDCG@10 in each condition, then the remaining influence, then the costs."""
    chosen = [run for run in runs if "baseline" not in run.config]
    if not any("unlearning" in run.config for run in chosen):
        return None
    methods = UnlearningReferences(study_by_fields(runs, chosen))
    return [*_accuracy(methods), *_traces(methods), *_costs(methods)]


def _accuracy(methods: UnlearningReferences) -> Iterator[Block]:
    study = methods.study
    retrained = ReferenceComparison(study, MAIN, methods.retrained)
    before = ReferenceComparison(study, MAIN, methods.before)
    own = ReferenceComparison(study, MAIN, {place: place[0] for place in study.cells})
    text = (
        "Final nDCG@10, and two differences: from a ranker that was retrained without the clients"
        " who left (the nearer to 0, the better the unlearning), and from the ranker before they"
        f" left. {about_tests([retrained, before])}"
    )
    for part, conditions in side_by_side(range(len(study.conditions))):
        columns: list[Column] = [("method", list(methods.labels.values()))]
        for c in conditions:
            places = [(method, c) for method in methods.labels]
            label = study.condition_label(c)
            columns += [
                (
                    f"{label}: nDCG@10" if label else "nDCG@10",
                    [own.value(each) for each in places],
                ),
                ("difference from retrained", [retrained.difference(each) for each in places]),
                ("difference from before", [before.difference(each) for each in places]),
            ]
        yield table_block(f"nDCG@10 after unlearning{part}", text, columns, CHAPTER)


def _traces(methods: UnlearningReferences) -> Iterator[Block]:
    """How near parameters are to the retrained ones, and how well the ranker serves the clients
    who left. Columns without any number are left out."""
    numbers: list[tuple[float | None, ...]] = []
    for method in methods.labels:
        runs = _runs(methods, method)
        own = [
            _mean(_number(run.final, "unlearning", "own", when) for run in runs)
            for when in ("before", "after")
        ]
        left = _mean(_number(_unlearning_report(run.path), "influence", "left") for run in runs)
        numbers.append((*_distances(methods, method), *own, left))
    columns: list[Column] = [("method", list(methods.labels.values()))]
    for head, values in zip(TRACES, zip(*numbers, strict=True), strict=True):
        if any(value is not None for value in values):
            cells = [NONE if value is None else f"{value:.3f}" for value in values]
            columns.append((head, cells))
    if len(columns) > 1:
        text = (
            "Means over all runs. L2 and cosine: of the final parameters and the retrained ones of"
            " the same repetition. nDCG@10 on their data: on the training queries of the clients"
            " who left, by their own judgements. Influence left: 1 for the ranker before they"
            " left, 0 for a retrained ranker."
        )
        yield table_block("Influence of the clients who left", text, columns, CHAPTER)


def _costs(methods: UnlearningReferences) -> Iterator[Block]:
    shown = [method for method in methods.labels if methods.kind(method) >= RETRAINED]
    runs = [_runs(methods, method) for method in shown]
    columns: list[Column] = [("method", [methods.labels[method] for method in shown])]
    columns += [(head, [_cost(each, name) for each in runs]) for name, head in COSTS.items()]
    for of, head in (("per_device", "stored on a device"), ("in_all", "stored on all devices")):
        columns.append((head, [_stored(each, of) for each in runs]))
    text = "Means over all runs. In brackets: retraining takes so many times as much."
    block = table_block("Cost of unlearning", text, columns, CHAPTER)
    if len(block.rows) > 1:
        yield block


def _stored(runs: list[Recorded], of: str) -> TableCell:
    stored = _mean(_number(run.final, "unlearning", "storage", of) for run in runs)
    return NONE if stored is None else f"{stored:,.0f} bytes"


def _cost(runs: list[Recorded], name: str) -> TableCell:
    made = _mean(_number(run.final, "unlearning", name, "made") for run in runs)
    if made is None:
        return NONE
    fewer = _mean(_number(run.final, "unlearning", name, "times_fewer") for run in runs)
    return Cell(f"{made:,.0f}", "" if fewer is None else f"({fewer:,.1f} times)")


# ---- numbers


def _runs(methods: UnlearningReferences, method: int) -> list[Recorded]:
    cells = [cell for (its, _), cell in methods.study.cells.items() if its == method]
    return [run for cell in cells for run in cell.values()]


def _distances(methods: UnlearningReferences, method: int) -> tuple[float | None, float | None]:
    """The mean L2 distance and cosine between the parameters of runs and of the retrained ones."""
    distances, cosines = [], []
    for (its, c), other in methods.retrained.items():
        if its != method:
            continue
        retrained = methods.study.cell(other, c)
        for pair, run in methods.study.cell(its, c).items():
            ours = _params(run.path)
            theirs = _params(retrained[pair].path) if pair in retrained else None
            if ours is not None and theirs is not None and ours.shape == theirs.shape:
                distances.append(float(np.sqrt(np.square(ours - theirs).sum())))
                cosines.append(cosine(ours, theirs))
    return _mean(distances), _mean(cosines)


def _params(folder: Path) -> Array | None:
    """A run's final parameters, if its folder still has them."""
    try:
        found = Folder(folder).params()
    except (*UNREADABLE, MemoryError):
        return None
    return found.astype(np.float64) if found.dtype.kind == "f" else None


def _unlearning_report(folder: Path) -> dict[str, Any]:
    """What `foltr unlearn` wrote about a run."""
    try:
        found = json.loads(text_of(folder / "unlearning.json"))
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _number(tables: Any, *names: str) -> float | None:
    """A number inside nested tables; None where there is none."""
    for name in names:
        tables = tables.get(name) if isinstance(tables, dict) else None
    return finite(tables)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return exact_mean(known) if known else None


@dataclass(frozen=True, eq=False)
class UnlearningReferences:
    """The methods of a study with unlearning, and the references of each."""

    study: Study

    def kind(self, method: int) -> int:
        """HONEST: nobody leaves and nobody attacks. ATTACKED: nobody leaves, somebody attacks.
        RETRAINED: trained again without the clients who left. UNLEARNED: by any other method."""
        config = self.study.configs[method]
        if "unlearning" in config:
            return RETRAINED if is_retraining(str(config["unlearning"])) else UNLEARNED
        return ATTACKED if "attack" in config else HONEST

    @cached_property
    def before(self) -> dict[Place, int]:
        """The method before clients left, in each condition. Among several, one with the same
        history is preferred."""

        def fits(i: int, j: int) -> bool:
            return (
                self.kind(i) >= RETRAINED > self.kind(j)
                and self._trainings[i] == self._trainings[j]
            )

        histories = [config.get("history") for config in self.study.configs]
        same_history = self._matched(lambda i, j: fits(i, j) and histories[i] == histories[j])
        return self._matched(fits) | same_history

    @cached_property
    def retrained(self) -> dict[Place, int]:
        """The first method that was retrained without the same clients. Methods that nobody left
        have one as well."""
        leavers = [_left(config) for config in self.study.configs]

        def fits(i: int, j: int) -> bool:
            if self.kind(j) != RETRAINED:
                return False
            if self.kind(i) == HONEST:
                return self._trainings_without_attack[i] == self._trainings_without_attack[j]
            if self.kind(i) != ATTACKED and leavers[i] != leavers[j]:
                return False
            return self._trainings[i] == self._trainings[j]

        return {place: other for place, other in self._matched(fits).items() if other != place[0]}

    @cached_property
    def labels(self) -> dict[int, str]:
        """The methods to show, in order, and their labels."""
        used = {*self.before.values(), *(method for method, _ in self.retrained)}
        groups: list[list[int]] = [[], [], [], []]
        for method in range(len(self.study.configs)):
            if self.kind(method) >= RETRAINED or method in used:
                groups[self.kind(method)].append(method)
        honest, attacked, retrained, unlearned = groups
        histories = {self.study.configs[i].get("history") for i in unlearned}
        hidden = ("history",) if len(histories) < 2 else ()
        leaving = [
            *(self._fields(i, "history") for i in retrained),
            *(self._fields(i, *hidden) for i in unlearned),
        ]
        alone = "nobody leaves or attacks" if attacked else "nobody leaves"
        labels = [
            *_prefixed(
                alone,
                config_labels(
                    [self._fields(i, *UNLEARNING_FIELDS, *ATTACK_FIELDS) for i in honest]
                ),
            ),
            *_prefixed(
                "nobody leaves",
                config_labels(
                    [self._fields(i, *UNLEARNING_FIELDS) for i in attacked],
                    ("attack", "malicious"),
                ),
            ),
            *config_labels(leaving, ("unlearning",)),
        ]
        return dict(zip([*honest, *attacked, *retrained, *unlearned], labels, strict=True))

    def _fields(self, method: int, *hidden: str) -> dict[str, Any]:
        return without(self.study.configs[method], (*NOT_METHOD, *hidden))

    @cached_property
    def _trainings(self) -> list[str]:
        """The config of each method, whoever leaves."""
        return self._keys(*UNLEARNING_FIELDS)

    @cached_property
    def _trainings_without_attack(self) -> list[str]:
        """The config of each method, whoever leaves or attacks."""
        return self._keys(*UNLEARNING_FIELDS, *ATTACK_FIELDS)

    def _keys(self, *hidden: str) -> list[str]:
        return [config_key(self._fields(i, *hidden)) for i in range(len(self.study.methods))]

    def _matched(self, fits: Callable[[int, int], bool]) -> dict[Place, int]:
        """The first method that fits each method, in every condition where both have runs."""
        found: dict[Place, int] = {}
        for method in range(len(self.study.configs)):
            others = [other for other in range(len(self.study.configs)) if fits(method, other)]
            for c in range(len(self.study.conditions)):
                there = [other for other in others if (other, c) in self.study.cells]
                if there and (method, c) in self.study.cells:
                    found[method, c] = there[0]
        return found


def is_retraining(unlearner: str) -> bool:
    """Whether an unlearner trains again from the start, and uses nothing that was stored."""
    stored = says(unlearners, unlearner, "stores")
    return stored == "nothing" and says(unlearners, unlearner, "restarts") is True


def _prefixed(prefix: str, labels: list[str]) -> list[str]:
    return [f"{prefix}, {label}" if label else prefix for label in labels]


def _left(config: dict[str, Any]) -> Any:
    """All clients who left, in whatever groups."""
    leaving = config.get("leaving")
    if not isinstance(leaving, list | tuple):
        return leaving
    return sorted(
        client
        for group in leaving
        for client in (group if isinstance(group, list | tuple) else [group])
    )
