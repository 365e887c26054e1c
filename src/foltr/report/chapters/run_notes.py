"""Notes at the end of the page about the runs: what they recorded, which were left out, and the
settings that `foltr tune` chose."""

from __future__ import annotations

from collections import Counter

from foltr.report.chapters.registry import SHOWN, Block, chapter
from foltr.report.measures import column
from foltr.report.results import Runs
from foltr.report.tuning import chosen_before
from foltr.simulation.runs.columns import VALIDATION


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


@chapter(place=5)
def chosen_settings(runs: Runs) -> Block | None:
    """A row for each choice; nothing if the runs are not those of a tuned record."""
    found = chosen_before(runs)
    if found is None:
        return None
    table = found.table()
    measured = (VALIDATION + found.by, found.by)
    names = [name for name in table.columns if name != "settings"]
    heads = [column(runs, name).curve_label if name in measured else name for name in names]
    rows = [
        tuple(
            f"{value:.4f}" if name in measured and value is not None else str(value)
            for name, value in row.items()
            if name in names
        )
        for row in list(table.rows())[:SHOWN]
    ]
    return Block("Chosen settings", runs.note, (tuple(heads), *rows), chapter="Tuning")
