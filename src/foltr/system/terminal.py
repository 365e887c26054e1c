"""What a user sees of long work: a panel redrawn in place in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Self

import numpy as np
from rich.console import Console, RenderableType
from rich.live import Live

LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 40) -> str:
    """Values in one line of bars; the highest bar is the highest value."""
    if np.isnan(values).all():
        return ""
    kept = np.array(values)[
        np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    ]
    low, high = np.nanmin(kept), np.nanmax(kept)
    steps = np.zeros(len(kept)) if high == low else (kept - low) / (high - low) * (len(LEVELS) - 1)
    return "".join(LEVELS[round(step)] for step in np.nan_to_num(steps).tolist())


def progress_bar(done: float, total: float, width: int) -> str:
    filled = round(width * done / max(1, total))
    return "━" * filled + "╌" * (width - filled)


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class LivePanel:
    """On standard error: a panel in a terminal, else one line every `line_seconds`. `notice` is
    printed first."""

    def __init__(
        self,
        quiet: bool,
        panel_seconds: float,
        line_seconds: float,
        notice: Callable[[], str] = lambda: "",
    ) -> None:
        self.quiet, self.notice = quiet, notice
        self.console = Console(stderr=True)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.in_place = self.console.is_terminal and not self.console.is_dumb_terminal
        self.pause = panel_seconds if self.in_place else line_seconds
        self.shown = 0.0

    def __enter__(self) -> Self:
        if not self.quiet:
            if notice := self.notice():
                print(notice, file=sys.stderr, flush=True)
            if self.in_place:
                self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def due(self) -> bool:
        return not self.quiet and time.monotonic() - self.shown >= self.pause

    def show(self, panel: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        """Show the panel or the line, whichever fits standard error."""
        self.shown = time.monotonic()
        if self.in_place:
            self.live.update(panel(), refresh=True)
        else:
            print(line(), file=sys.stderr, flush=True)
