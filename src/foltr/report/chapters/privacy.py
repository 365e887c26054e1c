"""The privacy guarantees of the runs, as their ledgers recorded them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from foltr.report.chapters.registry import SHOWN, Block, chapter
from foltr.report.results import Runs

COUNTS_ALL = 2  # ledgers of earlier versions stated guarantees that known attacks break
NO_MECHANISM = "none"  # the mechanism of a ledger without a privatizer


@chapter(place=30)
def privacy_guarantees(runs: Runs) -> Block | None:
    """What the runs guarantee, as recorded in `result.json` ("privacy"). Equal rows are shown
    once."""
    guarantees = [row for run in runs for row in _guarantees(run.final.get("privacy"))]
    if not guarantees:
        return None
    if all(mechanism == NO_MECHANISM for mechanism, *_ in guarantees):
        text = (
            "No run has a privatizer. Messages may reveal everything about their client: nothing"
            " is guaranteed."
        )
        return Block("Privacy", text)
    text = (
        "Differential privacy, where one protected unit is replaced by any other. What an observer"
        " sees changes the odds of any guess about that unit by a factor of at most exp(epsilon)."
        " With a delta, P(S) <= exp(epsilon) P'(S) + delta for every set S of observations."
    )
    columns = ("privatizer", "observer", "epsilon of each protected unit", "assumes", "runs")
    rows = [
        (*row, f"{n:,} of {len(runs):,}") for row, n in list(Counter(guarantees).items())[:SHOWN]
    ]
    return Block("Privacy", text, (columns, *rows))


@chapter(place=40)
def privacy_remarks(runs: Runs) -> Block | None:
    """The remarks of the runs' ledgers. Equal remarks are shown once."""
    remarks: dict[tuple[str, str], None] = {}
    for ledger in (run.final.get("privacy") for run in runs):
        if isinstance(ledger, dict) and ledger.get("mechanism") != NO_MECHANISM:
            mechanism = str(ledger.get("mechanism"))
            remarks.update(
                ((mechanism, str(remark)), None) for remark in ledger.get("remarks") or ()
            )
    if not remarks:
        return None
    return Block(
        "Assumptions of the privacy guarantees",
        "What each guarantee assumes, and why its epsilon may differ from the one in the paper.",
        (("privatizer", "remark"), *list(remarks)[:SHOWN]),
    )


def _guarantees(ledger: Any) -> list[tuple[str, ...]]:
    """A row for each observer of one run: the privatizer, the observer, the epsilon of each
    protected unit, whom the guarantee trusts."""
    rows: list[tuple[str, ...]] = []
    try:
        for view in ledger["views"]:
            parts = []
            for each in view["guarantees"]:
                delta = f" (delta {each['delta']:g})" if each["delta"] else ""
                parts.append(f"{each['title']}: {each['told']}{delta}")
            stated = "; ".join(parts)
            if ledger.get("version", 1) < COUNTS_ALL and ledger["mechanism"] != NO_MECHANISM:
                stated = (
                    f"withdrawn (an earlier ledger stated {stated}): `foltr privacy` on its config"
                    " states the guarantee"
                )
            trusted = str(view["trusted"] or "-")
            rows.append((str(ledger["mechanism"]), str(view["title"]), stated, trusted))
    except (KeyError, TypeError, ValueError):  # no ledger, or one of another version of foltr
        return []
    return rows
