"""The settings that `foltr tune` chose."""

from __future__ import annotations

from foltr.report.chapters.blocks import SHOWN, Block
from foltr.report.chapters.registry import chapter
from foltr.report.measures import column
from foltr.report.tuning import chosen_before
from foltr.results import Runs
from foltr.runs.columns import VALIDATION


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
