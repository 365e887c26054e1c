"""The picture and the tables of `docs/scale.md`, for `python benchmarks/gateway.py page`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from gateway_fit import Point, predicted, stored_points
from gateway_tables import all_lines

from foltr.core.system.files import write_whole
from foltr.deployment.planning.model import FILE, Constants, measured
from foltr.secure_sum.terms import LEAST, degree_and_quorum

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURE = DOCS / "scale.md", DOCS / "scale.svg"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
MARKERS = "os^Dv"
THREE = ("gateway", "server", "superlink")
SHOW = "python benchmarks/gateway.py show src/foltr/deployment/planning/measured.json"
BLOCK = re.compile(
    r"(```sh\n(?P<code>.*?)```\n\n(?:<!-- [^>]* -->\n)?```text\n)(?P<text>.*?)(```\n)", re.S
)


def at(p: Point, devices: int) -> Point:
    """The same case with another number of devices."""
    degree = 0
    if p.degree:
        least = max(devices // 2 + 1, ceil(LEAST * devices))
        degree, _ = degree_and_quorum(devices, least, False)
    return p._replace(devices=devices, degree=degree)


def sizes(points: Sequence[Point], most: int) -> list[int]:
    """Numbers of devices for a curve, evenly spaced on a logarithmic axis."""
    least = min(p.devices for p in points)
    found = {round(least * 10 ** (i / 10)) for i in range(200)}
    return sorted(n for n in found if n <= most)


def values(p: Point, costs: Constants) -> tuple[float, float]:
    """The model's CPU of gateway, server and SuperLink in a round, and its seconds. The CPU of a
    SuperLink that waits depends on the seconds, and so does how often the server asks who can be
    reached: at most once a second."""
    seconds = 1.0
    for _ in range(10):
        found = predicted(p._replace(seconds=seconds), costs, min(1.0, seconds))
        seconds = found["seconds"]
    return sum(found[name] for name in THREE), seconds


def draw() -> Path:
    """The model beside the measured points."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "foltr", "font.size": 9, "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    costs, measured_points = measured().constants, stored_points()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.9), layout="constrained")
    names = list(dict.fromkeys(p.name for p in measured_points))
    for name, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
        points = sorted((p for p in measured_points if p.name == name), key=lambda p: p.devices)
        most = points[-1].devices
        for panel, which in ((left, 0), (right, 1)):
            for ends, dashes in ((most, "-"), (100_000, ":")):
                grid = [n for n in sizes(points, ends) if ends == most or n >= most]
                curve = [values(at(points[-1], n), costs)[which] for n in grid]
                panel.plot(grid, curve, dashes, color=colour, linewidth=1.2)
            seen = [(sum(p.cpu[each] for each in THREE), p.seconds)[which] for p in points]
            panel.plot([p.devices for p in points], seen, marker, color=colour, label=name,
                       markersize=5)  # fmt: skip
    for panel, title in ((left, "CPU seconds of gateway, server, SuperLink"), (right, "seconds")):
        panel.set(
            xscale="log", yscale="log", xlabel="devices in a round", title=f"{title}, a round"
        )
        panel.grid(alpha=0.3)
    left.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE, metadata={"Date": None})
    return PICTURE


def rewrite() -> Path:
    """Replace what the page's commands print by what they print now."""

    def printed(found: re.Match[str]) -> str:
        return f"{found[1]}{output(found['code'].strip())}{found[4]}"

    write_whole(PAGE, BLOCK.sub(printed, PAGE.read_text(encoding="utf-8")))
    return PAGE


def output(command: str) -> str:
    """What a command of the page prints."""
    if command == SHOW:
        return "\n".join(all_lines(json.loads(FILE.read_text()))) + "\n"
    words = [sys.executable, "-m", *shlex.split(command.replace("\\\n", " "))]
    env = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(words, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout
