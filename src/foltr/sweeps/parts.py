"""`--part 3/10`: a share of a sweep's runs, for one task of a job array."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from foltr.errors import Mistake, require
from foltr.experiment import Experiment
from foltr.sweeps.estimate import work_of


@dataclass(frozen=True)
class Part:
    """Part `number` of `count` parts that have about equal work. Every experiment is in exactly
    one of them. Which one depends on the experiments only, not on runs that are finished."""

    number: int
    count: int

    def __post_init__(self) -> None:
        require(
            1 <= self.number <= self.count,
            f"part {self.number} of {self.count}: parts are numbered 1 .. {self.count}",
        )

    @classmethod
    def of_text(cls, text: str) -> Self:
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        if found is None:
            raise Mistake(f"--part needs NUMBER/COUNT, such as 3/10, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def chosen(self, experiments: Sequence[Experiment]) -> list[Experiment]:
        """The experiments of this part, in their order: from the largest to the smallest, each
        goes to the part with the least work."""
        work = [work_of(e) for e in experiments]
        parts = [(0.0, 0, number) for number in range(1, self.count + 1)]
        mine = set()
        for i in sorted(range(len(work)), key=lambda i: -work[i]):
            total, members, number = parts[0]
            heapq.heapreplace(parts, (total + work[i], members + 1, number))
            if number == self.number:
                mine.add(i)
        return [experiments[i] for i in sorted(mine)]
