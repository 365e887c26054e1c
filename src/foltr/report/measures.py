"""What a table knows of a run: one number per measure."""

from __future__ import annotations

import math
from typing import Any

from foltr.metrics import EMPTY
from foltr.report.study import Study
from foltr.results import Recorded

LATE = 20  # one round of so many, the last ones, makes the late mean: 5 %
MEASURES = {  # higher is better in each
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
LATE_MEANS = ("online_ndcg@10", "maxrr")
# undefined for queries without a relevant document: an experiment's `empty` decides
LEAVES_OUT = ("ndcg@10", "mrr@10", "merged_ndcg@10", "merged_mrr@10")


def measured(study: Study) -> list[str]:
    """The measures that any run of a study has a value of."""
    return [name for name in MEASURES if any(value(run, name) is not None for run in study.runs)]


def value(run: Recorded, measure: str) -> float | None:
    """A run's value of a measure; None where it has none. What a run tells of its last round is a
    list or a few per client: of such measures it is the mean over the last 5 % of rounds (at least
    one), as far as they are known."""
    if measure not in LATE_MEANS:
        return _number(run.final.get(measure))
    if measure not in run.final:
        return None
    rounds = run.metrics.online.get(measure, [])
    late = [each for each in rounds[-max(1, round(len(rounds) / LATE)) :] if math.isfinite(each)]
    return math.fsum(late) / len(late) if late else None


def _number(found: Any) -> float | None:
    """A finite number, or None. JSON readers also take NaN."""
    good = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if good else None


def empty_rule(run: Recorded) -> str:
    """How queries without a relevant document count: "are skipped"."""
    empty = run.final.get("empty")
    return EMPTY.get(str(empty), f"count by the rule {empty!r}")
