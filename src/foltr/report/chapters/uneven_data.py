"""IID against non-IID on the page: what uneven data costs, and what remedies bring back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from foltr.report.chapters.reference_comparison import Against, tested
from foltr.report.chapters.blocks import Block, Cell, Entry, a_few_at_a_time, block
from foltr.report.entries import WORSE, WORSE_HERE
from foltr.report.matrix import Place
from foltr.report.measures import value
from foltr.report.number_format import NONE
from foltr.report.study import unnamed
from foltr.report.chapters.iid_counterparts import Twinned, is_iid
from foltr.results import Recorded, Runs

CHAPTER = "IID against non-IID"
NAMES = {
    "ndcg@10": "nDCG@10",
    "merged_ndcg@10": "nDCG@10, merged labels",
    "online": "online",
    "own_ndcg@10": "own queries",
    "personal_ndcg@10": "personal rankers",
    "personal_own_ndcg@10": "personal rankers, own queries",
}
TABLES = (
    ("ndcg@10", "merged_ndcg@10", "online"),
    ("own_ndcg@10", "personal_ndcg@10", "personal_own_ndcg@10"),
)
OWN = (
    "own_ndcg@10",
    "personal_own_ndcg@10",
)  # on what clients hold, which is another thing for the twin
UNFOLDED = 3  # more tables than that are folded


@block
def iid_against_skewed(runs: Runs) -> list[Block] | None:
    """Summaries over all conditions, then the numbers of each."""
    chosen = [
        run for run in runs if "baseline" not in run.config and "unlearning" not in run.config
    ]
    kinds = {is_iid(str(run.config.get("partition", "IID()"))) for run in chosen}
    if len(kinds) < 2:
        return None
    twinned = Twinned(unnamed(runs, chosen))
    if not twinned.references:
        return None
    tests = {measure: Against(twinned.study, measure, twinned.references) for measure in NAMES}
    tests = {
        measure: test
        for measure, test in tests.items()
        if test.known.keys() & twinned.references.keys()
    }
    places = [(c, part) for c in range(len(twinned.study.conditions)) for part in TABLES]
    tables = [table for c, part in places if (table := _table(twinned, tests, c, part))]
    tables = [replace(table, folded=len(tables) > UNFOLDED) for table in tables]
    costs = {
        measure: Against(twinned.study, measure, twinned.bare)
        for measure in TABLES[0]
        if measure in tests
    }
    return [*_costs(twinned, costs), *_remedies(twinned, costs.get("ndcg@10")), *tables]


def _costs(twinned: Twinned, tests: dict[str, Against]) -> Iterator[Block]:
    """Differences in all conditions: with one, the table has them. Remedies are not among them,
    nor in their family."""
    if len(twinned.study.conditions) < 2 or "ndcg@10" not in tests:
        return
    shown = list(tests)
    text = (
        "Differences between the ranker that learned from skewed data and its twin that learned"
        " from IID data (minus: skew costs), corrected p beside."
        f" {tested([tests[measure] for measure in shown])}"
    )
    for part, conditions in a_few_at_a_time(range(len(twinned.study.conditions))):
        heads = [
            f"{twinned.condition(c)}: {NAMES[measure]}" for c in conditions for measure in shown
        ]
        rows: list[tuple[Entry, ...]] = []
        for method, label in twinned.labels.items():
            cells = [
                tests[measure].difference((method, c)) for c in conditions for measure in shown
            ]
            if any(cell != NONE for cell in cells):
                rows.append((label, *cells))
        yield Block(f"What skew costs{part}", text, (("skewed", *heads), *rows), CHAPTER)


def _remedies(twinned: Twinned, gaps: Against | None) -> Iterator[Block]:
    if not twinned.plain or gaps is None:
        return
    offline = Against(twinned.study, "ndcg@10", twinned.plain)
    alike = {
        place: other
        for place, other in twinned.plain.items()
        if twinned.hold_the_same(place[0], other)
    }
    own = Against(twinned.study, "own_ndcg@10", alike, _served)
    text = (
        "What a remedy gains over learning from the same skewed data without it, offline nDCG@10;"
        " how much that is of what skew costs, where that cost is significant; and, where clients"
        " hold the same, what they gain on their own queries by their own judgements (with"
        f" rankers of their own where they have them). {tested([offline, own])}"
    )
    for part, conditions in a_few_at_a_time(range(len(twinned.study.conditions))):
        columns = [
            (c, what)
            for c in conditions
            for what in ("gain", "of the cost", "own queries")
            if what != "own queries" or any(at == c for _, at in own.entries)
        ]
        rows: list[tuple[Entry, ...]] = []
        for method, label in twinned.labels.items():
            made = {
                what: each
                for what, each in (("gain", offline.difference), ("own queries", own.difference))
            }
            cells = [
                (
                    _closed(twinned, offline, gaps, (method, c))
                    if what == "of the cost"
                    else made[what]((method, c))
                )
                for c, what in columns
            ]
            if any(cell != NONE for cell in cells):
                rows.append((label, *cells))
        heads = [
            ", ".join(each for each in (twinned.condition(c), what) if each) for c, what in columns
        ]
        if rows:
            yield Block(
                f"What remedies bring back{part}", text, (("remedy", *heads), *rows), CHAPTER
            )


def _served(run: Recorded) -> float | None:
    """How well clients are served on what is theirs."""
    personal = value(run, "personal_own_ndcg@10")
    return value(run, "own_ndcg@10") if personal is None else personal


def _closed(twinned: Twinned, gains: Against, gaps: Against, place: Place) -> Entry:
    """(remedy - plain) / (IID - plain), of the means."""
    plain, c = twinned.plain.get(place), place[1]
    if plain is None or place not in gains.entries:
        return NONE
    gap = gaps.entries.get((plain, c))
    if gap is None or gap.test is None or gap.mark not in (WORSE, WORSE_HERE):
        return NONE
    return f"{(gains.mean(place) - gains.mean((plain, c))) / -gap.test.difference:.0%}"


def _table(
    twinned: Twinned, tests: dict[str, Against], c: int, measures: Sequence[str]
) -> Block | None:
    here = {place for place in twinned.references if place[1] == c}
    shown = [
        tests[measure]
        for measure in measures
        if measure in tests and here & tests[measure].known.keys()
    ]
    rows: list[tuple[Entry, ...]] = []
    for method, label in twinned.labels.items():
        place, other = (method, c), twinned.borrowed((method, c))
        cells = []
        for test in shown:
            base = test.reference(place)
            cells += [replace(base, below=other) if isinstance(base, Cell) else base]
            cells.append(test.value(place))
            cells += [test.difference(place)] if test.measure not in OWN else []
        if any(cell != NONE for cell in cells):
            rows.append((label, *cells))
    if not shown or not rows:
        return None
    heads = []
    for test in shown:
        heads += [
            f"{NAMES[test.measure]}: IID",
            "skewed",
            *(["difference"] if test.measure not in OWN else []),
        ]
    both = [test for test in shown if test.measure not in OWN]
    text = f"Means over repetitions{f', and corrected p. {tested(both)}' if both else '.'}"
    alone = sum(at == c for _, at in twinned.alone)
    if alone and "ndcg@10" in measures:
        text += (
            f" {alone} skewed method{'s have' if alone > 1 else ' has'} no run with IID data to"
            " compare with."
        )
    if "own_ndcg@10" in measures:
        text = (
            "On what clients hold, by their own judgements: where data is skewed they hold other"
            f" things, so that the two cannot be compared. {text}"
        )
    if "merged_ndcg@10" in tests and "ndcg@10" in measures:
        text = (
            "nDCG@10 is the mean over labellings; merged: a document is as relevant as for any of"
            f" them. {text}"
        )
    title = ", ".join(
        part
        for part in (twinned.condition(c), "clients' own" * ("own_ndcg@10" in measures))
        if part
    )
    return Block(title or "IID and skewed", text, (("method", *heads), *rows), CHAPTER)
