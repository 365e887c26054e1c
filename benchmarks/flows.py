"""How many functions and files of foltr a flow passes, counted while it runs.

    python benchmarks/flows.py [--source SRC] [--flow NAME ...]

The flows:

    click       a simulated click: from one search of a client to its next one, in the debug engine
    device      a real click: on the page of `foltr device search` a list is looked at, a document
                is opened, and the list of the next search is looked at; then the click is learned
    round       a round between a server and its nodes, in all processes of a demonstration
    cell        a line of a sweep file to a cell of a table: `foltr sweep`, then `foltr report`
    privacy     `foltr privacy` with a privacy mechanism and attackers

Each flow is driven from outside, by public names, commands and requests, so that any version of
foltr can be counted: SRC is the `src` folder of another checkout. Every process gets a profiler
(`sitecustomize`) that notes each call of a function whose file is below SRC. A function counts
once; functions within functions, lambdas and comprehensions count as the function around them;
code that runs at import does not count. A crossing is a function of one file that calls a function
of another; it counts once."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WAIT_SECONDS = 120.0
PROFILER = """
import atexit, json, os, sys, threading
SOURCE, FOLDER = os.environ["FLOW_SOURCE"] + "/foltr/", os.environ["FLOW_FOLDER"]
MARKER, FLAG = os.environ.get("FLOW_MARKER"), os.environ.get("FLOW_FLAG")
functions, crossings, marked = set(), set(), [0]

def recording():
    return (not MARKER or marked[0] == 2) and (not FLAG or os.path.exists(FLAG))

def profile(frame, event, argument):
    if event != "call":
        return
    code = frame.f_code
    if not code.co_filename.startswith(SOURCE) or not code.co_flags & 1:
        return
    name = code.co_qualname.split(".<locals>")[0]
    if MARKER and name in MARKER.split(","):
        marked[0] += 1
    if not recording():
        return
    functions.add((code.co_filename[len(SOURCE):], name))
    caller = frame.f_back.f_code.co_filename if frame.f_back else ""
    if caller.startswith(SOURCE) and caller != code.co_filename:
        place = caller[len(SOURCE):], frame.f_back.f_code.co_qualname.split(".<locals>")[0]
        crossings.add((*place, code.co_filename[len(SOURCE):], name))

def write():
    sys.setprofile(None)
    with open(f"{FOLDER}/{os.getpid()}.json", "w") as file:
        json.dump({"functions": sorted(functions), "crossings": sorted(crossings)}, file)

atexit.register(write)
threading.setprofile(profile)
sys.setprofile(profile)
"""


class Flow:
    """The processes of one flow, and what they passed."""

    def __init__(
        self, source: Path, folder: Path, marker: str = "", by_flag: bool = False
    ) -> None:
        self.folder, self.flag = folder, folder / "record"
        site, self.counts = folder / "site", folder / "counts"
        site.mkdir()
        self.counts.mkdir()
        (site / "sitecustomize.py").write_text(PROFILER)
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{site}{os.pathsep}{source}",
            "FLOW_SOURCE": str(source),
            "FLOW_FOLDER": str(self.counts),
            "FLOW_MARKER": marker,
            "FLOW_FLAG": str(self.flag) if by_flag else "",
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> None:
        process = self.start(*words)
        output, _ = process.communicate(timeout=600)
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{output}")

    def passed(self) -> tuple[set[tuple[str, str]], int]:
        functions: set[tuple[str, str]] = set()
        crossings: set[tuple[str, ...]] = set()
        for file in self.counts.iterdir():
            count = json.loads(file.read_text())
            functions |= {tuple(each) for each in count["functions"]}
            crossings |= {tuple(each) for each in count["crossings"]}
        return functions, len(crossings)


def click(source: Path, folder: Path) -> Flow:
    flow = Flow(source, folder, marker="SimulatedUser.session")
    flow.run(
        "-c",
        "import foltr\n"
        "foltr.Experiment(data='Synthetic(queries=20)', learner='PDGD(sessions=4)', clients=1,"
        " rounds=1).run(engine='debug')",
    )
    return flow


def device(source: Path, folder: Path) -> Flow:
    flow = Flow(source, folder, by_flag=True)
    documents, home = folder / "documents", str(folder / "home")
    documents.mkdir()
    for i in range(12):
        text = f"# Note {i} about gardens\n\n{'garden ' * (i + 1)}and other words.\n"
        (documents / f"note-{i}.md").write_text(text)
    flow.run("-m", "foltr", "device", "index", str(documents), "--home", home)
    process = flow.start("-m", "foltr", "device", "search", "--no-open", "--home", home)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        address, _, token = first.removeprefix("search: ").strip().partition("#")
        if not address.startswith("http"):
            raise SystemExit(f"foltr device search said {first!r}")

        def api(name: str, body: dict[str, object] | None = None) -> dict[str, object]:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(f"{address}api/{name}", data)
            request.add_header("X-Foltr-Token", token)
            request.add_header("Content-Type", "application/json")
            request.add_header("Sec-Fetch-Site", "same-origin")
            with urllib.request.urlopen(request, timeout=60) as reply:
                return dict(json.load(reply))

        for recorded in (False, True):  # the first click loads what is loaded once
            answer = api("search?q=garden")
            results = answer["results"]
            assert isinstance(results, list)
            if recorded:
                flow.flag.touch()
            api("look", {"list": answer["list"]})
            api("open", {"list": answer["list"], "id": str(results[2]["id"]), "how": "preview"})
            following = api("search?q=other+words")
            api("look", {"list": following["list"]})  # the search before is over: it is learned
            time.sleep(2.0)
            flow.flag.unlink(missing_ok=True)
    finally:
        process.terminate()
        process.wait(30)
    return flow


def between_machines(source: Path, folder: Path) -> Flow:
    flow = Flow(source, folder, marker="Server.step,Local.collect")
    flow.run("-m", "foltr", "demo", "--federation")
    return flow


def cell(source: Path, folder: Path) -> Flow:
    flow = Flow(source, folder)
    (folder / "sweep.toml").write_text(
        'data = "Synthetic(queries=20)"\nclients = 2\nrounds = 20\n[sweep]\nseed = [1, 2]\n'
        '[[sweep.method]]\nname = "one"\n[[sweep.method]]\nname = "two"\noptimizer = "Adam()"\n'
    )
    flow.run("-m", "foltr", "sweep", "sweep.toml", "--out", "runs", "--jobs", "1")
    flow.run("-m", "foltr", "report", "runs")
    return flow


def privacy(source: Path, folder: Path) -> Flow:
    flow = Flow(source, folder)
    (folder / "private.toml").write_text(
        'data = "Synthetic(queries=20)"\nclients = 40\nparticipation = 0.5\nrounds = 50\n'
        'privacy = "Gaussian(noise=2.0, clip=1.0)"\nattack = "LittleIsEnough()"\nmalicious = 2\n'
    )
    flow.run("-m", "foltr", "privacy", "private.toml")
    return flow


FLOWS: dict[str, Callable[[Path, Path], Flow]] = {
    "click": click,
    "device": device,
    "round": between_machines,
    "cell": cell,
    "privacy": privacy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    parser.add_argument("--flow", nargs="*", choices=FLOWS, default=list(FLOWS))
    parser.add_argument("--names", action="store_true", help="print the functions of each flow")
    options = parser.parse_args()
    print(f"{'flow':10}{'functions':>10}{'files':>8}{'crossings':>11}")
    for name in options.flow:
        with tempfile.TemporaryDirectory() as folder:
            flow = FLOWS[name](options.source.resolve(), Path(folder))
            functions, crossings = flow.passed()
            files = {file for file, _ in functions}
            print(f"{name:10}{len(functions):>10,}{len(files):>8,}{crossings:>11,}", flush=True)
            if options.names:
                for file, function in sorted(functions):
                    print(f"    {file} {function}")


if __name__ == "__main__":
    main()
