"""`foltr demo --federation`: run a federation of processes, and show it as text and a figure."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

from foltr.errors import require
from foltr.federated import required
from foltr.system.files import write_whole, writing


def demo_federation(out: Path, seed: int) -> None:
    required()
    from rich.console import Console

    from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart
    from foltr.runs.interruptions import on_signals
    from foltr.serving.demonstration import ATTACKER, LEAVER, ROUNDS, demonstrate

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
