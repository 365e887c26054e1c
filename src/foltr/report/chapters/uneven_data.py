"""Chapter "IID against non-IID": how much uneven data costs, and how much remedies gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from foltr.core.spec import partitions
from foltr.core.system.tables import NONE
from foltr.report.chapters.reference_comparison import ReferenceComparison, about_tests
from foltr.report.chapters.registry import (
    UNFOLDED,
    Block,
    Cell,
    Column,
    TableCell,
    chapter,
    side_by_side,
    table_block,
)
from foltr.report.matrix import WORSE, WORSE_HERE
from foltr.report.measures import MAIN, value
from foltr.report.results import Recorded, Runs
from foltr.report.spec_text import (
    changed,
    config_key,
    config_labels,
    equal,
    is_component,
    opened,
    says,
    without,
)
from foltr.report.study import NOT_METHOD, Place, Study, study_by_fields, trained_runs

CHAPTER = "IID against non-IID"
IID = "IID()"  # the partition without skew, and the default of an experiment
APART = (*NOT_METHOD, "partition")  # fields in which a method and its counterpart may differ
ROUGHLY = ("ranker", "clients")  # fields in which they must agree at least
OWN, PERSONAL_OWN = "own_ndcg@10", "personal_own_ndcg@10"
# the measures of the two tables of a condition, with their names in column heads
SHARED_RANKER = {MAIN: "nDCG@10", "merged_ndcg@10": "nDCG@10, merged labels", "online": "online"}
CLIENTS = {
    OWN: "own queries",
    "personal_ndcg@10": "personal rankers",
    PERSONAL_OWN: "personal rankers, own queries",
}
NAMES = {**SHARED_RANKER, **CLIENTS}
NOT_COMPARED = (OWN, PERSONAL_OWN)  # with IID data the own queries of a client are other queries
Tests = dict[str, ReferenceComparison]  # by measure


@chapter(place=70)
def iid_against_skewed(runs: Runs) -> list[Block] | None:
    """Summaries over all conditions, then the tables of each condition."""
    chosen = trained_runs(runs)
    kinds = {is_iid(str(run.config.get("partition", IID))) for run in chosen}
    if len(kinds) < 2:
        return None
    methods = IidCounterparts(study_by_fields(runs, chosen))
    if not methods.references:
        return None
    tests = {
        measure: ReferenceComparison(methods.study, measure, methods.references)
        for measure in NAMES
    }
    tests = {
        measure: test
        for measure, test in tests.items()
        if test.values.keys() & methods.references.keys()
    }
    places = [
        (c, measures)
        for c in range(len(methods.study.conditions))
        for measures in (SHARED_RANKER, CLIENTS)
    ]
    tables = [table for place in places if (table := _table(methods, tests, *place))]
    tables = [replace(table, folded=len(tables) > UNFOLDED) for table in tables]
    no_remedy = {
        place: other
        for place, other in methods.references.items()
        if place not in methods.untreated
    }
    losses = {
        measure: ReferenceComparison(methods.study, measure, no_remedy)
        for measure in SHARED_RANKER
        if measure in tests
    }
    return [*_losses(methods, losses), *_remedies(methods, losses.get(MAIN)), *tables]


def _losses(methods: IidCounterparts, tests: Tests) -> Iterator[Block]:
    """The differences in all conditions, without remedies. (Of a single condition the table has
    them.)"""
    if len(methods.study.conditions) < 2 or MAIN not in tests:
        return
    text = (
        "The ranker trained on skewed data minus the ranker of the same method trained on IID"
        " data, with corrected p. A negative difference is a loss from skew."
        f" {about_tests(list(tests.values()))}"
    )
    for part, conditions in side_by_side(range(len(methods.study.conditions))):
        columns: list[Column] = [("skewed", methods.names)]
        for c in conditions:
            label = methods.study.condition_label(c)
            for measure, test in tests.items():
                cells = [test.difference(place) for place in methods.places(c)]
                columns.append((f"{label}: {NAMES[measure]}", cells))
        yield table_block(f"Loss from skewed data{part}", text, columns, CHAPTER)


def _remedies(methods: IidCounterparts, losses: ReferenceComparison | None) -> Iterator[Block]:
    if not methods.untreated or losses is None:
        return
    gains = ReferenceComparison(methods.study, MAIN, methods.untreated)
    same_data = {
        place: other
        for place, other in methods.untreated.items()
        if equal(methods.partition(place[0]), methods.partition(other))
    }
    own = ReferenceComparison(methods.study, OWN, same_data, _on_own_queries)
    text = (
        "Gain: offline nDCG@10 with the remedy minus offline nDCG@10 without it, on the same"
        " skewed data. Share of the loss: the gain divided by the loss from skew, where that loss"
        " is significant. Own queries: the gain on the clients' own queries, by their own"
        " judgements, where clients hold the same data with and without the remedy; personal"
        f" rankers are used where there are any. {about_tests([gains, own])}"
    )
    for part, conditions in side_by_side(range(len(methods.study.conditions))):
        columns: list[Column] = [("remedy", methods.names)]
        for c in conditions:
            label = methods.study.condition_label(c)
            head = f"{label}, " if label else ""
            places = methods.places(c)
            columns.append((f"{head}gain", [gains.difference(place) for place in places]))
            shares = [_share_of_loss(gains, losses, place) for place in places]
            columns.append((f"{head}share of the loss", shares))
            if any(at == c for _, at in own.entries):
                columns.append((f"{head}own queries", [own.difference(each) for each in places]))
        block = table_block(f"Gains from remedies{part}", text, columns, CHAPTER)
        if len(block.rows) > 1:
            yield block


def _on_own_queries(run: Recorded, measure: str) -> float | None:
    """nDCG@10 on the clients' own queries: of personal rankers, else of the shared ranker."""
    personal = value(run, PERSONAL_OWN)
    return value(run, measure) if personal is None else personal


def _share_of_loss(
    gains: ReferenceComparison, losses: ReferenceComparison, place: Place
) -> TableCell:
    """(remedy - untreated) / (IID - untreated), of the means."""
    if place not in gains.entries:
        return NONE
    untreated = gains.references[place], place[1]
    loss = losses.entries.get(untreated)
    if loss is None or loss.test is None or loss.mark not in (WORSE, WORSE_HERE):
        return NONE
    return f"{(gains.mean(place) - gains.mean(untreated)) / -loss.test.difference:.0%}"


def _table(
    methods: IidCounterparts, tests: Tests, c: int, measures: Mapping[str, str]
) -> Block | None:
    """IID and skewed side by side, in one condition."""
    here = {place for place in methods.references if place[1] == c}
    shown = [
        tests[measure]
        for measure in measures
        if measure in tests and here & tests[measure].values.keys()
    ]
    columns: list[Column] = [("method", methods.names)]
    for test in shown:
        iid: list[TableCell] = []
        for place in methods.places(c):
            base = test.reference(place)
            if isinstance(base, Cell):
                base = replace(base, below=methods.other_fields(place))
            iid.append(base)
        columns.append((f"{NAMES[test.measure]}: IID", iid))
        columns.append(("skewed", [test.value(place) for place in methods.places(c)]))
        if test.measure not in NOT_COMPARED:
            columns.append(("difference", [test.difference(each) for each in methods.places(c)]))
    of_clients = OWN in measures
    names = [methods.study.condition_label(c), "clients' own data" if of_clients else ""]
    title = ", ".join(name for name in names if name) or "IID and skewed data"
    parts = []
    if of_clients:
        parts.append(
            "nDCG@10 on the data that clients hold, by their own judgements. With skewed data"
            " clients hold other queries than with IID data, so results on own queries are not"
            " compared."
        )
    elif "merged_ndcg@10" in tests:
        parts.append(
            "nDCG@10 is the mean over labellings. With merged labels, a document has the highest"
            " grade that any labelling gives it."
        )
    compared = [test for test in shown if test.measure not in NOT_COMPARED]
    if compared:
        parts.append(f"Means over repetitions, with corrected p. {about_tests(compared)}")
    else:
        parts.append("Means over repetitions.")
    alone = sum(place[1] == c and place not in methods.references for place in methods.skewed)
    if alone and not of_clients:
        have = "methods have" if alone > 1 else "method has"
        parts.append(f"{alone} skewed {have} no run with IID data to compare with.")
    block = table_block(title, " ".join(parts), columns, CHAPTER)
    return block if len(block.rows) > 1 else None


def is_iid(partition: str) -> bool:
    """Whether a partition says that its clients are identical, or has `iid=True` at every
    depth."""
    if says(partitions, partition, "identical_clients"):
        return True
    fields = opened(partition).fields
    inside = fields.get("of")
    if "iid" not in fields and not is_component(inside):
        return False
    return fields.get("iid", True) is True and (not is_component(inside) or is_iid(str(inside)))


def unwrapped(partition: str) -> str:
    """The partition inside a partition that has no field `iid` of its own, such as `Sharing`."""
    fields = opened(partition).fields
    inside = fields.get("of")
    return unwrapped(str(inside)) if is_component(inside) and "iid" not in fields else partition


def iid_versions(partition: str) -> list[str]:
    """The IID partitions that a skewed one may be compared with, the most similar first."""

    def even(spec: str) -> str:
        return changed(spec, lambda name, value: True if name == "iid" else value)

    return [even(partition), even(unwrapped(partition)), IID]


@dataclass(frozen=True, eq=False)
class IidCounterparts:
    """The methods of a study with skewed data, and the IID counterpart of each."""

    study: Study

    @property
    def names(self) -> list[str]:
        return list(self.labels.values())

    def places(self, condition: int) -> list[Place]:
        """The methods of `labels` in one condition."""
        return [(method, condition) for method in self.labels]

    @cached_property
    def references(self) -> dict[Place, int]:
        """The IID counterpart of each skewed method, in every condition where both have runs."""
        found = {place: self._counterpart(*place) for place in self.skewed}
        return {place: other for place, other in found.items() if other is not None}

    @cached_property
    def skewed(self) -> list[Place]:
        """The methods with skewed data, in every condition where they have runs."""
        return [place for place in self.study.cells if not is_iid(self.partition(place[0]))]

    @cached_property
    def untreated(self) -> dict[Place, int]:
        """For each remedy, the method on the same skewed data without it: it equals the remedy's
        counterpart in everything but the partition."""
        found: dict[Place, int] = {}
        for (method, c), counterpart in self.references.items():
            bare = unwrapped(self.partition(method))
            for other, there in self.references:
                equal_rest = self._rests[other] == self._rests[counterpart]
                if there == c and other != method and equal_rest:
                    if equal(self.partition(other), bare):
                        found[method, c] = other
        return found

    def partition(self, method: int) -> str:
        return str(self.study.configs[method].get("partition", IID))

    @cached_property
    def _rests(self) -> list[str]:
        """The config of each method, without the fields of APART."""
        return [config_key(without(config, APART)) for config in self.study.configs]

    def _counterpart(self, method: int, c: int) -> int | None:
        """The method that differs only in the partition. If there is none, the only method with
        such a partition that agrees in the fields of ROUGHLY: a remedy need not have been run on
        IID data."""
        there = [other for other, at in self.study.cells if at == c]
        for rough in (False, True):
            for partition in iid_versions(self.partition(method)):
                found = [
                    other
                    for other in there
                    if self._agree(method, other, rough)
                    and equal(self.partition(other), partition)
                ]
                if len(found) == 1 or (found and not rough):
                    return found[0]
        return None

    def _agree(self, one: int, other: int, rough: bool) -> bool:
        if not rough:
            return self._rests[one] == self._rests[other]
        a, b = self.study.configs[one], self.study.configs[other]
        return all(a.get(name) == b.get(name) for name in ROUGHLY)

    @cached_property
    def labels(self) -> dict[int, str]:
        """The labels of the skewed methods that have a counterpart, the partition first."""
        methods = list(dict.fromkeys(method for method, _ in sorted(self.references)))
        chosen = [{"partition": self.partition(i), **self.study.configs[i]} for i in methods]
        labels = config_labels(
            [without(config, NOT_METHOD) for config in chosen], always=("partition",)
        )
        return dict(zip(methods, labels, strict=True))

    def other_fields(self, place: Place) -> str:
        """The fields, apart from the partition, in which the counterpart of a method differs from
        it; "" for none."""
        method, counterpart = place[0], self.references.get(place)
        if counterpart is None:
            return ""
        pair = [without(self.study.configs[i], APART) for i in (counterpart, method)]
        return config_labels(pair)[0]
