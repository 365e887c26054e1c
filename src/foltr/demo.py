"""`foltr demo`: see a federated ranker learn within a minute, on embedded data."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foltr.chart import MARKS, Panel, Series, bounds, svg_chart, text_chart
from foltr.experiment import Experiment
from foltr.files import told, write_whole
from foltr.learners.pdgd import PDGD
from foltr.running import Progress, Result
from foltr.users.cascade import Cascade

KINDS = ("perfect", "navigational", "informational")
METHODS = ("FPDGD (100 clients)", "PDGD (centralised)")
CLIENTS, SESSIONS, ROUNDS = 100, 4, 100


def experiment(method: str, kind: str, seed: int) -> Experiment:
    """Both methods see the same number of interactions; the centralised one updates after each of them."""
    users = Cascade(kind=kind)  # type: ignore[arg-type]
    if method == METHODS[0]:
        return Experiment(
            users=users, learner=PDGD(sessions=SESSIONS), clients=CLIENTS, rounds=ROUNDS, evaluate_every=1, seed=seed
        )
    each = CLIENTS * SESSIONS
    return Experiment(
        users=users, learner=PDGD(sessions=1), clients=1, rounds=ROUNDS * each, evaluate_every=each // 4, seed=seed
    )


class Show:
    """Curves of all runs so far, drawn again while they grow."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.curves: dict[tuple[str, str], Series] = {}
        self.live = Live(console=console, auto_refresh=False)
        self.drawn = 0.0
        self.status = ""

    def watch(self, progress: Progress, method: str, kind: str) -> None:
        if time.monotonic() - self.drawn < 0.15 or not self.console.is_terminal:
            return
        self.add(method, kind, progress.experiment, *progress.metrics.curve("ndcg@10"))
        self.draw()

    def add(self, method: str, kind: str, e: Experiment, rounds: np.ndarray, values: np.ndarray) -> None:
        later = rounds > 0  # the axis is logarithmic
        self.curves[method, kind] = Series(method, rounds[later] * e.clients * e.learner.sessions, values[later])

    def panels(self) -> list[Panel]:
        return [
            Panel(f"{kind} clicks", tuple(s for m in METHODS if (s := self.curves.get((m, kind)))))
            for kind in KINDS
            if any((m, kind) in self.curves and len(self.curves[m, kind].x) for m in METHODS)
        ]

    def draw(self) -> None:
        self.drawn = time.monotonic()
        if self.console.is_terminal:
            self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        panels = self.panels()
        legend = "   ".join(f"{mark} {method}" for mark, method in zip(MARKS, METHODS, strict=False))
        charts = Columns([text_chart(panel, bounds(panels)) for panel in panels], padding=(0, 2))
        title = f"offline nDCG@10 by interactions (100 to 40,000, logarithmic)    {legend}"
        return Group(Text(title), charts, Text(self.status, style="dim"))


def run_demo(out: Path, seed: int, threads: int) -> None:
    """Run everything, print curves and a table, write a picture."""
    console = Console()
    show, began, results = Show(console), time.perf_counter(), {}
    with told(out):
        out.mkdir(parents=True, exist_ok=True)
    console.print("100 devices learn to rank from clicks; no query, document or click leaves a device.")
    console.print("Embedded synthetic data in the shape of MQ2007. The first run compiles the kernels (about 20 s).\n")
    with show.live if console.is_terminal else nullcontext():
        for kind in KINDS:
            for method in METHODS:
                show.status = f"running {method} under {kind} clicks ..."
                show.draw()
                e = experiment(method, kind, seed)
                result = e.run(out / "runs", threads, watch=lambda p, m=method, k=kind: show.watch(p, m, k))  # type: ignore[misc]
                show.add(method, kind, e, *result.curve("ndcg@10"))
                results[method, kind] = result
        show.status = ""
        show.draw()
    if not console.is_terminal:
        console.print(show.picture())
    console.print(_table(results))
    console.print("offline: the final ranker on held-out queries; online: the lists that users were shown on the way.")
    if any(result.repeated for result in results.values()):
        console.print(f"Some runs were finished before and not repeated; delete {out} to see them anew.")
    picture = out / "curves.svg"
    title, axes = "Learning to rank from clicks", ("interactions", "offline nDCG@10 (embedded data)")
    write_whole(picture, svg_chart(title, *axes, show.panels()))
    console.print(f"{time.perf_counter() - began:.0f} s in all. Picture: {picture}   Runs: {out / 'runs'}")


def _table(results: dict[tuple[str, str], Result]) -> Table:
    made = next(iter(results.values())).final["interactions"]
    table = Table(title=f"nDCG@10 after {made:,} interactions each", title_justify="left")
    for name in ("clicks", "method", "offline", "online", "updates", "seconds"):
        table.add_column(name, justify="left" if name in ("clicks", "method") else "right", no_wrap=True)
    for (method, kind), result in results.items():
        final = result.final
        online = float(np.mean(result.curve("online_ndcg@10").values))
        numbers = f"{final['ndcg@10']:.3f}", f"{online:.3f}", f"{final['rounds']:,}", f"{final['seconds']:.1f}"
        table.add_row(kind, method, *numbers, end_section=method == METHODS[-1])
    return table
