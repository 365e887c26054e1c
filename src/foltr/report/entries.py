"""One measure of a study as numbers: what a table, a page and a caption are made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from foltr.report.number_format import decimals_of
from foltr.report.statistics import PairedT
from foltr.report.study import Study

BETTER, WORSE = "▲", "▼"
BETTER_HERE, WORSE_HERE = "△", "▽"  # by the test over runs alone
SAID = {
    BETTER: "significantly better",
    WORSE: "significantly worse",
    BETTER_HERE: "better on these splits, not significantly on other queries",
    WORSE_HERE: "worse on these splits, not significantly on other queries",
}


@dataclass(frozen=True)
class Entry:
    """One method under one condition, over the runs that have a value."""

    n: int
    mean: float
    sd: float  # with n - 1; NaN when n = 1
    interval: tuple[
        float, float
    ]  # 95 %, expanded percentile bootstrap of the mean over runs; NaN when n < 5
    test: PairedT | None = None  # against the baseline's entry of the same condition, over runs
    corrected: float | None = None  # min(1, p x family)
    over_data: PairedT | None = (
        None  # the same over means of runs on equal data, where several runs share theirs
    )
    corrected_data: float | None = None
    refused: str = ""  # why it was not tested although it should be
    comparable: bool = True  # whether a difference from the baseline means anything, tested or not
    best: bool = False  # highest mean of its condition, among two or more that can be compared
    # ▲ significantly better than the baseline, ▼ worse; △ ▽ where `over_data` does not bear it out
    mark: str = ""


@dataclass(frozen=True)
class Matrix:
    measure: str
    study: Study
    alpha: float
    family: int
    entries: dict[tuple[int, int], Entry]  # (method, condition); one without any value is absent
    # the test, what is paired, the baseline, the family, the correction, and what it is of
    told: str

    @cached_property
    def decimals(self) -> int:
        """How many a table shows."""
        return decimals_of(entry.mean for entry in self.entries.values())

    @cached_property
    def usual(self) -> int:
        """The number of runs that most entries have; of equally many the larger. Others tell
        theirs."""
        counts = Counter(entry.n for entry in self.entries.values())
        return max(counts, key=lambda n: (counts[n], n))

    def odd(self, entry: Entry) -> str:
        """ "n=4" where that is not the usual number of runs"""
        return "" if entry.n == self.usual else f"n={entry.n}"
