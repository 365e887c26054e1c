"""`foltr demo --devices`: people search their own manuals, and their devices learn together."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from foltr.errors import require
from foltr.federated import required
from foltr.system.files import write_whole, writing

if TYPE_CHECKING:
    from rich.console import Console

    from foltr.device.story import Person

SIMULATED, FEW = 200, 5  # devices with noise
NOISE = 10.0  # of `Gaussian`, for all of them together


def demo_devices(out: Path, seed: int, open_pages: bool) -> None:
    required()
    from rich.console import Console

    from foltr.device.story import ROUNDS, SEARCHES, Story, people_of
    from foltr.runs.interruptions import on_signals

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
