"""Methods of a study tested each against a reference of its own, by the tests of a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from foltr.report.chapters.blocks import Cell
from foltr.report.entries import Entry
from foltr.report.matrix import ALPHA, Known, Place, entry_of, known_of
from foltr.report.measures import value
from foltr.report.number_format import NONE, decimals_of, shade, signed, told_p
from foltr.report.study import Study
from foltr.results import Recorded


@dataclass(frozen=True, eq=False)
class Against:
    """One measure of some cells and of their references, which are methods in the same
    condition."""

    study: Study
    measure: str
    references: dict[Place, int]  # (method, condition) -> method
    of: Callable[[Recorded], float | None] | None = (
        None  # how a run is measured, if not by the measure alone
    )

    @cached_property
    def known(self) -> Known:
        others = {(reference, condition) for (_, condition), reference in self.references.items()}
        places = sorted({*self.references, *others} & self.study.cells.keys())
        of = self.of or partial(value, measure=self.measure)
        found = {place: known_of(self.study.cells[place], of) for place in places}
        return {place: values for place, values in found.items() if values}

    @cached_property
    def entries(self) -> dict[Place, Entry]:
        """Of the cells that have a value and whose reference has one; as many comparisons are the
        family."""
        both = {
            place: other
            for place, other in self.references.items()
            if place in self.known and (other, place[1]) in self.known
        }
        return {
            place: entry_of(
                replace(self.study, baseline=other),
                self.measure,
                self.known,
                place,
                len(both),
                ALPHA,
            )
            for place, other in both.items()
        }

    @cached_property
    def decimals(self) -> int:
        return decimals_of(self.mean(place) for place in self.known)

    def mean(self, place: Place) -> float:
        values = self.known[place].values()
        return math.fsum(values) / len(values)

    def value(self, place: Place) -> str | Cell:
        """A cell's mean."""
        return Cell(f"{self.mean(place):.{self.decimals}f}") if place in self.known else NONE

    def reference(self, place: Place) -> str | Cell:
        """The mean of a cell's reference."""
        other = self.references.get(place)
        return NONE if other is None else self.value((other, place[1]))

    def difference(self, place: Place) -> str | Cell:
        """By how much a cell is above its reference, whether that is significant, or why it was
        not tested."""
        entry, other = self.entries.get(place), self.references.get(place)
        if entry is None or other is None:
            return NONE
        if entry.test is None:
            changed, aside = (
                self.mean(place) - self.mean((other, place[1])),
                entry.refused.partition(":")[0],
            )
            if not entry.comparable:
                return Cell(NONE, aside)
        else:
            changed, aside = entry.test.difference, told_p(entry.corrected)
        dark = shade(changed) if self.measure.endswith("ndcg@10") else 0
        return Cell(signed(changed, self.decimals), aside, mark=entry.mark, shade=dark)


def tested(comparisons: Sequence[Against]) -> str:
    """How they were made."""
    tests = [entry.test for each in comparisons for entry in each.entries.values() if entry.test]
    if not tests:
        return "Nothing could be tested."
    sizes, families = (
        sorted({test.n for test in tests}),
        {each.measure: len(each.entries) for each in comparisons},
    )
    pairs = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    most = max(families.values())
    twice = any(entry.over_data for each in comparisons for entry in each.entries.values())
    return (
        f"Two-tailed paired t-tests over {pairs} pairs of runs of equal repetitions, "
        "Bonferroni-corrected for all comparisons of a measure "
        f"({most}{' at most' * (len(set(families.values())) > 1)}); "
        f"▲ ▼ where corrected p < {ALPHA:g}."
        f"{' △ ▽ where the same test over the means of each fold does not bear it out.' * twice}"
    )
