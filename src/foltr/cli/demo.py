"""`foltr demo`: federated and centralised learning side by side, on built-in data, in a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr.cli.tools import Seed, Threads

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from foltr.cli.chart import Panel, Series
    from foltr.core import Array
    from foltr.experiment import Experiment
    from foltr.simulation.runs.result import Progress, Result

KINDS = ("perfect", "navigational", "informational")
METHODS = ("FPDGD (100 clients)", "PDGD (centralised)")
CLIENTS, SESSIONS, ROUNDS = 100, 4, 1000
POINTS = 50  # on a curve
NARROW = 60  # columns of a terminal that are too few for the table with lines


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the runs.")] = Path(
        "foltr-demo"
    ),
    seed: Seed = 1,
    threads: Threads = 2,
    federation: Annotated[
        bool,
        typer.Option(
            "--federation",
            help="Run a federation of processes instead: a server and five nodes on this machine,"
            " one of them malicious. Takes about 90 seconds; needs the extra `deploy`.",
        ),
    ] = False,
    devices: Annotated[
        bool,
        typer.Option(
            "--devices",
            help="Run search engines of six people instead, who learn together and join late, on"
            " manuals that are downloaded from Debian's packages or generated. Takes about three"
            " minutes; needs the extras `deploy` and `device`.",
        ),
    ] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="With --devices: end without opening the pages.")
    ] = False,
) -> None:
    """Train a ranker with 100 simulated clients, and compare it with centralised learning.

    It takes less than a minute (90 seconds with --federation) and uses built-in data."""
    if federation or devices:
        from foltr.deployment import required

        required()
        if federation:
            from foltr.cli.demo_federation import demo_federation

            demo_federation(out, seed)
        else:
            from foltr.cli.demo_devices import demo_devices

            demo_devices(out, seed, not no_open)
        return
    from contextlib import nullcontext
    from functools import partial

    from rich.console import Console

    from foltr.cli.chart import svg_chart
    from foltr.core.system.files import write_whole, writing
    from foltr.simulation.runs.execution import compiling_notice

    console = Console()
    show, began, results = Show(console), time.perf_counter(), {}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    console.print(
        "100 clients learn to rank from clicks. Queries, documents and clicks stay on the clients."
    )
    console.print("The data is synthetic, in the shape of MQ2007.\n")
    if notice := compiling_notice():
        console.print(notice)
    with show.live if console.is_terminal else nullcontext():
        for kind in KINDS:
            for method in METHODS:
                show.status = f"running {method} with {kind} clicks ..."
                show.draw()
                watch = partial(show.watch, method=method, kind=kind)
                result = experiment(method, kind, seed).run(out / "runs", threads, watch=watch)
                show.add(method, kind, *result.curve("ndcg@10"))
                results[method, kind] = result
        show.status = ""
        show.draw()
    if not console.is_terminal:
        console.print(show.picture())
    console.print(_table(results, console.width))
    console.print(
        "offline: the final ranker on held-out queries; online: the lists shown to users during"
        " training."
    )
    if any(result.found for result in results.values()):
        console.print(
            f"Some runs were finished before and not repeated. Delete {out} to run them again."
        )
    figure = out / "curves.svg"
    axes = ("interactions", "offline nDCG@10 (built-in data)")
    write_whole(figure, svg_chart("Learning to rank from clicks", *axes, show.panels()))
    console.print(
        f"{time.perf_counter() - began:.0f} s in total. Figure: {figure}   Runs: {out / 'runs'}"
    )


def experiment(method: str, kind: str, seed: int) -> Experiment:
    """Both methods see the same number of interactions. Centralised PDGD is one client that
    updates after each of its sessions; the number of sessions in its rounds only sets how often
    the ranker is evaluated."""
    from foltr.components.learners.pdgd import PDGD
    from foltr.components.users.cascade import Cascade
    from foltr.experiment import Experiment

    clients, sessions = (CLIENTS, SESSIONS) if method == METHODS[0] else (1, CLIENTS * SESSIONS)
    users, learner = Cascade(kind=kind), PDGD(sessions=sessions)  # type: ignore[arg-type]
    return Experiment(
        users=users, learner=learner, clients=clients, rounds=ROUNDS, evaluate_every=1, seed=seed
    )


def thinned(interactions: Array, values: Array) -> tuple[Array, Array]:
    """Means over intervals of equal length on a logarithmic axis: late evaluations are many and
    noisy."""
    import numpy as np

    edges = np.geomspace(interactions[0], interactions[-1] + 1, POINTS + 1)
    part = np.searchsorted(edges, interactions, side="right")
    counts = np.bincount(part)
    kept = counts > 0
    return (
        np.bincount(part, interactions)[kept] / counts[kept],
        np.bincount(part, values)[kept] / counts[kept],
    )


class Show:
    """The learning curves of all runs so far, drawn again while they grow."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

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

    def add(self, method: str, kind: str, rounds: Array, values: Array) -> None:
        from foltr.cli.chart import Series

        if len(rounds) > 1:  # a logarithmic axis has no round 0
            interactions = rounds[1:] * CLIENTS * SESSIONS
            self.curves[method, kind] = Series(method, *thinned(interactions, values[1:]))

    def panels(self) -> list[Panel]:
        from foltr.cli.chart import Panel

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
        from rich.columns import Columns
        from rich.console import Group
        from rich.text import Text

        from foltr.cli.chart import AXIS, CHART, MARKS, bounds, text_chart

        panels = self.panels()
        legend = "   ".join(
            f"{mark} {method}" for mark, method in zip(MARKS, METHODS, strict=False)
        )
        room = max(10, min(CHART, self.console.width - AXIS))
        drawn = [text_chart(panel, bounds(panels), room) for panel in panels]
        charts = Columns(drawn, padding=(0, 2))
        each = CLIENTS * SESSIONS
        title = f"offline nDCG@10 after {each:,} to {each * ROUNDS:,} interactions, logarithmic"
        return Group(Text(title), Text(legend), charts, Text(self.status, style="dim"))


def _table(results: dict[tuple[str, str], Result], width: int) -> Table:
    from rich.table import Table

    made = next(iter(results.values())).final["interactions"]
    title = {"title": f"nDCG@10 after {made:,} interactions each", "title_justify": "left"}
    narrow = width < NARROW  # then without lines, and with short names of the methods
    plain = {"box": None, "pad_edge": False} if narrow else {}
    table = Table(**title, **plain)  # type: ignore[arg-type]
    for name in ("clicks", "method", "offline", "online", "updates", "seconds")[
        : 6 if width >= 80 else 4
    ]:
        text = name in ("clicks", "method")
        table.add_column(  # names are broken where there is no room; numbers never are
            name, justify="left" if text else "right", no_wrap=not text, overflow="fold"
        )
    for (method, kind), result in results.items():
        final = result.final
        online = float(result.curve("online_ndcg@10").values.mean())
        updates = final["rounds"] if method == METHODS[0] else final["interactions"]
        row = (
            kind,
            method.partition(" ")[0] if narrow else method,
            f"{final['ndcg@10']:.3f}",
            f"{online:.3f}",
            f"{updates:,}",
            f"{final['seconds']:.1f}",
        )
        table.add_row(*row[: len(table.columns)], end_section=method == METHODS[-1])
    return table
