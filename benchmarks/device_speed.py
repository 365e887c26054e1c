"""What does searching on a device cost? Real manuals, indexed and searched as a device does it.

Run: python benchmarks/device_speed.py [--manuals FOLDER] [--pages 20000]. Takes Debian's manuals
from FOLDER, and downloads what is not there (needs apt-get); pages are generated if there are
none to be had, and the table says so. Queries are the texts of links between the pages. The pages
are linked or copied to a temporary folder, where the index is, too. Prints one table, and ends
with one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from foltr.core.ranking import best_first
from foltr.core.seeds import stream
from foltr.core.system import web
from foltr.core.system.files import cache_folder
from foltr.core.system.process import usage
from foltr.device import indexing
from foltr.device import searching as features
from foltr.device.click_log import ClickLog, LoggedSearch
from foltr.device.demo.anchors import AnchorQuery, links_between, queries_from
from foltr.device.demo.generated_manuals import OBJECTS, generated
from foltr.device.demo.manuals import fetch, pages_of
from foltr.device.index import Index
from foltr.device.learning import START, LocalRanker
from foltr.device.query import parsed
from foltr.device.searching import Search, candidates, search, slots_of
from foltr.device.snippets import snippet
from foltr.device.tokens import id_of
from foltr.device.walking import find

# the manuals of a study
MANUALS = Path(__file__).parent.parent / "reproduce" / "device_manuals.json"
QUERIES = 1000  # at most
LEARNED = 200  # searches that are learned from
CHANGED = 20  # pages that are changed
SHOWN = 10  # results with a snippet
SETTLED, IDLE = 15.0, 60.0  # seconds after the page has started, and in which nobody searches
STAGES = ("slots", "candidates", "forward", "features", "ranking", "snippets")


@dataclass
class Clock:
    """CPU seconds and seconds of what was measured, by name."""

    cpu: dict[str, list[float]] = field(default_factory=dict)
    wall: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu.setdefault(name, []).append(time.process_time() - cpu)
        self.wall.setdefault(name, []).append(time.perf_counter() - wall)

    def milliseconds(self, name: str) -> dict[str, float]:
        """Median and 95th percentile."""
        found = {}
        for kind, seconds in (("cpu", self.cpu[name]), ("wall", self.wall[name])):
            p50, p95 = 1e3 * np.percentile(seconds, [50, 95])
            found |= {f"{kind} p50": round(float(p50), 2), f"{kind} p95": round(float(p95), 2)}
        return found


def manuals_in(folder: Path, wanted: int) -> tuple[dict[str, list[Path]], str]:
    """The pages of manuals, by the folders of the manuals, and what they are."""
    found: dict[str, list[Path]] = {}
    for people in json.loads(MANUALS.read_text()).values():
        if sum(map(len, found.values())) < wanted:
            packages = [package for own in people.values() for package in own]
            places = fetch(packages, folder, lambda text: print(f"  {text}", flush=True))
            found |= {str(place): pages_of(place) for place in places.values()}
    if any(found.values()):
        return found, "Debian's manuals"
    seed = 0
    while sum(map(len, found.values())) < wanted:
        for person in OBJECTS:
            place = generated(folder, person, seed)
            found[str(place)] = pages_of(place)
        seed += 1
    return found, "GENERATED pages: no manual could be had, and these say little about real ones"


def placed(manuals: Mapping[str, Sequence[Path]], most: int, folder: Path) -> list[list[Path]]:
    """Put the pages below a folder, in folders as they were. At most `most` of them."""
    made, left = [], most
    for number, (manual, pages) in enumerate(manuals.items()):
        place = folder / f"{number:02}-{Path(manual).name}"
        own = [place / page.relative_to(manual) for page in pages[:left]]
        for page, new in zip(pages, own, strict=False):
            new.parent.mkdir(parents=True, exist_ok=True)
            copied(page, new)
        left -= len(own)
        made.append(own)
    return made


def copied(page: Path, new: Path) -> None:
    try:
        os.link(page, new)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(page, new)


def measure_indexing(index: Index, folder: Path) -> dict[str, float]:
    begun = time.process_time()
    index.set_roots([folder])
    work = indexing.update(index, [folder])
    seconds = time.process_time() - begun
    index.truncate_log(10_000)
    assert index.path is not None
    megabytes = index.path.stat().st_size / 1e6
    return {
        "pages": work.documents,
        "pages per CPU second": round(work.documents / seconds, 1),
        "MB per 1,000 pages": round(1e3 * megabytes / work.documents, 2),
    }


def staged(index: Index, text: str, clock: Clock) -> Search:
    """`search`, ranking and snippets, step by step."""
    query = parsed(text)
    with clock.measuring("slots"):
        slots = slots_of(index, query)
    with clock.measuring("candidates"):
        ids = candidates(index, query, slots)
    with clock.measuring("forward"):
        docs = index.forward(ids)
        about = tuple(index.documents(doc.id for doc in docs).values())
    with clock.measuring("features"):
        words = np.array([id_of(term) for term in query.terms], np.uint32)
        found = features.Candidates(slots, words, docs, about, index.statistics())
        scaled = features.scaled(features.raw_features(found))
    made = Search(query, slots, about, tuple(docs), scaled)
    with clock.measuring("ranking"):
        first = ranked(made)
    with clock.measuring("snippets"):
        shown(index, made, first)
    return made


def ranked(found: Search) -> list[int]:
    """The first places by a linear ranker."""
    params = START.init(len(features.NAMES), stream(0))
    scores = START.scores(params, found.features)
    return best_first(scores, SHOWN, stream(0)).tolist()


def shown(index: Index, found: Search, first: Sequence[int]) -> None:
    for place in first:
        snippet(index, found.forward[place], found.slots)


def measure_search(
    index: Index, queries: Sequence[AnchorQuery], clock: Clock
) -> tuple[dict[str, float], float]:
    """The share of each stage, and the share of queries with a target among the candidates."""
    hits = 0
    for query in queries:  # also fills the caches of the operating system
        found = staged(index, query.text, clock)
        targets = {str(page) for page in query.relevant}
        hits += any(document.path in targets for document in found.documents)
    for query in queries:
        with clock.measuring("search"):
            whole = search(index, parsed(query.text))
            shown(index, whole, ranked(whole))
    same = np.allclose(whole.features, found.features, atol=1e-3)  # the time has changed
    assert same, "the stages are not those of `search`"
    seconds = {stage: sum(clock.cpu[stage]) for stage in STAGES}
    shares = {stage: round(seconds[stage] / sum(seconds.values()), 3) for stage in STAGES}
    return shares, round(hits / len(queries), 3)


def measure_learning(index: Index, queries: Sequence[AnchorQuery], clock: Clock) -> None:
    """The user clicks the first target of each list."""
    log = ClickLog(index.path)
    ranker = LocalRanker(log)
    for number, query in enumerate(queries):
        found = search(index, parsed(query.text))
        order = ranker.order(found.features)
        targets = {str(page) for page in query.relevant}
        wanted = [found.documents[place].path in targets for place in order.ranking]
        ids = np.array([document.id for document in found.documents])
        epoch, clicks = ranker.epoch.epoch, np.array(wanted, bool)
        shown_list = found.features, order.ranking, order.teams, clicks
        made = LoggedSearch(0, float(number), query.text, epoch, order.shown_by, ids, *shown_list)
        logged = log.add(made)
        with clock.measuring("learning step"):
            ranker.learn(logged)
        ranker.begin_epoch_if_full()
    log.close()


def measure_change(index: Index, folder: Path, pages: Sequence[Path], clock: Clock) -> None:
    """From the call that reads a changed page until a search finds it by a new word."""
    for number, page in enumerate(pages):
        content, word = page.read_bytes(), f"foltrbenchmark{number}x"
        page.unlink()  # it may be linked to the manual
        page.write_bytes(content + f"<p>{word}</p>".encode())
        changed = find(page, [folder])
        assert changed is not None
        with clock.measuring("changed page found"):
            indexing.update_file(index, changed)
            found = search(index, parsed(word))
        assert [document.path for document in found.documents] == [str(page)]


def measure_page(folder: Path, queries: Sequence[AnchorQuery]) -> dict[str, float]:
    """The process of the page, on the same index: its memory, what it takes while nobody searches,
    and a search by HTTP as the page makes it."""
    words = ["-m", "foltr", "device", "search", "--no-open", "--home", str(folder)]
    page = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert page.stdout is not None
        address, _, token = page.stdout.readline().split()[-1].partition("#")
        time.sleep(SETTLED)  # it looks through its folders first
        first = usage(page.pid)
        time.sleep(IDLE)
        idle = usage(page.pid)
        seconds = []
        for query in queries:
            asked = urllib.request.Request(
                f"{address}api/search?{urllib.parse.urlencode({'q': query.text})}",
                headers={web.TOKEN: token, "Sec-Fetch-Site": "same-origin"},
            )
            begun = time.perf_counter()
            urllib.request.urlopen(asked).read()
            seconds.append(time.perf_counter() - begun)
        last = usage(page.pid)
    finally:
        page.send_signal(signal.SIGINT)
        page.wait()
    if first.cpu_seconds is None or idle.cpu_seconds is None or last.cpu_seconds is None:
        return {}  # this system does not say what a process uses
    p50, p95 = 1e3 * np.percentile(seconds, [50, 95])
    busy = 1e3 * (last.cpu_seconds - idle.cpu_seconds) / len(queries)
    return {
        "MB at the beginning": round((first.resident_bytes or 0) / 1e6),
        f"MB after {len(queries):,} searches": round((last.resident_bytes or 0) / 1e6),
        "idle, CPU seconds per hour": round(
            3600.0 * (idle.cpu_seconds - first.cpu_seconds) / IDLE, 1
        ),
        "search by HTTP, ms p50": round(float(p50), 1),
        "search by HTTP, ms p95": round(float(p95), 1),
        "search by HTTP, CPU ms": round(busy, 1),
    }


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many items, from all parts of a sequence."""
    return [items[i] for i in np.linspace(0, len(items) - 1, min(most, len(items))).astype(int)]


def measured(place: Path, manuals: Mapping[str, Sequence[Path]], most: int) -> dict[str, Any]:
    folder, clock = place / "pages", Clock()
    pages = placed(manuals, most, folder)
    queries = spread(
        [query for own in pages for query in queries_from(links_between(own), own)], QUERIES
    )
    started = usage().resident_bytes or 0
    index = Index(place / "index.db")
    of_indexing = measure_indexing(index, folder)
    indexed = usage().resident_bytes or 0
    shares, recall = measure_search(index, queries, clock)
    measure_learning(index, queries[:LEARNED], clock)
    every = [page for own in pages for page in own]
    measure_change(index, folder, spread(every, CHANGED), clock)
    index.close()
    page = measure_page(place, queries)
    times = ("search", "learning step", "changed page found")
    memory = {"start": started, "indexed": indexed, "end": usage().resident_bytes or 0}
    return {
        "indexing": of_indexing,
        "queries": len(queries),
        "target among the candidates": recall,
        "ms": {name: clock.milliseconds(name) for name in times},
        "share of a search": shares,
        "page": page,
        "MB of memory": {name: round(size / 1e6) for name, size in memory.items()},
    }


def lines(found: Mapping[str, Any]) -> list[str]:
    """The table."""
    of_times = [
        f"{name:28}" + "".join(f"{value:10.2f}" for value in times.values())
        for name, times in found["ms"].items()
    ]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in found["share of a search"].items())
    memory = ", ".join(f"{size} {name}" for name, size in found["MB of memory"].items())
    return [
        f"pages: {found['pages']}",
        *(f"{name:28}{value:10,}" for name, value in found["indexing"].items()),
        f"{'queries':28}{found['queries']:10,}",
        f"{'target among candidates':28}{found['target among the candidates']:10.1%}",
        f"{'ms':28}" + "".join(f"{name:>10}" for name in next(iter(found["ms"].values()))),
        *of_times,
        f"share of a search: {shares}",
        f"MB of memory: {memory}",
        *(f"page: {name:28}{value:10,}" for name, value in found["page"].items()),
    ]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--manuals", type=Path, default=cache_folder("benchmarks") / "manuals")
    options.add_argument("--pages", type=int, default=20_000, help="at most")
    given = options.parse_args()
    manuals, what = manuals_in(given.manuals.resolve(), given.pages)
    with TemporaryDirectory() as place:
        found = {"pages": what, **measured(Path(place).resolve(), manuals, given.pages)}
    print("\n".join(lines(found)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
