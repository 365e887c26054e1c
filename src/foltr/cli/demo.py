"""`foltr demo`: see a federated ranker learn within a minute, on embedded data."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from foltr.cli.chart import MARKS, Panel, Series, bounds, svg_chart, text_chart
from foltr.components.learners.pdgd import PDGD
from foltr.components.users.cascade import Cascade
from foltr.experiment import Experiment
from foltr.kernels import COMPILING, nothing_compiled
from foltr.runs.result import Progress, Result
from foltr.system.files import told, write_whole

KINDS = ("perfect", "navigational", "informational")
METHODS = ("FPDGD (100 clients)", "PDGD (centralised)")
CLIENTS, SESSIONS, ROUNDS = 100, 4, 1000
POINTS = 50  # on a curve


def experiment(method: str, kind: str, seed: int) -> Experiment:
    """Both methods see the same number of interactions. Centralised PDGD updates after each of
    them: it is one client whose update is the server's next ranker, so that a round of many
    sessions only means to look every so often."""
    clients, sessions = (CLIENTS, SESSIONS) if method == METHODS[0] else (1, CLIENTS * SESSIONS)
    users, learner = Cascade(kind=kind), PDGD(sessions=sessions)  # type: ignore[arg-type]
    return Experiment(
        users=users, learner=learner, clients=clients, rounds=ROUNDS, evaluate_every=1, seed=seed
    )


def thinned(interactions: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over stretches that are equally long on a logarithmic axis: late evaluations are many
    and noisy."""
    edges = np.geomspace(interactions[0], interactions[-1] + 1, POINTS + 1)
    part = np.searchsorted(edges, interactions, side="right")
    counts = np.bincount(part)
    kept = counts > 0
    return (
        np.bincount(part, interactions)[kept] / counts[kept],
        np.bincount(part, values)[kept] / counts[kept],
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
        self.add(method, kind, *progress.metrics.curve("ndcg@10"))
        self.draw()

    def add(self, method: str, kind: str, rounds: np.ndarray, values: np.ndarray) -> None:
        if len(rounds) > 1:  # the axis is logarithmic: round 0 has no place on it
            self.curves[method, kind] = Series(
                method, *thinned(rounds[1:] * CLIENTS * SESSIONS, values[1:])
            )

    def panels(self) -> list[Panel]:
        return [
            Panel(f"{kind} clicks", tuple(s for m in METHODS if (s := self.curves.get((m, kind)))))
            for kind in KINDS
            if any((m, kind) in self.curves for m in METHODS)
        ]

    def draw(self) -> None:
        self.drawn = time.monotonic()
        if self.console.is_terminal:
            self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        panels = self.panels()
        legend = "   ".join(
            f"{mark} {method}" for mark, method in zip(MARKS, METHODS, strict=False)
        )
        charts = Columns([text_chart(panel, bounds(panels)) for panel in panels], padding=(0, 2))
        each = CLIENTS * SESSIONS
        title = f"offline nDCG@10 after {each:,} to {each * ROUNDS:,} interactions, logarithmic"
        return Group(Text(title), Text(legend), charts, Text(self.status, style="dim"))


def run_demo(out: Path, seed: int, threads: int) -> None:
    """Run everything, print curves and a table, write a picture."""
    console = Console()
    show, began, results = Show(console), time.perf_counter(), {}
    with told(out):
        out.mkdir(parents=True, exist_ok=True)
    console.print(
        "100 devices learn to rank from clicks; no query, document or click leaves a device."
    )
    console.print("Embedded synthetic data in the shape of MQ2007.\n")
    if nothing_compiled():
        console.print(COMPILING)
    with show.live if console.is_terminal else nullcontext():
        for kind in KINDS:
            for method in METHODS:
                show.status = f"running {method} under {kind} clicks ..."
                show.draw()
                e = experiment(method, kind, seed)
                watch = partial(show.watch, method=method, kind=kind)
                result = e.run(out / "runs", threads, watch=watch)
                show.add(method, kind, *result.curve("ndcg@10"))
                results[method, kind] = result
        show.status = ""
        show.draw()
    if not console.is_terminal:
        console.print(show.picture())
    console.print(_table(results, console.width))
    console.print(
        "offline: the final ranker on held-out queries; online: the lists that users were shown on"
        " the way."
    )
    if any(result.found for result in results.values()):
        console.print(
            f"Some runs were finished before and not repeated; delete {out} to see them anew."
        )
    picture = out / "curves.svg"
    title, axes = (
        "Learning to rank from clicks",
        ("interactions", "offline nDCG@10 (embedded data)"),
    )
    write_whole(picture, svg_chart(title, *axes, show.panels()))
    console.print(
        f"{time.perf_counter() - began:.0f} s in all. Picture: {picture}   Runs: {out / 'runs'}"
    )


def _table(results: dict[tuple[str, str], Result], width: int) -> Table:
    made = next(iter(results.values())).final["interactions"]
    table = Table(title=f"nDCG@10 after {made:,} interactions each", title_justify="left")
    for name in ("clicks", "method", "offline", "online", "updates", "seconds")[
        : 6 if width >= 80 else 4
    ]:
        table.add_column(
            name, justify="left" if name in ("clicks", "method") else "right", no_wrap=True
        )
    for (method, kind), result in results.items():
        final = result.final
        online = float(np.mean(result.curve("online_ndcg@10").values))
        updates = final["rounds"] if method == METHODS[0] else final["interactions"]
        row = (
            kind,
            method,
            f"{final['ndcg@10']:.3f}",
            f"{online:.3f}",
            f"{updates:,}",
            f"{final['seconds']:.1f}",
        )
        table.add_row(*row[: len(table.columns)], end_section=method == METHODS[-1])
    return table
