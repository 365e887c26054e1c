"""What is measured in a run, round by round, in memory and as metrics.csv; and what is measured of
it: the columns that every run has, and others that are asked for."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from foltr.components.measures.of_lists import RR, ExpectedMaxRR, nDCG
from foltr.components.measures.of_rounds import MaxRR, OnlineNDCG
from foltr.components.measures.of_runs import OnlinePerformance
from foltr.core import Array, Cohort, Observed
from foltr.core.errors import Mistake, did_you_mean, require, shown
from foltr.core.spec import measures as registry
from foltr.core.world.dataset import Dataset
from foltr.core.world.measures import Measure, OfflineMeasure

FIELD_END = re.compile(rb"[,\n]")
LONGEST = 400  # bytes of a number, more than Python writes
ONLINE = ("online_ndcg@10", "maxrr", "interactions")  # known of every round
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


class Curve(NamedTuple):
    rounds: Array
    values: Array


@dataclass
class Metrics:
    """What was measured: `online` in every round, `offline` in those that were evaluated (0 =
    before the first).

    Values are lists while a run is made. Where many finished runs are read, they are arrays."""

    online: dict[str, Any] = field(default_factory=lambda: {name: [] for name in ONLINE})
    evaluated: list[int] = field(default_factory=list)
    offline: dict[str, Any] = field(default_factory=dict)

    def add_round(
        self, cohort: Cohort, observed: Observed | None, more: Mapping[str, float] | None = None
    ) -> None:
        """A round's online measures, and `more` that were asked for; NaN where nothing is known
        (real clients, no answers)."""
        online, total, ndcg, max_rr = self.online, np.add.reduce, float("nan"), float("nan")
        if observed is not None and len(observed.ndcg):
            n = len(observed.ndcg)
            ndcg, max_rr = float(total(observed.ndcg)) / n, float(total(observed.max_rr)) / n
        online["online_ndcg@10"].append(ndcg)
        online["maxrr"].append(max_rr)
        online["interactions"].append(float(total(cohort.weights)))
        for name, value in (more or {}).items():
            online[name].append(value)

    def expect(self, online: Iterable[str]) -> None:
        """Record these measures in every round, besides the usual ones. Rounds that are made
        already have NaN: the process that made them did not record them."""
        unknown = [float("nan")] * len(self.online["interactions"])
        names = (*ONLINE, *online)
        self.online = {name: self.online.get(name, list(unknown)) for name in names}

    def add_rounds(self, seen: Array) -> None:
        """The same of several rounds: nDCG, MaxRR and searches of each client (rounds, 3, n)."""
        totals, n = np.add.reduce(seen, axis=2), seen.shape[2]
        self.online["online_ndcg@10"].extend((totals[:, 0] / n).tolist())
        self.online["maxrr"].extend((totals[:, 1] / n).tolist())
        self.online["interactions"].extend(totals[:, 2].tolist())

    def evaluate(self, t: int, measures: dict[str, float]) -> None:
        """A round's offline measures. Rounds before have NaN in a column that is new, because the
        process that made them did not record it. A column that is not recorded any more is
        dropped."""
        if self.offline.keys() != measures.keys():
            unknown = [float("nan")] * len(self.evaluated)
            self.offline = {name: self.offline.get(name, list(unknown)) for name in measures}
        self.evaluated.append(t)
        for name, value in measures.items():
            self.offline[name].append(value)

    def curve(self, name: str) -> Curve:
        if name in self.online:
            return Curve(np.arange(1, len(self.online[name]) + 1), np.array(self.online[name]))
        if name in self.offline:
            return Curve(np.array(self.evaluated), np.array(self.offline[name]))
        raise Mistake(
            f"no curve is called {name!r}: {did_you_mean(name, [*self.online, *self.offline])}"
        )

    def csv(self) -> str:
        at = {t: i for i, t in enumerate(self.evaluated)}
        lines = [",".join(["round", *self.online, *self.offline])]
        for t in range(len(self.online["interactions"]) + 1):
            online = [repr(values[t - 1]) if t else "" for values in self.online.values()]
            offline = [repr(values[at[t]]) if t in at else "" for values in self.offline.values()]
            lines.append(",".join([str(t), *online, *offline]))
        return "\n".join(lines) + "\n"

    @classmethod
    def from_csv(cls, text: str) -> Metrics:
        """What `csv` wrote. Columns that are empty before the first round are online ones,
        whatever their names."""
        names, *rows = (line.split(",") for line in text.splitlines())
        if any(len(row) != len(names) for row in rows):
            raise ValueError("metrics.csv has lines that are too short")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        rounds = columns.pop("round")
        online = {
            name: [float(v) for v in values[1:]]
            for name, values in columns.items()
            if not values[0]
        }
        at = [i for i, value in enumerate(columns["ndcg@10"]) if value]
        offline = {
            name: [float(values[i]) for i in at] for name, values in columns.items() if values[0]
        }
        return cls(online, [int(rounds[i]) for i in at], offline)

    @classmethod
    def from_bytes(cls, content: bytes) -> Metrics:
        """The same by a kernel, as arrays: five times faster, once the kernel is loaded."""
        from foltr.kernels.numbers import parse_table

        head, _, body = content.partition(b"\n")
        names = head.decode().split(",")
        if not body.endswith(b"\n"):
            raise ValueError("metrics.csv has no end")
        shape = body.count(b"\n"), len(names)
        values, there = np.full(shape, np.nan), np.zeros(shape, bool)
        hard = np.empty((shape[0] * shape[1], 3), np.int64)
        rows, hards = parse_table(np.frombuffer(body, np.uint8), shape[1], values, there, hard)
        if rows != shape[0]:
            raise ValueError("metrics.csv has lines that are too short")
        for row, column, start in hard[:hards].tolist():
            values[row, column] = float(FIELD_END.split(body[start : start + LONGEST], 1)[0])
        number = {name: i for i, name in enumerate(names)}
        round_number, at = number.pop("round"), np.flatnonzero(there[:, number["ndcg@10"]])
        online = {name: values[1:, i].copy() for name, i in number.items() if not there[0, i]}
        offline = {name: values[at, i] for name, i in number.items() if there[0, i]}
        for name, i in number.items():
            known = there[1:, i] if name in online else there[at, i]
            if not known.all():
                raise ValueError(f"metrics.csv lacks numbers of {name}")
        return cls(online, [int(t) for t in values[at, round_number].tolist()], offline)


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
        example = "write 'nDCG(k=5), ERR(k=20), MAP()'"
        raise Mistake(f"not a list of measures: {shown(text)}: {example}") from None
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
    found = dict(usual_columns())
    for spec in dict.fromkeys(specs):
        try:
            made = parse_measures([spec])
        except Mistake:
            continue
        for measure in made:
            for place in ("", "train_", VALIDATION) if measure.kind == "offline" else ("",):
                column = Column(place, measure)
                found.setdefault(column.name, column)
    return found
