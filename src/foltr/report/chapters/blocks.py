"""Blocks of the page: what a reader must know of the runs beyond the comparison of methods.

    @block
    def privacy_ledger(runs: Runs) -> Block | None:
        ...

A contribution looks at the runs and returns a block, several, or None where it has nothing to say.
Blocks of a chapter are results and stand under its heading, before the curves; the others are
notes, below the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from foltr.results import Runs

SHOWN = 50  # rows of a kind that are named; the others are counted
COUNTS_ALL = (
    2  # the version of ledgers since which nothing is promised that an attack is known to beat
)
TOGETHER = 3  # conditions side by side in a summary


@dataclass(frozen=True)
class Cell:
    """An entry of a table that is more than text."""

    text: str
    aside: str = ""  # smaller, behind it
    below: str = ""  # smaller, in a line of its own
    mark: str = ""  # of a test, as in `entries`
    best: bool = False  # highest of those it is compared with
    shade: int = 0  # 1 .. 4: how bad it is


@dataclass(frozen=True)
class Block:
    title: str
    text: str  # a sentence or two
    rows: tuple[tuple[str | Cell, ...], ...] = ()  # the first names the columns
    chapter: str = ""  # of the results; none for a note
    folded: bool = False  # shown when it is opened


Entry = str | Cell
T = TypeVar("T")


def a_few_at_a_time(columns: Sequence[T]) -> Iterator[tuple[str, Sequence[T]]]:
    """Columns of a summary that fit beside each other, and what to add to its title where there
    are more."""
    starts = range(0, len(columns), TOGETHER)
    for i, start in enumerate(starts):
        yield (
            f" ({i + 1} of {len(starts)})" if len(starts) > 1 else "",
            columns[start : start + TOGETHER],
        )


Contribution = Callable[[Runs], Block | Sequence[Block] | None]
_contributions: list[Contribution] = []


def block(contribution: Contribution) -> Contribution:
    """Register a function that looks at runs and may have something to say."""
    _contributions.append(contribution)
    return contribution


def blocks(runs: Runs) -> list[Block]:
    """All that there is to say, in the order of registration."""
    found = [contribution(runs) for contribution in _contributions]
    several = [[each] if isinstance(each, Block) else each or () for each in found]
    return [block for each in several for block in each]


@block
def warnings(runs: Runs) -> Block | None:
    """The notes of the runs, grouped and counted."""
    counts = Counter(str(note) for run in runs for note in run.final.get("notes") or ())
    if not counts:
        return None
    rows = [(note, f"{n:,} of {len(runs):,}") for note, n in counts.most_common(SHOWN)]
    return Block(
        "Notes of the runs",
        "What the runs themselves said while they were made.",
        (("note", "runs"), *rows),
    )


@block
def not_counted(runs: Runs) -> Block | None:
    """Runs that are no part of any number on the page, by name."""
    rows = [(skipped.path.name, skipped.why) for skipped in runs.skipped[:SHOWN]]
    rows += [
        (path.name, "unfinished: the same command goes on with it")
        for path in runs.unfinished[:SHOWN]
    ]
    if not rows:
        return None
    parts = [(len(runs.skipped), "skipped"), (len(runs.unfinished), "unfinished")]
    counted = " and ".join(f"{n:,} {what}" for n, what in parts if n)
    left = len(runs.skipped) + len(runs.unfinished) - len(rows)
    more = f" {left:,} more are not named here." if left else ""
    text = f"{counted}: no number on this page includes them.{more}"
    return Block("Runs that do not count", text, (("run", "why"), *rows))


@block
def privacy_ledger(runs: Runs) -> Block | None:
    """What the runs guarantee, as they recorded it (`result.json`, "privacy"); equal lines
    once."""
    promises = [row for run in runs for row in _promises(run.final.get("privacy"))]
    if not promises:
        return None
    if all(mechanism == "none" for mechanism, *_ in promises):
        text = (
            "No run has a privatizer: messages may tell everything about their client, and nothing"
            " is promised."
        )
        return Block("Privacy", text)
    text = (
        "What a run guarantees (differential privacy, one replaced by any other): what is seen"
        " changes the odds of any guess about what is protected at most exp(epsilon) times; with a"
        " delta, a probability plus delta."
    )
    columns = ("privatizer", "against", "epsilon, for what is protected", "if one trusts", "runs")
    rows = [
        (*row, f"{n:,} of {len(runs):,}") for row, n in list(Counter(promises).items())[:SHOWN]
    ]
    return Block("Privacy", text, (columns, *rows))


@block
def privacy_remarks(runs: Runs) -> Block | None:
    """Why what holds is not what was published, in the words of the runs' ledgers."""
    said: dict[tuple[str, str], None] = {}
    for told in (run.final.get("privacy") for run in runs):
        if isinstance(told, dict) and told.get("mechanism") != "none":
            said.update(
                ((str(told.get("mechanism")), str(remark)), None)
                for remark in told.get("remarks") or ()
            )
    if not said:
        return None
    text = "Why these epsilons are not those of the papers, and what they rest on."
    return Block(
        "What the privacy of the runs rests on",
        text,
        (("privatizer", "remark"), *list(said)[:SHOWN]),
    )


def _promises(told: Any) -> list[tuple[str, ...]]:
    """Of one run: privatizer, against whom, the epsilon of each thing that is protected, if one
    trusts whom."""
    rows: list[tuple[str, ...]] = []
    try:
        for view in told["views"]:
            parts = []
            for each in view["guarantees"]:
                delta = f" (delta {each['delta']:g})" if each["delta"] else ""
                parts.append(f"{each['title']}: {each['told']}{delta}")
            stated = "; ".join(parts)
            if told.get("version", 1) < COUNTS_ALL and told["mechanism"] != "none":
                stated = (
                    f"withdrawn (an earlier ledger said {stated}): `foltr privacy` on its config"
                    " says what holds"
                )
            rows.append(
                (str(told["mechanism"]), str(view["title"]), stated, str(view["trusted"] or "-"))
            )
    except (KeyError, TypeError, ValueError):  # none there, or of another version of foltr
        return []
    return rows
