"""What a person sees while a run goes on: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foltr.running import Progress

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], width: int = 40) -> str:
    """The course of some values in one line; the highest bar is the highest value."""
    if not values:
        return ""
    kept = np.array(values)[np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)]
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
        self.pause = 0.1 if self.console.is_terminal else 2.0
        self.began = self.shown = time.monotonic()
        self.noted = False

    def __enter__(self) -> Watcher:
        if self.console.is_terminal and not self.quiet:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if self.quiet or now - self.shown < self.pause:
            return
        self.shown = now
        self._note(progress)
        if self.console.is_terminal:
            self.live.update(self._panel(progress, now), refresh=True)
        else:
            print(self._line(progress, now), file=sys.stderr, flush=True)

    def _note(self, progress: Progress) -> None:
        if not self.noted:
            self.noted = True
            for note in progress.notes:
                self.console.print(Text(f"note: {note}"))

    def _rates(self, progress: Progress, now: float) -> tuple[float, float]:
        """Interactions per second, and seconds left, by the rounds of this process."""
        elapsed, rounds = max(now - self.began, 1e-9), progress.t - progress.began
        made = sum(progress.metrics.online["interactions"][progress.began :])
        return made / elapsed, (progress.experiment.rounds - progress.t) * elapsed / max(rounds, 1)

    def _line(self, progress: Progress, now: float) -> str:
        rate, left = self._rates(progress, now)
        m, rounds = progress.metrics, progress.experiment.rounds
        return (
            f"round {progress.t}/{rounds}  {rate:,.0f} interactions/s  ndcg@10 {m.offline['ndcg@10'][-1]:.4f}  "
            f"online {m.online['online_ndcg@10'][-1]:.4f}  {duration(left)} left"
        )

    def _panel(self, progress: Progress, now: float) -> Table:
        rate, left = self._rates(progress, now)
        m, rounds = progress.metrics, progress.experiment.rounds
        filled = round(30 * progress.t / rounds)
        table = Table.grid(padding=(0, 2))
        table.add_row(Text(self.label, style="bold"))
        bar = "━" * filled + "╌" * (30 - filled)
        table.add_row(bar, f"round {progress.t:,} of {rounds:,}", f"{duration(left)} left")
        offline = m.offline["ndcg@10"]
        table.add_row(sparkline(offline), f"offline nDCG@10 {offline[-1]:.4f}", f"{rate:,.0f} interactions/s")
        online = m.online["online_ndcg@10"]
        window = online[-max(1, len(online) // 50) :]
        table.add_row(sparkline(smoothed(online)), f"online  nDCG@10 {sum(window) / len(window):.4f}", "")
        return table


def smoothed(values: list[float], points: int = 40) -> list[float]:
    """Means of `points` stretches: single rounds are noisy."""
    return [float(part.mean()) for part in np.array_split(np.array(values), min(points, len(values)))]
