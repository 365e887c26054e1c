"""The measures that tables and curves show: their names, and the value that a run has of each."""

from __future__ import annotations

import math

from foltr.metrics import EMPTY
from foltr.report.study import Study
from foltr.results import Recorded
from foltr.runs.metrics import ONLINE

LATE = 20  # a late mean is over the last 1 / LATE of all rounds (5 %)
MAIN = "ndcg@10"  # the measure of the chapters, and of every file that shows one measure
DISCOUNTED_SUM = "online"  # adds up over rounds: runs are comparable only over equally many rounds
HEADLINES = (MAIN, DISCOUNTED_SUM)  # the page shows the highest mean of these first
MEASURES = {  # name in result.json -> name in tables; higher is better in each
    "ndcg@10": "offline nDCG@10",
    "mrr@10": "offline MRR@10",
    "expected_maxrr": "offline expected MaxRR",
    "merged_ndcg@10": "offline nDCG@10 by merged labellings",
    "merged_mrr@10": "offline MRR@10 by merged labellings",
    "train_expected_maxrr": "expected MaxRR on the training queries",
    "train_ndcg@10": "nDCG@10 on the training queries",
    "own_ndcg@10": (
        "offline nDCG@10 of the shared ranker on each client's own queries, by its own judgements"
    ),
    "personal_ndcg@10": "offline nDCG@10 of the clients' own rankers on all queries",
    "personal_own_ndcg@10": (
        "offline nDCG@10 of the clients' own rankers on their own queries, by their own judgements"
    ),
    "online": "online performance (discounted sum of nDCG@10)",
    "online_ndcg@10": "online nDCG@10 (mean of the last 5 % of rounds)",
    "maxrr": "online MaxRR (mean of the last 5 % of rounds)",
}
EVERY_ROUND = tuple(name for name in MEASURES if name in ONLINE)  # measured in every round
CURVES = {  # name -> name of its learning curve, in the order of the page
    "ndcg@10": MEASURES["ndcg@10"],
    "merged_ndcg@10": MEASURES["merged_ndcg@10"],
    "online_ndcg@10": "online nDCG@10",
    "mrr@10": MEASURES["mrr@10"],
    "merged_mrr@10": MEASURES["merged_mrr@10"],
    "expected_maxrr": MEASURES["expected_maxrr"],
    "maxrr": "online MaxRR",
    "online": "online performance so far",
}
# undefined for queries without a relevant document: the field `empty` of an experiment decides
SKIP_EMPTY = ("ndcg@10", "mrr@10", "merged_ndcg@10", "merged_mrr@10")


def measured(study: Study) -> list[str]:
    """The measures of which any run of a study has a value."""
    return [name for name in MEASURES if any(value(run, name) is not None for run in study.runs)]


def value(run: Recorded, measure: str) -> float | None:
    """A run's value of a measure, or None.

    A measure of every round varies much from round to round. Its value is the mean over the last
    5 % of rounds (at least one round), as far as they are known."""
    if measure not in EVERY_ROUND:
        return finite(run.final.get(measure))
    if measure not in run.final:
        return None
    rounds = run.metrics.online.get(measure, [])
    late = [each for each in rounds[-max(1, round(len(rounds) / LATE)) :] if math.isfinite(each)]
    return math.fsum(late) / len(late) if late else None


def empty_rule(run: Recorded) -> str:
    """How queries without a relevant document count: "are skipped"."""
    empty = run.final.get("empty")
    return EMPTY.get(str(empty), f"count by the rule {empty!r}")


def finite(value: object) -> float | None:
    """A finite number as a float, anything else as None. Values come from JSON files, which may
    hold NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return number if math.isfinite(number) else None
