"""The state of a sweep on a terminal: a panel redrawn in place, or a line now and then."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group
from rich.table import Table
from rich.text import Text

from foltr.runs.execution import compiling_notice
from foltr.sweeps.state import SweepState
from foltr.system.terminal import LivePanel, duration, progress_bar

SHOWN = 8  # running or failed runs
WIDTH, LEAST = 40, 10  # of the bar beside its text, most and least
LINE_SECONDS = 5.0


class SweepPanel(LivePanel):
    """Called with the state of a sweep, about twice a second."""

    def __init__(self, title: str, quiet: bool) -> None:
        super().__init__(quiet, 0.0, LINE_SECONDS, compiling_notice)
        self.title, self.last = title, ""

    def __call__(self, state: SweepState) -> None:
        line = state_line(state)
        views = (lambda: self._panel(state, line), lambda: line)
        if self.due() and (self.in_place or self.notebook is not None or line != self.last):
            self.last = line
            self.show(*views)
        else:
            self.keep(*views)

    def _panel(self, state: SweepState, line: str) -> Group:
        table = Table.grid(padding=(0, 2))
        for run in state.running[:SHOWN]:
            progress = (
                f"round {run.round:,} of {run.rounds:,}"
                if run.rounds
                else "starting (may compile kernels)"
            )
            table.add_row(Text(f"  {run.label}", style="dim"), Text(progress))
        wrong = failure_lines(state.failed) + failure_lines(state.damaged, "damaged")
        failed = [Text(f"  {each}", style="red") for each in wrong[:SHOWN]]
        room = min(WIDTH, self.console.width - len(line) - 2)
        width = room if room >= LEAST else min(WIDTH, self.console.width)
        bar = Text(progress_bar(state.done, state.planned, width))
        parts = [Text.assemble(bar, "  ", line)] if room >= LEAST else [bar, Text(line)]
        return Group(Text(self.title, style="bold"), *parts, table, *failed)


def state_line(state: SweepState) -> str:
    left = time_left(state)
    return (
        f"{state.done} of {state.planned} done, {len(state.running)} running,"
        f" {len(state.failed)} failed"
        + (f", {len(state.damaged)} damaged" if state.damaged else "")
        + (f", {left} left" if left else "")
    )


def time_left(state: SweepState) -> str:
    """Empty where it is unknown, or nothing is left."""
    if state.left is None or state.done == state.planned:
        return ""
    return duration(state.left)


def failure_lines(failed: Iterable[tuple[str, str]], word: str = "failed") -> list[str]:
    """Pairs of a run and its error; runs with equal errors share one line."""
    errors: dict[str, list[str]] = {}
    for run, error in failed:
        errors.setdefault(error, []).append(run)
    lines = []
    for error, runs in errors.items():
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        lines.append(f"{word}: {'; '.join(runs[:3])}{more}: {error}")
    return lines
