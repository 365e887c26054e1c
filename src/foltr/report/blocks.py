"""Blocks of the page that components contribute: what a reader must know of the runs beyond their numbers.

    @block
    def privacy_ledger(runs: Runs) -> Block | None:
        ...

The page shows every block that is not None, in the order of their registration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from foltr.results import Runs

SHOWN = 50  # rows of a kind that are named; the others are counted


@dataclass(frozen=True)
class Block:
    title: str
    text: str  # a sentence or two
    rows: tuple[tuple[str, ...], ...] = ()  # the first names the columns


Contribution = Callable[[Runs], Block | None]
_contributions: list[Contribution] = []


def block(contribution: Contribution) -> Contribution:
    """Register a function that looks at runs and may have something to say."""
    _contributions.append(contribution)
    return contribution


def blocks(runs: Runs) -> list[Block]:
    found = [contribution(runs) for contribution in _contributions]
    return [each for each in found if each is not None]


@block
def warnings(runs: Runs) -> Block | None:
    """The notes of the runs, grouped and counted."""
    counts = Counter(str(note) for run in runs for note in run.final.get("notes") or ())
    if not counts:
        return None
    rows = [(note, f"{n:,} of {len(runs):,}") for note, n in counts.most_common(SHOWN)]
    return Block("Notes of the runs", "What the runs themselves said while they were made.", (("note", "runs"), *rows))


@block
def not_counted(runs: Runs) -> Block | None:
    """Runs that are no part of any number on the page, by name."""
    rows = [(skipped.path.name, skipped.why) for skipped in runs.skipped[:SHOWN]]
    rows += [(path.name, "unfinished: the same command goes on with it") for path in runs.unfinished[:SHOWN]]
    if not rows:
        return None
    parts = [(len(runs.skipped), "skipped"), (len(runs.unfinished), "unfinished")]
    counted = " and ".join(f"{n:,} {what}" for n, what in parts if n)
    left = len(runs.skipped) + len(runs.unfinished) - len(rows)
    more = f" {left:,} more are not named here." if left else ""
    text = f"{counted}: no number on this page includes them.{more}"
    return Block("Runs that do not count", text, (("run", "why"), *rows))
