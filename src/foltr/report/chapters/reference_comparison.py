"""Compare each method with a reference method of its own, by the tests of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from foltr.core.system.tables import NONE, decimals_of, p_value, shade, signed
from foltr.report.captions import number_range
from foltr.report.chapters.registry import Cell, TableCell
from foltr.report.matrix import (
    ALPHA,
    BETTER,
    BETTER_HERE,
    WORSE,
    WORSE_HERE,
    Entry,
    MeasuredCells,
    Values,
    cell_values,
)
from foltr.report.measures import MAIN
from foltr.report.measures import value as run_value
from foltr.report.results import Recorded
from foltr.report.statistics import exact_mean
from foltr.report.study import Place, Study


@dataclass(frozen=True, eq=False)
class ReferenceComparison:
    """One measure of some cells and of their references. A reference is another method in the
    same condition."""

    study: Study
    measure: str
    references: dict[Place, int]  # (method, condition) -> method
    of: Callable[[Recorded, str], float | None] = run_value

    @cached_property
    def values(self) -> Values:
        """The values of the runs of all cells and references."""
        others = {(reference, condition) for (_, condition), reference in self.references.items()}
        places = sorted({*self.references, *others} & self.study.cells.keys())
        return cell_values(self.study, places, self.measure, self.of)

    @cached_property
    def entries(self) -> dict[Place, Entry]:
        """The cells that have a value and whose reference has one. Their number is the size of the
        family of tests."""
        both = {
            place: other
            for place, other in self.references.items()
            if place in self.values and (other, place[1]) in self.values
        }
        cells = MeasuredCells(self.study, self.measure, self.values)
        return {place: cells.entry(place, other, len(both)) for place, other in both.items()}

    @cached_property
    def decimals(self) -> int:
        return decimals_of(self.mean(place) for place in self.values)

    def mean(self, place: Place) -> float:
        return exact_mean(self.values[place].values())

    def value(self, place: Place) -> TableCell:
        """The mean of a cell."""
        return Cell(f"{self.mean(place):.{self.decimals}f}") if place in self.values else NONE

    def reference(self, place: Place) -> TableCell:
        """The mean of the reference of a cell."""
        other = self.references.get(place)
        return NONE if other is None else self.value((other, place[1]))

    def difference(self, place: Place) -> TableCell:
        """The difference of a cell from its reference, with its p, or with the reason why it was
        not tested."""
        entry, other = self.entries.get(place), self.references.get(place)
        if entry is None or other is None:
            return NONE
        if entry.test is not None:
            change, aside = entry.test.difference, p_value(entry.corrected)
        else:
            change = self.mean(place) - self.mean((other, place[1]))
            aside = entry.refused.partition(":")[0]
            if not entry.comparable:
                return Cell(NONE, aside)
        dark = shade(change) if self.measure.endswith(MAIN) else 0
        return Cell(signed(change, self.decimals), aside, mark=entry.mark, shade=dark)


def about_tests(comparisons: Sequence[ReferenceComparison]) -> str:
    """How the tests of some comparisons were made, and what their marks mean."""
    tests = [entry.test for each in comparisons for entry in each.entries.values() if entry.test]
    if not tests:
        return "Nothing could be tested."
    families = {each.measure: len(each.entries) for each in comparisons}
    pairs = number_range(test.n for test in tests)
    family = f"{'at most ' * (len(set(families.values())) > 1)}{max(families.values())}"
    text = (
        f"Two-tailed paired t-tests over {pairs} pairs of runs of equal repetitions,"
        f" Bonferroni-corrected for all comparisons of a measure ({family})."
        f" {BETTER} {WORSE}: corrected p < {ALPHA:g}."
    )
    if any(entry.over_data for each in comparisons for entry in each.entries.values()):
        hollow = f"{BETTER_HERE} {WORSE_HERE}"
        text += f" {hollow}: the same test over the means of each fold does not confirm it."
    return text
