"""What is measured in a run, round by round: in memory, and as metrics.csv."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from foltr.core import Array, Cohort, Observed
from foltr.errors import Mistake, did_you_mean

FIELD_END = re.compile(rb"[,\n]")
LONGEST = 400  # bytes of a number, more than Python writes
ONLINE = ("online_ndcg@10", "maxrr", "interactions")  # known of every round


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
