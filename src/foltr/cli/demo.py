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

import sys
import webbrowser
from shutil import rmtree
from typing import TYPE_CHECKING

from foltr.core.errors import require
from foltr.core.system.files import write_whole, writing
from foltr.deployment import required

if TYPE_CHECKING:
    from rich.console import Console

    from foltr.device.story import Person


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
    if federation:
        demo_federation(out, seed)
        return
    if devices:
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


# `foltr demo --devices`: people search their own manuals, and their devices learn together.

SIMULATED, FEW = 200, 5  # devices with noise
NOISE = 10.0  # of `Gaussian`, for all of them together


def demo_devices(out: Path, seed: int, open_pages: bool) -> None:
    required()
    from rich.console import Console

    from foltr.device.story import ROUNDS, SEARCHES, Story, people_of
    from foltr.simulation.runs.interruptions import on_signals

    console, folder = Console(), out / "devices"
    for part in ("people", "federation"):  # manuals are kept: they were downloaded
        if (folder / part).exists():
            made = (folder / "federation" / "server.toml").exists()
            require(made, f"{folder} was not made by this demonstration: give another --out")
            rmtree(folder / part)
    with writing(out):
        folder.mkdir(parents=True, exist_ok=True)

    def stopped(signum: int, frame: object) -> None:
        raise KeyboardInterrupt(f"stopped: all processes are ended; files are in {folder}")

    with on_signals(stopped):
        console.print("Fetching manuals for six people ...")
        people, source = people_of(folder, seed, console.print)
        console.print(f"Documents: {source}. Nothing of them leaves a device.\n")
        for person in people:
            person.command("index", str(folder / "people" / person.name / "documents"))
            person.measure()
            console.print(
                f"  {person.name:9} {len(person.pages):4} pages, {len(person.queries):4} searches"
                f" with known answers, BM25 nDCG@10 {person.plain:.3f}"
            )
        *five, late = people
        with Story(folder, people, seed, console.print) as story:
            console.print("\nA server, a gateway and five devices start on this machine.")
            for number in range(len(five)):
                story.join(number)
            curve = [(0.0, _mean(person.plain for person in five))]
            console.print("nDCG@10 of their own rankers on held-out searches, mean of five:")
            console.print(f"  BM25:                   {curve[0][1]:.3f}")
            for t in range(ROUNDS):
                story.round(t, five)
                curve.append(((t + 1.0) * SEARCHES, _mean(person.learned for person in five)))
                console.print(f"  after {curve[-1][0]:2.0f} searches each: {curve[-1][1]:.3f}")
            story.join(len(five))
            plain, learned = late.plain, late.learned
            console.print(
                f"\nA sixth person joins. nDCG@10 of this device before its first click:"
                f"\n  BM25 {plain:.3f}, with the others' model {learned:.3f}"
                f" ({learned - plain:+.3f})"
            )
            _tell_privacy(console, five, seed)
            _draw(console, out, curve, (plain, learned))
            _tell_pages(console, people, open_pages)


def _mean(values: object) -> float:
    import numpy as np

    return float(np.mean(list(values)))  # type: ignore[call-overload]


def _tell_privacy(console: Console, five: list[Person], seed: int) -> None:
    from foltr.device.story import CLICKS
    from foltr.device.study import CLIP, Run, private
    from foltr.device.study_data import Bed

    console.print(
        "\nThese five sent their updates without noise. Noise hides a person among the"
        "\nothers, and five are too few. The same searches, dealt to simulated devices"
        "\nbehind a secure sum:"
    )
    bed = Bed("story", tuple(person.device() for person in five), ())
    run = Run(bed, CLICKS, seed)
    rows = ((FEW, None), (FEW, NOISE), (SIMULATED, None), (SIMULATED, NOISE))
    for devices, noise in rows:
        found = private(run, devices, noise, CLIP)
        last = max(found.held_out)
        value = float(found.held_out[last].mean())
        told = "no noise" if found.epsilon is None else f"epsilon {found.epsilon:.2f}"
        console.print(f"  {len(found.devices):3} devices, {told:12} nDCG@10 {value:.3f}")
    console.print(
        "(epsilon of all that one person sends, delta 1e-5; 100 searches each. Each of the 200"
        "\nhas few searches to learn from, which it makes again and again.)"
    )


def _draw(
    console: Console, out: Path, curve: list[tuple[float, float]], late: tuple[float, float]
) -> None:
    import numpy as np

    from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart

    (_, plain), *rest = curve
    x, y = (np.array(each) for each in zip(*rest, strict=True))
    bm25 = np.full(len(x), plain)
    series = Series("their own rankers", x, y), Series("BM25", x, bm25)
    panel = Panel(f"the sixth person, at once: {late[1]:.3f} (BM25 {late[0]:.3f})", series)
    console.print("\nnDCG@10 on held-out queries, by searches of each person")
    console.print(text_chart(panel, bounds([panel])))
    figure = out / "devices.svg"
    axes = ("searches of each person", "held-out nDCG@10 (manuals)")
    write_whole(figure, svg_chart("", *axes, [panel]))
    console.print(f"figure: {figure}")


def _tell_pages(console: Console, people: list[Person], open_pages: bool) -> None:
    if not open_pages:
        return
    console.print("\nTheir search pages are open. Search, click, and look at Details:")
    for person in people:
        console.print(f"  {person.name:9} {person.address}", soft_wrap=True, highlight=False)
    for person in (people[0], people[-1]):
        webbrowser.open(person.address)
    console.print("Enter ends the demonstration.")
    sys.stdin.readline()


# `foltr demo --federation`: run a federation of processes, and show it as text and a figure.


def demo_federation(out: Path, seed: int) -> None:
    required()
    from rich.console import Console

    from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart
    from foltr.deployment.local.demonstration import ATTACKER, LEAVER, ROUNDS, demonstrate
    from foltr.simulation.runs.interruptions import on_signals

    console, folder = Console(), out / "federation"
    if folder.exists():
        made = (folder / "server.toml").exists()
        require(made, f"{folder} was not made by this demonstration: give another --out")
        rmtree(folder)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)

    def stopped(signum: int, frame: object) -> None:
        message = KeyboardInterrupt(f"stopped: all processes are ended; files are in {folder}")
        message.signum = signum  # type: ignore[attr-defined]
        raise message

    with on_signals(stopped):
        shown = demonstrate(folder, seed, console.print)
    labels = ("MultiKrum (this federation)", "mean (simulated)")
    curves = (shown.federation, shown.undefended)
    series = tuple(
        Series(label, c[:, 0], c[:, 1]) for label, c in zip(labels, curves, strict=True)
    )
    first, last = shown.forgotten
    title = f"{ATTACKER} is malicious; rounds {first} to {last}: {LEAVER} is unlearned"
    panel = Panel(title, series)
    console.print("nDCG@10 on held-out queries, by round")
    console.print(text_chart(panel, bounds([panel])))
    figure = out / "federation.svg"
    axes = ("round", "held-out nDCG@10 (built-in data)")
    write_whole(figure, svg_chart("", *axes, [panel]))
    final, without = shown.federation[-1, 1], shown.undefended[-1, 1]
    console.print(
        f"nDCG@10 after {ROUNDS} rounds: {final:.3f}, and {without:.3f} without the defence"
    )
    console.print(f"{shown.seconds:.0f} s in total. Figure: {figure}   Files: {folder}")
