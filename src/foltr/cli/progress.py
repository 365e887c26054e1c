"""What a person sees while a run goes on: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foltr.runs.result import Progress

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 40) -> str:
    """The course of some values in one line; the highest bar is the highest value."""
    if np.isnan(values).all():
        return ""
    kept = np.array(values)[
        np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    ]
    low, high = np.nanmin(kept), np.nanmax(kept)
    steps = np.zeros(len(kept)) if high == low else (kept - low) / (high - low) * (len(BARS) - 1)
    return "".join(BARS[round(step)] for step in np.nan_to_num(steps).tolist())


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Watcher:
    """Called after every round; shows something a few times a second."""

    def __init__(self, label: str, quiet: bool = False) -> None:
        self.label, self.quiet = label, quiet
        self.console = Console(stderr=True)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.lively = self.console.is_terminal and not self.console.is_dumb_terminal
        self.pause = 0.1 if self.lively else 2.0
        self.shown = 0.0
        self.first: tuple[float, int] | None = (
            None  # when the first round was over, and its number: it may compile
        )

    def __enter__(self) -> Watcher:
        if not self.quiet:
            self._say_what_takes_long()
            if self.lively:
                self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def _say_what_takes_long(self) -> None:
        from foltr.kernels import COMPILING, nothing_compiled

        if nothing_compiled():
            print(COMPILING, file=sys.stderr, flush=True)

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if (
            self.first is None or progress.t == progress.began + 1
        ):  # the first of a run: there may be several
            self.first, self.shown = (now, progress.t), now
            for note in () if self.quiet else progress.notes:
                self.console.print(Text(f"note: {note}"))
        if self.quiet or now - self.shown < self.pause:
            return
        self.shown = now
        if self.lively:
            self.live.update(self._panel(progress, now), refresh=True)
        else:
            print(self._line(progress, now), file=sys.stderr, flush=True)

    def _rates(self, progress: Progress, now: float) -> tuple[float, float]:
        """Interactions per second, and seconds left, by the rounds of this process but the
        first."""
        began, at = self.first or (now, progress.t)
        elapsed, rounds = max(now - began, 1e-9), max(progress.t - at, 1)
        made = sum(progress.metrics.online["interactions"][at:])
        return made / elapsed, (progress.rounds - progress.t) * elapsed / rounds

    def _line(self, progress: Progress, now: float) -> str:
        rate, left = self._rates(progress, now)
        m, rounds = progress.metrics, progress.rounds
        return (
            f"round {progress.t}/{rounds}  {rate:,.0f} interactions/s  ndcg@10"
            f" {m.offline['ndcg@10'][-1]:.4f}  online {m.online['online_ndcg@10'][-1]:.4f} "
            f" {duration(left)} left"
        )

    def _panel(self, progress: Progress, now: float) -> Group:
        rate, left = self._rates(progress, now)
        m, rounds = progress.metrics, progress.rounds
        filled = round(30 * progress.t / rounds)
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(no_wrap=True)
        bar = "━" * filled + "╌" * (30 - filled)
        table.add_row(bar, f"round {progress.t:,} of {rounds:,}", f"{duration(left)} left")
        offline = m.offline["ndcg@10"]
        table.add_row(
            sparkline(offline), f"offline nDCG@10 {offline[-1]:.4f}", f"{rate:,.0f} interactions/s"
        )
        online = m.online["online_ndcg@10"]
        window = online[-max(1, len(online) // 50) :]
        table.add_row(
            sparkline(smoothed(online)), f"online  nDCG@10 {sum(window) / len(window):.4f}", ""
        )
        return Group(Text(self.label, style="bold", no_wrap=True, overflow="ellipsis"), table)


def smoothed(values: list[float], points: int = 40) -> list[float]:
    """Means of `points` stretches: single rounds are noisy."""
    return [
        float(part.mean()) for part in np.array_split(np.array(values), min(points, len(values)))
    ]
