"""Base classes of measures: inherit from the one whose kind yours is, and implement one method.

OfflineMeasure    of a ranker, on queries with labels
OnlineMeasure     of every round of a run
RunMeasure        of a finished run, from what was recorded of it"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from foltr.core import Array
from foltr.errors import Mistake
from foltr.world.protocols import FinishedRun, Lists, Round


class MeasureDefaults:
    """What most measures have in common. A measure is called by its class: Hits(k=3) is the column
    hits@3. Other fields follow where they are not the default: hits_rel=2@3."""

    higher_is_better = True
    relevant_from: int | None = None

    @property
    def name(self) -> str:
        return with_fields(self, type(self).__name__.lower())

    @property
    def label(self) -> str:
        return with_fields(self, type(self).__name__)


def with_fields(measure: Any, word: str) -> str:
    """The word, with the fields that are not the default, and the cut-off k if there is one."""
    k, parts = None, [word]
    for each in fields(measure):
        value = getattr(measure, each.name)
        if each.name == "k":
            k = value
        elif value != each.default:
            parts.append(
                f"{each.name}={value:g}" if type(value) is float else f"{each.name}={value}"
            )
    return "_".join(parts) + ("" if k is None else f"@{k}")


class OfflineMeasure(MeasureDefaults):
    """Base of measures of a ranked list: implement `of_list`, or `of_lists` for all queries at
    once, which is faster. Set `depth` to the number of documents that are looked at."""

    kind: Literal["offline"] = "offline"
    curve: Literal["points"] = "points"
    relevant_from: int | None = 1

    @property
    def depth(self) -> int | None:
        """How many documents of a list are looked at; None for all."""
        return None

    def of_list(self, grades: Array, best: Array) -> float:
        """The value for one query. `grades`: the labels of its documents in the order of the
        ranking. `best`: the same labels, highest first. NaN where it is undefined."""
        raise Mistake(f"{type(self).__name__} is not finished: write of_list(self, grades, best)")

    def of_lists(self, lists: Lists) -> Array:
        """The values (q,) for all queries."""
        pairs = zip(lists.grades, lists.best, strict=True)
        return np.array(
            [self.of_list(shown[shown >= 0], best[best >= 0]) for shown, best in pairs]
        )


class OnlineMeasure(MeasureDefaults, ABC):
    """Base of measures of every round: implement `of_round`."""

    kind: Literal["online"] = "online"
    curve: Literal["smoothed", "summed"] = "smoothed"

    @abstractmethod
    def of_round(self, round: Round) -> float:
        """The value in one round; NaN where it is unknown."""


class RunMeasure(MeasureDefaults, ABC):
    """Base of measures of a finished run: implement `of_run`."""

    kind: Literal["run"] = "run"
    curve: Literal["points", "summed"] = "points"

    @abstractmethod
    def of_run(self, run: FinishedRun) -> float | None:
        """The value of a run; None where it has none."""

    def curve_of(self, run: FinishedRun) -> tuple[Array, Array] | None:
        """Its curve: rounds and values. None for a measure that has none."""
        return None
