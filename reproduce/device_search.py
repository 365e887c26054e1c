"""The study of device search: what a person gets from a device that learns from clicks, alone or
with others. `device_study.py` says what is simulated and measured.

    python reproduce/device_search.py five docs packages --out runs/device-search --check

Test beds are made from manuals and package descriptions, which apt-get downloads, and from text
collections below FOLTR_DATA (`device_study_data.py`). Every run is one JSON file in the
output folder. What is there already is not run again, so that an interrupted study goes on where
it was. At the end all tables are printed as Markdown, and stored as tables.md and results.csv.
With --check the exit code is 1 if a claim about one of the beds does not hold."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from device_study import CLICKS, FROM_CLICKS, METHODS, Run, settings_of
from device_study_data import BEDS, Bed, load_bed

from foltr.core.errors import Mistake, require
from foltr.core.system.files import cache_folder, data_folders, write_whole, writing
from foltr.core.system.tables import Tidy
from foltr.core.system.terminal import LivePanel, progress_bar
from foltr.device.demo.simulated import AFTER

COMPARED = (
    "bm25", "local", "fedavg", "personal", "personal-unguarded", "newcomer", "pooled", "prior",
    "local-from-prior", "personal-from-prior", "local-exploring", "ranking-svm", "lambda-mart",
)  # fmt: skip
ALSO = {  # on one bed only
    "tuning": tuple(name for name in METHODS if name.startswith("clip-")),
    "five": tuple(name for name in METHODS if name.startswith("private-")),
}
NO_CLICKS = "none"


@dataclass(frozen=True)
class Folders:
    out: Path
    beds: Path
    collections: Path | None


class Job(NamedTuple):
    """A run of the study, which is one file."""

    bed: str
    method: str
    clicks: str
    seed: int

    def file(self, out: Path) -> Path:
        return out / self.bed / f"{self.method}.{self.clicks}.{self.seed}.json"

    def identity(self, content: str) -> dict[str, Any]:
        """What a result depends on. A stored one with another identity is made again."""
        return {**self._asdict(), "content": content, "settings": settings_of(self.method)}


# --- runs ---


def jobs_of(bed: str, methods: Sequence[str], seeds: int) -> list[Job]:
    chosen = methods or (*COMPARED, *ALSO.get(bed, ()))
    return [
        Job(bed, method, clicks, seed)
        for seed in range(seeds)
        for method in chosen
        for clicks in (CLICKS if method in FROM_CLICKS else (NO_CLICKS,))
    ]


def stored(job: Job, out: Path, content: str) -> dict[str, Any] | None:
    """The outcome of a run that was made before; None if there is none."""
    try:
        found = json.loads(job.file(out).read_text())
        return found["outcome"] if found["identity"] == job.identity(content) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(job: Job, bed: Bed, out: Path) -> None:
    """Run, and store the outcome."""
    run = Run(bed, CLICKS.get(job.clicks, CLICKS["perfect"]), job.seed)
    found = {"identity": job.identity(bed.content), "outcome": METHODS[job.method](run).plain()}
    file = job.file(out)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(found, indent=1) + "\n")


def make_in_worker(work: tuple[Job, Folders]) -> Job:
    job, folders = work
    make(job, bed_in_worker(job.bed, folders), folders.out)
    return job


@cache
def bed_in_worker(name: str, folders: Folders) -> Bed:
    return load_bed(name, folders.beds, folders.collections, lambda *_: None)


def leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def making(work: Sequence[tuple[Job, Folders]], workers: int) -> Iterator[Iterator[Job]]:
    """Jobs as they are done, by several processes or, for one, by this one. Processes end with the
    context, also in the middle of their work."""
    if workers == 1:
        yield map(make_in_worker, work)
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of new processes, which share the machine
    with get_context("spawn").Pool(workers, leave_interrupts_to_the_parent) as pool:
        yield pool.imap_unordered(make_in_worker, work)


def run_all(jobs: Sequence[Job], contents: dict[str, str], folders: Folders, workers: int) -> None:
    """Run what is not stored yet."""
    left = [job for job in jobs if stored(job, folders.out, contents[job.bed]) is None]
    work = [(job, folders) for job in left]
    if not work:
        return
    with told() as tell, making(work, workers) as finished:
        for done, job in enumerate(finished, 1):
            tell(f"{job.bed}: {job.method}, {job.clicks} clicks, seed {job.seed}", done, len(left))


@contextmanager
def told() -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows progress on standard error."""
    with LivePanel(quiet=False, panel_seconds=0.1, line_seconds=5.0) as panel:

        def tell(what: str, done: int, total: int) -> None:
            if panel.due() or done == total:
                count = f" {done:,} of {total:,}" if total else ""
                panel.show(
                    lambda: f"{progress_bar(done, total, 30)}{count}  {what}",
                    lambda: f"{what}{count}",
                )

        yield tell


# --- tables ---


class Results:
    """The stored outcomes of some jobs."""

    def __init__(self, outcomes: Mapping[Job, dict[str, Any]]) -> None:
        self.outcomes = outcomes

    @classmethod
    def of(cls, jobs: Sequence[Job], contents: Mapping[str, str], out: Path) -> Results:
        found = [(job, stored(job, out, contents[job.bed])) for job in jobs]
        return cls({job: outcome for job, outcome in found if outcome is not None})

    def by_seed(self, bed: str, method: str, clicks: str) -> list[dict[str, Any]]:
        clicks = clicks if method in FROM_CLICKS else NO_CLICKS
        jobs = sorted(job for job in self.outcomes if job[:3] == (bed, method, clicks))
        require(bool(jobs), f"{method} was not run on {bed}: name it in --only, or leave that out")
        return [self.outcomes[job] for job in jobs]

    def devices(self, bed: str) -> list[str]:
        """The devices that all methods which are compared were measured on."""
        found = [
            outcome["devices"]
            for job, outcome in self.outcomes.items()
            if job.bed == bed and job.method in COMPARED
        ]
        return [name for name in found[0] if all(name in each for each in found)] if found else []

    def values(self, bed: str, method: str, clicks: str, what: str, n: int) -> np.ndarray:
        """(seeds, devices); empty if it was not measured. What was measured once, after 0
        searches, is the same after any number."""
        found = self.by_seed(bed, method, clicks)
        names = self.devices(bed) if method in COMPARED else found[0]["devices"]
        columns = [found[0]["devices"].index(name) for name in names]
        rows = [each[what].get(str(n), each[what].get("0")) for each in found]
        return np.array([[row[i] for i in columns] for row in rows if row is not None])

    def mean(self, bed: str, method: str, clicks: str, what: str, n: int) -> float:
        return float(self.values(bed, method, clicks, what, n).mean())

    def above(self, other: str, bed: str, method: str, clicks: str, n: int) -> float:
        """Held-out nDCG@10 minus that of another method."""
        one, two = (self.mean(bed, name, clicks, "held_out", n) for name in (method, other))
        return one - two


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(results: Results, bed: str) -> str:
    """All tables of a bed, in Markdown."""
    methods = list(dict.fromkeys(job.method for job in results.outcomes if job.bed == bed))
    seeds = len({job.seed for job in results.outcomes if job.bed == bed})
    held_out, gained = [], []
    for clicks in CLICKS:
        for method in (each for each in methods if each in COMPARED):
            spread = [results.values(bed, method, clicks, "held_out", n) for n in AFTER]
            held_out.append([clicks, method, *map(level, spread)])
            first = [results.values(bed, method, clicks, "gained", n) for n in AFTER]
            if any(each.size for each in first):
                gained.append([clicks, method, *map(gain, first)])
    after = [str(n) for n in AFTER]
    return (
        f"## {bed}\n\nMeasured on: {', '.join(results.devices(bed))}.\n\nHeld-out nDCG@10 after n"
        f" searches of each device: mean over devices and {seeds} seeds, ± standard deviation over"
        " seeds.\n\n"
        + table(["clicks", "method", *after], held_out)
        + "\nnDCG@10 of the first n lists shown, minus BM25's: mean / worst device, mean over"
        " seeds / worst device of any seed.\n\n"
        + table(["clicks", "method", *after], gained)
        + privacy_table(results, bed, methods)
    )


def privacy_table(results: Results, bed: str, methods: Sequence[str]) -> str:
    rows = []
    for method in (each for each in methods if each.startswith(("private-", "clip-"))):
        first = results.by_seed(bed, method, "navigational")[0]
        epsilon = "none" if first["epsilon"] is None else f"{first['epsilon']:.3f}"
        values = [results.values(bed, method, clicks, "held_out", 100) for clicks in CLICKS]
        rows.append([method, str(len(first["devices"])), epsilon, *map(level, values)])
    if not rows:
        return ""
    about = "\nTwo rounds of 50 searches, noise in shares, delta = 1e-5; held-out nDCG@10.\n\n"
    return about + table(["method", "devices", "epsilon", *CLICKS], rows)


def level(values: np.ndarray) -> str:
    if not values.size:
        return ""
    seeds = values.mean(axis=1)
    return f"{seeds.mean():.3f} ± {seeds.std(ddof=min(1, len(seeds) - 1)):.3f}"


def gain(values: np.ndarray) -> str:
    if not values.size:
        return ""
    return f"{values.mean():+.3f} / {values.mean(axis=0).min():+.3f} / {values.min():+.3f}"


def as_csv(results: Results) -> str:
    rows = []
    for job, outcome in sorted(results.outcomes.items()):
        for measure in ("held_out", "gained"):
            for n, values in outcome[measure].items():
                for device, value in zip(outcome["devices"], values, strict=True):
                    about = {**job._asdict(), "device": device, "measure": measure, "after": n}
                    rows.append({**about, "ndcg": value, "epsilon": outcome["epsilon"]})
    return Tidy.of(rows).csv()


# --- claims ---


class Claim(NamedTuple):
    """A statement that a value is at least so large. One that is at least -infinity is only
    shown."""

    text: str
    value: float
    least: float

    @property
    def holds(self) -> bool:
        return self.value >= self.least

    def __str__(self) -> str:
        if self.least == -np.inf:
            return f"for comparison: {self.text}: {self.value:+.4f}"
        says = "holds" if self.holds else "FAILS"
        return f"{says}: {self.text}: {self.value:+.4f}, at least {self.least:+.3f}"


def claims(results: Results, bed: str) -> list[Claim]:
    """The least values that the study must reach on a bed, for `--check`."""
    found = {"five": claims_on_five, "docs": claims_on_docs, "packages": claims_on_packages}
    return found[bed](results) if bed in found else []


def claims_on_five(results: Results) -> list[Claim]:
    found = []
    for clicks in ("navigational", "informational"):
        about, here = f"five, {clicks}", ("five", "personal", clicks)
        for n, least in ((20, 0.05), (100, 0.08)):
            value = results.above("bm25", *here, n)
            found.append(Claim(f"{about}: personal - BM25 after {n}", value, least))
        value = results.above("bm25", "five", "newcomer", clicks, 20)
        found.append(Claim(f"{about}: newcomer - BM25 after 20", value, 0.05))
        for n in AFTER:
            value = results.above("local", *here, n)
            least = 0.01 if n == 20 else -0.005
            found.append(Claim(f"{about}: personal - local after {n}", value, least))
        for n, least in ((10, 0.0), (50, 0.04)):
            value = results.mean(*here, "gained", n)
            found.append(Claim(f"{about}: shown - BM25 in the first {n}", value, least))
        value = results.mean("five", "private-200-noise-10", clicks, "held_out", 100)
        found.append(Claim(f"{about}: 200 devices, epsilon 1.06", value, 0.83))
    return found


def claims_on_docs(results: Results) -> list[Claim]:
    about, found = "docs, informational: worst device, shown - BM25 in its first 50", []
    for method, least in (("personal", -0.03), ("personal-unguarded", -np.inf)):
        values = results.values("docs", method, "informational", "gained", 50)
        worst = float(values.mean(axis=0).min())
        found.append(Claim(f"{about}, mean over seeds, {method}", worst, least))
        found.append(Claim(f"{about}, of any seed, {method}", float(values.min()), least))
    return found


def claims_on_packages(results: Results) -> list[Claim]:
    return [
        Claim(
            f"packages, {clicks}: shown - BM25 in the first {n}",
            results.mean("packages", "personal", clicks, "gained", n),
            -0.01,
        )
        for clicks in CLICKS
        for n in AFTER
    ]


# --- the command ---


def options() -> argparse.Namespace:
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("beds", nargs="+", metavar="BED", help=", ".join(BEDS))
    found.add_argument("--out", type=Path, default=Path("runs/device-search"))
    found.add_argument("--seeds", type=int, default=5)
    found.add_argument("--jobs", type=int, default=2, help="processes")
    found.add_argument("--only", default="", metavar="METHOD,...", help=", ".join(METHODS))
    found.add_argument("--check", action="store_true", help="exit with 1 if a claim fails")
    found.add_argument("--cache", type=Path, default=cache_folder("device-search"))
    found.add_argument("--collections", type=Path, help="the folder of the text collections")
    return found.parse_args()


def study(given: argparse.Namespace) -> bool:
    """Run, print and store everything. Returns whether all claims hold."""
    require(given.seeds >= 1, f"--seeds must be 1 or more, got {given.seeds}")
    require(given.jobs >= 1, f"--jobs must be 1 or more, got {given.jobs}")
    methods = [name for name in given.only.split(",") if name]
    for name in methods:
        settings_of(name)  # refuses an unknown one
    below = [folder / "collections" for folder in data_folders()]
    collections = given.collections or next((each for each in below if each.is_dir()), None)
    folders = Folders(given.out, given.cache, collections)
    contents = {}
    with told() as tell:
        for name in given.beds:
            contents[name] = load_bed(name, folders.beds, collections, tell).content
    jobs = [job for bed in contents for job in jobs_of(bed, methods, given.seeds)]
    run_all(jobs, contents, folders, given.jobs)
    results = Results.of(jobs, contents, given.out)
    text = "\n".join(tables(results, bed) for bed in contents)
    print(text)
    write_whole(given.out / "tables.md", text)
    write_whole(given.out / "results.csv", as_csv(results))
    if not given.check:
        return True
    found = [claim for bed in contents for claim in claims(results, bed)]
    print("\n".join(map(str, found)))
    return all(claim.holds for claim in found)


def main() -> int:
    try:
        return 0 if study(options()) else 1
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
