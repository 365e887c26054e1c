"""All chapters and notes of the page, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foltr.report.chapters.attacks import attacks_and_defences
from foltr.report.chapters.blocks import Block
from foltr.report.chapters.privacy import privacy_guarantees, privacy_remarks
from foltr.report.chapters.run_notes import recorded_notes, runs_left_out
from foltr.report.chapters.uneven_data import iid_against_skewed
from foltr.report.chapters.unlearning import unlearning
from foltr.results import Runs

# Each function looks at the runs. It returns a block, several blocks, or None if the runs are not
# of its kind. To add a chapter, add its function here.
CONTRIBUTIONS: tuple[Callable[[Runs], Block | Sequence[Block] | None], ...] = (
    recorded_notes,
    runs_left_out,
    privacy_guarantees,
    privacy_remarks,
    unlearning,
    attacks_and_defences,
    iid_against_skewed,
)


def blocks(runs: Runs) -> list[Block]:
    """The blocks of all contributions."""
    found = [contribution(runs) for contribution in CONTRIBUTIONS]
    several = [[each] if isinstance(each, Block) else each or () for each in found]
    return [block for each in several for block in each]
