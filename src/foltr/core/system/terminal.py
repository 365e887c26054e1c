"""What a user sees of long work: a panel redrawn in place in a terminal or a notebook, plain lines
elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

LEVELS = "▁▂▃▄▅▆▇█"
WIDE = 110  # columns of a panel in a notebook
HTML = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:normal;'
    "font-family:Menlo,'DejaVu Sans Mono',consolas,'Courier New',monospace\">{code}</pre>"
)


def sparkline(values: list[float], width: int = 40) -> str:
    """Values in one line of bars; the highest bar is the highest value."""
    import numpy as np  # late: a command that only prints its help needs none

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
    """On standard error: a panel in a terminal, else one line every `line_seconds`. In a notebook,
    the panel below the cell, whose last state stays. `notice` is printed first."""

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
        self.notebook = NotebookPanel() if self.console.is_jupyter else None
        self.in_place = self.console.is_terminal and not self.console.is_dumb_terminal
        redrawn = self.in_place or self.notebook is not None
        self.pause = panel_seconds if redrawn else line_seconds
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
        if self.notebook is not None:
            self.notebook.close()

    def due(self) -> bool:
        return not self.quiet and time.monotonic() - self.shown >= self.pause

    def keep(self, panel: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        """What a notebook shows in the end, if nothing newer is shown before."""
        if self.notebook is not None and not self.quiet:
            self.notebook.last = panel, line

    def show(self, panel: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        """Show the panel or the line, whichever fits standard error."""
        self.shown = time.monotonic()
        if self.notebook is not None:
            self.notebook.show(panel, line)
        elif self.in_place:
            self.live.update(panel(), refresh=True)
        else:
            print(line(), file=sys.stderr, flush=True)


class NotebookPanel:
    """A panel below a notebook's cell. It is drawn again in place, without widgets, so that it is
    stored with the notebook."""

    def __init__(self) -> None:
        self.last: tuple[Callable[[], RenderableType], Callable[[], str]] | None = None
        self._place: Any = None  # IPython's handle of what is displayed

    def show(self, panel: Callable[[], RenderableType], line: Callable[[], str]) -> None:
        from IPython.display import display

        self.last = None
        shown = {"text/html": as_html(panel()), "text/plain": line()}
        if self._place is None:
            self._place = display(shown, raw=True, display_id=True)
        else:
            self._place.update(shown, raw=True)

    def close(self) -> None:
        if self.last is not None:
            self.show(*self.last)


def as_html(panel: RenderableType) -> str:
    """What a terminal would show, as HTML that fits a light and a dark page."""
    console = Console(file=io.StringIO(), record=True, width=WIDE, force_jupyter=False)
    console.print(panel)
    return console.export_html(inline_styles=True, code_format=HTML)
