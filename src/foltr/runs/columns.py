"""What is measured of a run: the columns that every run has, and others that are asked for.

A column is a measure of something: `train_ndcg@10` is nDCG@10 on the training queries. Which other
measures are recorded is not part of a run's identity."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np

from foltr.components.measures.expected_maxrr import ExpectedMaxRR
from foltr.components.measures.max_rr import MaxRR
from foltr.components.measures.ndcg import nDCG
from foltr.components.measures.online_ndcg import OnlineNDCG
from foltr.components.measures.online_performance import OnlinePerformance
from foltr.components.measures.reciprocal_rank import RR
from foltr.core import Array
from foltr.errors import Mistake, require, shown
from foltr.spec import measures as registry
from foltr.world.dataset import Dataset
from foltr.world.measures import Measure, OfflineMeasure

LATE_PART = 20  # a late mean is over the last 1 / LATE_PART of all rounds (5 %)
LATE = "mean of the last 5 % of rounds"
VALIDATION = "validation_"
PLACES = {  # how the name of a column begins -> what it is measured on, as its label says it
    "merged_": "offline {} by merged labellings",
    "train_": "{} on the training queries",
    VALIDATION: "{} on the validation queries",
    "own_": "offline {} of the shared ranker on each client's own queries, by its own judgements",
    "personal_": "offline {} of the clients' own rankers on all queries",
    "personal_own_": (
        "offline {} of the clients' own rankers on their own queries, by their own judgements"
    ),
}
USUAL: tuple[tuple[str, Measure], ...] = (  # the columns that runs have, as tables order them
    ("", nDCG()),
    ("", RR()),
    ("", ExpectedMaxRR()),
    ("merged_", nDCG()),
    ("merged_", RR()),
    ("train_", ExpectedMaxRR()),
    ("train_", nDCG()),
    (VALIDATION, nDCG()),
    (VALIDATION, RR()),
    (VALIDATION, ExpectedMaxRR()),
    ("own_", nDCG()),
    ("personal_", nDCG()),
    ("personal_own_", nDCG()),
    ("", OnlinePerformance()),
    ("", OnlineNDCG()),
    ("", MaxRR()),
)
MEASURES = "measures"  # in result.json: the specs of measures that were asked for
CODES = "measure_files"  # in result.json: hashes of the files of users' measures
NAME = re.compile(r"[\w@=.+-]+")
# keys of result.json that are no measures, and first columns of tables
TAKEN = {
    "round", "interactions", "rounds", "queries", "empty_queries", "empty", "engine", "seconds",
    "kernel_seconds", "notes", "privacy", "history", "run", "method", "query", "unlearning",
    MEASURES, CODES,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of tables and curves."""

    place: str  # a key of PLACES, or nothing
    measure: Measure

    @property
    def name(self) -> str:
        return self.place + self.measure.name

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.measure.kind == "online":
            how = LATE if self.measure.curve == "smoothed" else "sum over rounds"
            return f"{self.measure.label} ({how})"
        return self.curve_label

    @property
    def curve_label(self) -> str:
        """Its name beside a learning curve."""
        if self.measure.kind != "offline":
            return self.measure.label
        return PLACES.get(self.place, "offline {}").format(self.measure.label)

    @property
    def follows_empty(self) -> bool:
        """Whether the field `empty` of an experiment says how queries without a relevant document
        count. What is measured for clients leaves such queries out."""
        shared = self.place in ("", "merged_", "train_", VALIDATION)
        return shared and self.measure.relevant_from is not None


def late_or_sum(measure: Measure, values: Array) -> float:
    """The one value of a measure of every round: the mean over the last 5 % of the rounds (at
    least one) that are known, or the sum where it adds up; NaN where nothing is known."""
    if measure.curve == "summed":
        return float(values.sum()) if len(values) else float("nan")
    late = values[-max(1, round(len(values) / LATE_PART)) :]
    late = late[np.isfinite(late)]
    return math.fsum(late) / len(late) if len(late) else float("nan")


@cache
def usual_columns() -> dict[str, Column]:
    """The columns that runs have without being asked, by name."""
    return {column.name: column for column in (Column(*each) for each in USUAL)}


def parse_measures(given: str | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """Measures from one text ("nDCG(k=5), ERR(k=20), MAP()") or from several specs or measures.
    Those that every run has are left out, and so are repetitions."""
    found: dict[str, Measure] = {}
    usual = usual_columns()
    for each in _split(given) if isinstance(given, str) else given:
        made = registry.build(each) if isinstance(each, str) else each
        require(registry.holds(made), f"not a measure: {shown(each)}: write nDCG(k=5)")
        name = made.name
        fits = isinstance(name, str) and NAME.fullmatch(name) is not None and name[0] != "_"
        good = "it takes letters, digits and _ @ = . + -"
        require(fits, f"{made!r} is called {shown(name)}, which is no name of a column: {good}")
        place = next((place for place in PLACES if name.startswith(place)), None)
        require(place is None, f"{made!r} is called {name!r}: no measure may begin with {place!r}")
        require(name not in TAKEN, f"{made!r} is called {name!r}, like another column: rename it")
        known = found.get(name) or (usual[name].measure if name in usual else None)
        if known is not None and known != made:
            raise Mistake(f"{known!r} and {made!r} are both called {name!r}: rename one")
        if name not in usual:
            found[name] = made
    return tuple(found.values())


def _split(text: str) -> list[str]:
    """The specs of a list that is written with commas."""
    try:
        parsed = ast.parse(f"[{text.strip()}]", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Mistake(
            f"not a list of measures: {shown(text)}: write 'nDCG(k=5), ERR(k=20), MAP()'"
        ) from None
    assert isinstance(parsed, ast.List)
    return [ast.unparse(part) for part in parsed.elts]


def check_labels(measures: Iterable[Measure], data: Dataset, where: str) -> tuple[str, ...]:
    """Raises if a measure counts labels as relevant that the data does not have. Returns notes for
    the reader."""
    notes, highest = [], int(data.labels.max(initial=0))
    longest = int((data.offsets[1:] - data.offsets[:-1]).max(initial=0))
    for measure in measures:
        least = measure.relevant_from
        if measure.kind == "offline" and least is not None and least > highest:
            raise Mistake(
                f"{measure!r} counts labels of {least} or more as relevant, and the highest label"
                f" of {where} is {highest}: choose a lower label"
            )
        depth = cast(OfflineMeasure, measure).depth if measure.kind == "offline" else None
        if depth is not None and depth > longest:
            notes.append(
                f"{measure.label}: no query of {where} has more than {longest} documents, so ranks"
                f" {longest + 1} to {depth} are empty"
            )
    return tuple(notes)


def columns_of(specs: Iterable[str]) -> dict[str, Column]:
    """The usual columns, and those of measures that were asked for. A spec of a component that is
    not known here is left out."""
    found, specs = usual_columns(), dict.fromkeys(specs)
    if not specs:
        return found
    found = dict(found)
    for spec in specs:
        try:
            made = parse_measures([spec])
        except Mistake:
            continue
        for measure in made:
            for place in ("", "train_", VALIDATION) if measure.kind == "offline" else ("",):
                column = Column(place, measure)
                found.setdefault(column.name, column)
    return found
