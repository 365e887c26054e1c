"""The progress of a run or an audit: in place in a terminal or a notebook, plain lines
elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
from rich.console import Console, Group
from rich.status import Status
from rich.table import Table
from rich.text import Text

from foltr.core.spec import brief
from foltr.core.system.terminal import LivePanel, duration, progress_bar, sparkline
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import compiling_notice
from foltr.simulation.runs.result import Progress

WIDTH, LEAST = 40, 6  # of the bar and the curves, most and least
GAP = 2  # between columns
PANEL_SECONDS = 0.1
LINE_SECONDS = 2.0
STEP_SECONDS = 5.0  # between lines about one step of an audit


def label_of(e: Experiment) -> str:
    """One line that names an experiment."""
    parts = "  ".join(map(brief, (e.data, e.users, e.learner, e.ranker)))
    return f"{parts}  {e.clients:,} clients, {e.rounds:,} rounds"


class RunProgress(LivePanel):
    """Called while a run is made; shows something a few times a second."""

    def __init__(self, label: str, quiet: bool = False, engine: str = "local") -> None:
        notice = partial(compiling_notice, engine)
        super().__init__(quiet, PANEL_SECONDS, LINE_SECONDS, notice)
        self.label = label
        # when the first round ended, and its number: that round may have compiled kernels
        self.first: tuple[float, int] | None = None

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if self.first is None or progress.t == progress.began + 1:  # one watches several runs
            self.first, self.shown = (now, progress.t), now
            for note in () if self.quiet else progress.notes:
                self.console.print(Text(f"note: {note}"))
        views = (lambda: self._panel(progress, now), lambda: self._line(progress, now))
        if self.due():
            self.show(*views)
        else:
            self.keep(*views)

    def beside(self, watch: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Both: `watch`, then this."""

        def both(progress: Progress) -> None:
            watch(progress)
            self(progress)

        return both

    def _rates(self, progress: Progress, now: float) -> tuple[float, float]:
        """Interactions per second and seconds left, measured without this process's first
        round."""
        began, at = self.first or (now, progress.t)
        elapsed, rounds = max(now - began, 1e-9), max(progress.t - at, 1)
        made = sum(progress.metrics.online["interactions"][at:])
        return made / elapsed, (progress.rounds - progress.t) * elapsed / rounds

    def _line(self, progress: Progress, now: float) -> str:
        if progress.measured is not None:
            done, of = progress.measured
            made = f"all {progress.rounds:,} rounds made"
            return f"{made}; measuring clients: {done:,} of {of:,}"
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
        rows: list[tuple[Callable[[int], str], str, str]] = []  # drawing in a width, two texts
        if progress.measured is None:
            made, todo = f"round {progress.t:,} of {rounds:,}", f"{duration(left)} left"
            rows.append((lambda width: progress_bar(progress.t, rounds, width), made, todo))
            speed = f"{rate:,.0f} interactions/s"
        else:
            (done, of), speed = progress.measured, ""
            made = f"all {rounds:,} rounds made"
            rows.append((lambda width: progress_bar(progress.t, rounds, width), made, ""))
            clients = f"clients {done:,} of {of:,}"
            rows.append((lambda width: progress_bar(done, of, width), clients, "measured"))
        offline, online = m.offline["ndcg@10"], m.online["online_ndcg@10"]
        window = online[-max(1, len(online) // 50) :]
        shown = f"offline nDCG@10 {offline[-1]:.4f}"
        rows.append((lambda width: sparkline(offline, width), shown, speed))
        shown = f"online  nDCG@10 {sum(window) / len(window):.4f}"
        rows.append((lambda width: sparkline(smoothed(online, width), width), shown, ""))
        label = Text(self.label, style="bold", no_wrap=True, overflow="ellipsis")
        return Group(label, fitted(rows, self.console.width))


def fitted(rows: list[tuple[Callable[[int], str], str, str]], width: int) -> Table:
    """Rows of a drawing and two texts, in a terminal of this width. Drawings give way to texts,
    and the last texts to the first, in which the measures are."""
    first, last = (max(map(len, texts)) for texts in tuple(zip(*rows, strict=True))[1:])
    room = width - first - last - 2 * GAP
    texts = 2 if last and room >= LEAST else 1
    room = min(WIDTH, room if texts == 2 else width - first - GAP)
    table = Table.grid(padding=(0, GAP, 0, 0))
    for draw, *given in rows:
        table.add_row(*([draw(room)] if room >= LEAST else []), *given[:texts])
    for column in table.columns:
        column.no_wrap = True
    return table


def smoothed(values: list[float], points: int = 40) -> list[float]:
    """The means of `points` consecutive parts: single rounds are noisy."""
    return [
        float(part.mean()) for part in np.array_split(np.array(values), min(points, len(values)))
    ]


class StepProgress(AbstractContextManager["StepProgress"]):
    """Called with the current step of an audit, and how much of it is done."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.status: Status | None = None
        self.step, self.shown = "", 0.0

    def __enter__(self) -> StepProgress:
        if not self.quiet and self.console.is_terminal:
            self.status = self.console.status("audit")
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def __call__(self, step: str, done: int, of: int) -> None:
        if self.quiet:
            return
        now, line = time.monotonic(), f"{step}: {done:,} of {of:,}" if of > 1 else step
        if self.status is not None and now - self.shown > PANEL_SECONDS:
            self.status.update(line)
            self.shown = now
        elif self.status is None and (step != self.step or now - self.shown > STEP_SECONDS):
            print(f"audit: {line}", file=sys.stderr, flush=True)
            self.step, self.shown = step, now
