"""Notes that runs recorded, and runs that a report leaves out."""

from __future__ import annotations

from collections import Counter

from foltr.report.chapters.blocks import SHOWN, Block
from foltr.report.chapters.registry import chapter
from foltr.results import Runs


@chapter(place=10)
def recorded_notes(runs: Runs) -> Block | None:
    """The notes of the runs, each with the number of its runs."""
    counts = Counter(str(note) for run in runs for note in run.final.get("notes") or ())
    if not counts:
        return None
    rows = [(note, f"{n:,} of {len(runs):,}") for note, n in counts.most_common(SHOWN)]
    return Block(
        "Notes of the runs",
        "What runs recorded while they were made, and how many of them did.",
        (("note", "runs"), *rows),
    )


@chapter(place=20)
def runs_left_out(runs: Runs) -> Block | None:
    """The runs that are part of no number on the page, by name."""
    rows = [(skipped.path.name, skipped.why) for skipped in runs.skipped[:SHOWN]]
    rows += [
        (path.name, "unfinished: the same command continues it")
        for path in runs.unfinished[:SHOWN]
    ]
    if not rows:
        return None
    parts = [(len(runs.skipped), "skipped"), (len(runs.unfinished), "unfinished")]
    counted = " and ".join(f"{n:,} {what}" for n, what in parts if n)
    left = len(runs.skipped) + len(runs.unfinished) - len(rows)
    more = f" {left:,} more are not listed here." if left else ""
    text = f"{counted}. No number on this page includes them.{more}"
    return Block("Runs left out", text, (("run", "why"), *rows))
