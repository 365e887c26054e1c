"""Chapter "IID against non-IID": how much uneven data costs, and how much remedies gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from foltr.report.chapters.blocks import UNFOLDED, Block, Cell, TableCell, side_by_side
from foltr.report.chapters.iid_counterparts import IID, IidCounterparts, is_iid
from foltr.report.chapters.reference_comparison import ReferenceComparison, about_tests
from foltr.report.chapters.registry import chapter
from foltr.report.matrix import WORSE, WORSE_HERE
from foltr.report.measures import MAIN, value
from foltr.report.number_format import NONE
from foltr.report.study import Place, study_by_fields, trained_runs
from foltr.results import Recorded, Runs

CHAPTER = "IID against non-IID"
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
GAIN, SHARE, ON_OWN = "gain", "share of the loss", "own queries"
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
    losses = {
        measure: ReferenceComparison(methods.study, measure, methods.references_of_untreated)
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
        heads = [
            f"{methods.condition_label(c)}: {NAMES[measure]}"
            for c in conditions
            for measure in tests
        ]
        rows: list[tuple[TableCell, ...]] = []
        for method, label in methods.labels.items():
            cells = [test.difference((method, c)) for c in conditions for test in tests.values()]
            if any(cell != NONE for cell in cells):
                rows.append((label, *cells))
        yield Block(f"Loss from skewed data{part}", text, (("skewed", *heads), *rows), CHAPTER)


def _remedies(methods: IidCounterparts, losses: ReferenceComparison | None) -> Iterator[Block]:
    if not methods.untreated or losses is None:
        return
    gains = ReferenceComparison(methods.study, MAIN, methods.untreated)
    same_data = {
        place: other
        for place, other in methods.untreated.items()
        if methods.same_partition(place[0], other)
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
        columns = [
            (c, what)
            for c in conditions
            for what in (GAIN, SHARE, ON_OWN)
            if what != ON_OWN or any(at == c for _, at in own.entries)
        ]
        rows: list[tuple[TableCell, ...]] = []
        for method, label in methods.labels.items():
            cells = []
            for c, what in columns:
                if what == SHARE:
                    cells.append(_share_of_loss(methods, gains, losses, (method, c)))
                else:
                    cells.append((gains if what == GAIN else own).difference((method, c)))
            if any(cell != NONE for cell in cells):
                rows.append((label, *cells))
        heads = [
            ", ".join(each for each in (methods.condition_label(c), what) if each)
            for c, what in columns
        ]
        if rows:
            title = f"Gains from remedies{part}"
            yield Block(title, text, (("remedy", *heads), *rows), CHAPTER)


def _on_own_queries(run: Recorded) -> float | None:
    """nDCG@10 on the clients' own queries: of personal rankers, else of the shared ranker."""
    personal = value(run, PERSONAL_OWN)
    return value(run, OWN) if personal is None else personal


def _share_of_loss(
    methods: IidCounterparts, gains: ReferenceComparison, losses: ReferenceComparison, place: Place
) -> TableCell:
    """(remedy - untreated) / (IID - untreated), of the means."""
    untreated, c = methods.untreated.get(place), place[1]
    if untreated is None or place not in gains.entries:
        return NONE
    loss = losses.entries.get((untreated, c))
    if loss is None or loss.test is None or loss.mark not in (WORSE, WORSE_HERE):
        return NONE
    gain = gains.mean(place) - gains.mean((untreated, c))
    return f"{gain / -loss.test.difference:.0%}"


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
    rows: list[tuple[TableCell, ...]] = []
    for method, label in methods.labels.items():
        place, other_fields = (method, c), methods.other_fields((method, c))
        cells: list[TableCell] = []
        for test in shown:
            base = test.reference(place)
            cells.append(replace(base, below=other_fields) if isinstance(base, Cell) else base)
            cells.append(test.value(place))
            if test.measure not in NOT_COMPARED:
                cells.append(test.difference(place))
        if any(cell != NONE for cell in cells):
            rows.append((label, *cells))
    if not shown or not rows:
        return None
    heads: list[str] = []
    for test in shown:
        heads += [f"{NAMES[test.measure]}: IID", "skewed"]
        heads += ["difference"] if test.measure not in NOT_COMPARED else []
    of_clients = OWN in measures
    parts = [methods.condition_label(c), "clients' own data" if of_clients else ""]
    title = ", ".join(part for part in parts if part) or "IID and skewed data"
    text = _about(methods, tests, c, of_clients, shown)
    return Block(title, text, (("method", *heads), *rows), CHAPTER)


def _about(
    methods: IidCounterparts,
    tests: Tests,
    c: int,
    of_clients: bool,
    shown: list[ReferenceComparison],
) -> str:
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
    alone = sum(at == c for _, at in methods.without_reference)
    if alone and not of_clients:
        have = "methods have" if alone > 1 else "method has"
        parts.append(f"{alone} skewed {have} no run with IID data to compare with.")
    return " ".join(parts)
