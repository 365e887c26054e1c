"""Measures: what they see, what they say of themselves, and base classes for each kind.

OfflineMeasure    of a ranker, on queries with labels
OnlineMeasure     of every round of a run
RunMeasure        of a finished run, from what was recorded of it"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np

from foltr.core import Array, Cohort, Observed
from foltr.core.errors import Mistake


@dataclass(frozen=True, eq=False)
class Lists:
    """The documents of many queries in the order of a ranking, as their labels."""

    # (q, depth) labels in the order of the ranking, as deep as a measure asks; -1 after the last
    # document of a query
    grades: Array
    best: Array  # (q, longest) all labels of each query, highest first; -1 after the last document
    highest: int  # the highest label that the data set has
    # the share of each click model among the users, and its P(click) by rank and grade, for the
    # first ten ranks; () where the users are no table
    clicks: tuple[tuple[float, Array], ...] = ()


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a simulation, as it is measured."""

    t: int  # from 1
    params: Array  # (d,) float32, what the clients were sent
    sent: Cohort  # the messages of the clients, malicious ones among them, before any is lost
    directions: Array  # (n, d) what the messages mean: updates of the parameters
    observed: Observed | None  # what the users were shown, and where they clicked


class FinishedRun(Protocol):
    """A finished run, as a measure of whole runs sees it."""

    @property
    def final(self) -> dict[str, Any]:
        """The content of result.json."""
        ...

    def curve(self, name: str) -> tuple[Array, Array]:
        """Rounds and values of a column of metrics.csv; raises a Mistake if it has no such
        column."""
        ...


class Measure(Protocol):
    """A number that tells how good, or how costly, a run is. The base class of its
    kind gives most of it: OfflineMeasure (`of_list`), OnlineMeasure (`of_round`) or RunMeasure
    (`of_run`)."""

    @property
    def name(self) -> str:
        """Its column in metrics.csv and its key in result.json, such as ndcg@10."""
        ...

    @property
    def label(self) -> str:
        """Its name in tables and figures, such as nDCG@10."""
        ...

    @property
    def kind(self) -> Literal["offline", "online", "run"]:
        """offline: of a ranker, on queries with labels. online: of every round. run: of a finished
        run, from what was recorded of it."""
        ...

    @property
    def higher_is_better(self) -> bool: ...  # False for costs and errors

    @property
    def curve(self) -> Literal["points", "smoothed", "summed"]:
        """How a learning curve shows it. points: as it is. smoothed: it varies much from round to
        round, so curves are averaged, and its final value is the mean of the last 5 % of rounds.
        summed: it adds up over rounds, so runs are comparable only over equally many rounds."""
        ...

    @property
    def relevant_from(self) -> int | None:
        """The lowest label that counts as relevant. Queries without such a document have no value:
        the field `empty` of an experiment says how they count. None for a measure that has a value
        for every query."""
        ...


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
