"""The metrics of `foltr serve`, from the data of its status page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from foltr.serving.board import Board
from foltr.serving.exposition import Family, by_label, counter, gauge

STATES = ("connected", "away", "refused", "revoked")


def families(board: Board) -> Iterator[Family]:
    """The metrics of a server. Counters continue when the server is started again."""
    seen = board.seen()
    totals, history = Counter(seen["totals"]), seen["history"]
    yield gauge("foltr_rounds_planned", "Rounds of training in total.", seen["rounds"])
    yield gauge("foltr_round", "The number of the last finished round, from 1.", seen["round"])
    for name, help, value in (
        ("rounds", "Finished rounds.", totals["rounds"]),
        ("rounds_withheld", "Rounds with too few answers to change the model.", totals["few"]),
        ("models_not_adopted", "Models that were worse on held-out data.", totals["not_adopted"]),
        ("clients_asked", "`asked` of the agreement, over all rounds.", totals["asked"]),
        ("clients_answered", "Clients whose answers were used.", totals["answered"]),
    ):
        yield counter(f"foltr_{name}_total", help, value)
    help = "Answers that were left out, by reason."
    yield by_label("foltr_failures_total", "counter", help, "kind", seen["failures"])
    bytes = {"sent": totals["sent"], "received": totals["got"]}
    help = "Bytes of the messages to and from nodes, without their transport."
    yield by_label("foltr_message_bytes_total", "counter", help, "direction", bytes)
    yield board.lasted.family("foltr_round_seconds", "Seconds that a round took.")
    help = "When the last round ended, or else the server started, since 1970."
    yield gauge("foltr_last_round_timestamp_seconds", help, board.changed)
    yield by_label("foltr_nodes", "gauge", "Nodes of the roster, by state.", "state", nodes(seen))
    measured = [about for about in history if isinstance(about.get("ndcg"), float)]
    if measured:
        last = measured[-1]
        help = "nDCG@10 of the last new model on held-out queries."
        yield gauge("foltr_heldout_ndcg", help, last["ndcg"])
        yield gauge("foltr_heldout_ndcg_best", "The best one so far.", last["best"])
    help = "What a client that answered in all rounds that it may has spent, rounded up."
    spent = {who: epsilon(text) for who, text in seen["epsilon"].items()}
    yield by_label("foltr_epsilon_spent", "gauge", help, "adversary", spent)


def nodes(seen: dict[str, dict[str, str]]) -> dict[str, float]:
    """How many nodes are in each state. `refused: why` counts as refused."""
    found = Counter(state.partition(":")[0] for state in seen["nodes"].values())
    return {state: float(found[state]) for state in STATES}


def epsilon(text: str) -> float:
    """The number of an epsilon on the status page."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.inf  # "no limit"
