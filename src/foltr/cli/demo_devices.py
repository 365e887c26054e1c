"""`foltr demo --devices`: five people search their own manuals, their devices learn together, and
a sixth one joins late.

Everything is a process of its own, as in real life: a server, a gateway, and for each person the
search page of a device. Scripted people search by the texts of hyperlinks and click what those
links lead to. They use the same requests as the page."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy2, rmtree
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from rich.console import Console

from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart
from foltr.components.users.cascade import Cascade
from foltr.core import Array
from foltr.core.errors import Mistake, require
from foltr.core.metrics import dcg
from foltr.core.seeds import stream
from foltr.core.spec import learners
from foltr.core.stepwise import stepwise
from foltr.core.system.files import write_whole, writing
from foltr.core.system.private import replace_private
from foltr.core.system.web import TOKEN
from foltr.deployment.local import GatewayDeployment, stoppable
from foltr.device.click_log import ClickLog
from foltr.device.demo.anchors import AnchorQuery, links_between, queries_from
from foltr.device.demo.generated_manuals import generated
from foltr.device.demo.manuals import fetch, pages_of
from foltr.device.demo.simulated import Crowd, Device, HeldOut, JudgedQuery, private
from foltr.device.home import CA, Home
from foltr.device.index import Index
from foltr.device.learning import START, LocalRanker
from foltr.device.query import parsed
from foltr.device.searching import NAMES, search
from foltr.experiment import Experiment

# the documentation that each person searches: small packages of Debian
MANUALS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("libvirt-doc",),
    "database": ("sqlite3-doc",),
    "web": ("python-django-doc",),
    "science": ("octave-doc",),
    "office": ("gimp-help-en",),
    "newcomer": ("debian-handbook", "debian-reference-en"),
}
SEARCHES, ROUNDS = 10, 5  # of each person in a round
MOST_PAGES = 900  # of a person
MEASURED = 100  # held-out queries of a person
CLICKS = Cascade("navigational")
LEARNER = (
    f"Personal(learner=PDGD(lr=0.1, sessions={SEARCHES}, explore=False), pull=0.05)"  # one message
)
SECONDS = 60.0  # in which a process must start, or a round end
CROWDS = ((5, None), (5, 10.0), (200, None), (200, 10.0))  # simulated devices, noise of `Gaussian`


def demo_devices(out: Path, seed: int, open_pages: bool) -> None:
    """Run the demonstration, and show it as text and a figure."""
    console, folder = Console(), out / "devices"
    for part in ("people", "federation"):  # manuals are kept: they were downloaded
        if (folder / part).exists():
            made = (folder / "federation" / "server.toml").exists()
            require(made, f"{folder} was not made by this demonstration: give another --out")
            rmtree(folder / part)
    with writing(out):
        folder.mkdir(parents=True, exist_ok=True)
    with stoppable(folder):
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
        with Federation(folder / "federation", people, seed) as federation:
            console.print("\nA server, a gateway and five devices start on this machine.")
            for number in range(len(five)):
                federation.join(number)
            plain = mean(person.plain for person in five)
            learned = []
            console.print("nDCG@10 of their own rankers on held-out searches, mean of five:")
            console.print(f"  BM25:                   {plain:.3f}")
            for t in range(ROUNDS):
                federation.round(t, five)
                learned.append(mean(person.learned for person in five))
                console.print(f"  after {(t + 1) * SEARCHES:2} searches each: {learned[-1]:.3f}")
            federation.join(len(five))
            late_plain, late_learned = late.plain, late.learned
            console.print(
                f"\nA sixth person joins. nDCG@10 of this device before its first click:"
                f"\n  BM25 {late_plain:.3f}, with the others' model {late_learned:.3f}"
                f" ({late_learned - late_plain:+.3f})"
            )
            tell_privacy(console, five, seed)
            searches = SEARCHES * np.arange(1.0, ROUNDS + 1.0)
            panel = Panel(
                f"the sixth person, at once: {late_learned:.3f} (BM25 {late_plain:.3f})",
                (
                    Series("their own rankers", searches, np.array(learned)),
                    Series("BM25", searches, np.full(ROUNDS, plain)),
                ),
            )
            console.print("\nnDCG@10 on held-out queries, by searches of each person")
            console.print(text_chart(panel, bounds([panel])))
            figure = out / "devices.svg"
            axes = ("searches of each person", "held-out nDCG@10 (manuals)")
            write_whole(figure, svg_chart("", *axes, [panel]))
            console.print(f"figure: {figure}")
            if open_pages:
                show_pages(console, people)


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def tell_privacy(console: Console, five: Sequence[Person], seed: int) -> None:
    console.print(
        "\nThese five sent their updates without noise. Noise hides a person among the"
        "\nothers, and five are too few. The same searches, dealt to simulated devices"
        "\nbehind a secure sum:"
    )
    crowd = Crowd([person.device() for person in five], CLICKS, seed)
    for devices, noise in CROWDS:
        found = private(crowd, devices, noise)
        value = float(found.held_out[max(found.held_out)].mean())
        told = "no noise" if found.epsilon is None else f"epsilon {found.epsilon:.2f}"
        console.print(f"  {len(found.places):3} devices, {told:12} nDCG@10 {value:.3f}")
    console.print(
        "(epsilon of all that one person sends, delta 1e-5; 100 searches each. Each of the 200"
        "\nhas few searches to learn from, which it makes again and again.)"
    )


def show_pages(console: Console, people: Sequence[Person]) -> None:
    console.print("\nTheir search pages are open. Search, click, and look at Details:")
    for person in people:
        console.print(f"  {person.name:9} {person.address}", soft_wrap=True, highlight=False)
    for person in (people[0], people[-1]):
        webbrowser.open(person.address)
    console.print("Enter ends the demonstration.")
    sys.stdin.readline()


@dataclass(eq=False)
class Person:
    """A person with a device."""

    name: str
    home: Home
    pages: list[Path]
    queries: list[AnchorQuery]
    seed: int
    process: subprocess.Popen[str] | None = None
    address: str = ""
    searched: int = 0
    judged: list[JudgedQuery] = field(default_factory=list)  # those that are measured

    @property
    def training(self) -> list[AnchorQuery]:
        return self.queries[: len(self.queries) // 2]

    @property
    def measured(self) -> list[AnchorQuery]:
        return self.queries[len(self.queries) // 2 :][:MEASURED]

    # --- the page's requests ---

    def ask(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> Any:
        """One request of the page, with its token."""
        where = urlsplit(self.address)
        headers = {
            "sec-fetch-site": "same-origin",
            TOKEN: where.fragment,
            "content-type": "application/json",
        }
        connection = http.client.HTTPConnection(where.netloc, timeout=SECONDS)
        try:
            body = None if content is None else json.dumps(content)
            connection.request(method, f"/api/{path}", body, headers)
            response = connection.getresponse()
            found = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise Mistake(f"{self.name}: {found.get('error')}")
        return found

    def search_once(self) -> None:
        """Search for the next query, and click as a navigational user does."""
        query = self.training[self.searched % len(self.training)]
        found = self.ask("GET", f"search?q={quote(query.text)}&typing=0")
        self.searched += 1
        if not found["results"]:
            return
        self.ask("POST", "look", {"list": found["list"]})
        grades = {str(page): grade for page, grade in query.relevant.items()}
        labels = np.array([grades.get(each["path"], 0) for each in found["results"]])
        clicks = CLICKS.clicks(labels, 3, stream(self.seed, "user", self.searched))
        for result in np.array(found["results"])[clicks]:
            self.ask("POST", "open", {"list": found["list"], "id": result["id"], "how": "preview"})

    # --- the process ---

    def foltr(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "foltr", "device", *words, "--home", str(self.home.folder)]

    def command(self, *words: str) -> None:
        done = subprocess.run(self.foltr(*words), capture_output=True, text=True)
        if done.returncode:
            raise Mistake(f"{self.name}: {done.stderr.strip() or done.stdout.strip()}")

    def start(self) -> None:
        words = self.foltr("search", "--no-open", "--update-every", "0", "--soon", "0.5")
        errors = open(self.home.folder / "page.log", "a")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("search: "):
            raise Mistake(f"{self.name}: the page did not start: see {self.home.folder}/page.log")
        self.address = line.partition(": ")[2].strip()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)

    # --- measuring, from outside ---

    def measure(self) -> None:
        """Compute the features of the held-out queries."""
        index = Index(self.home.index_file)
        for query in self.measured:
            made = search(index, parsed(query.text, typing=True))
            grades = {str(page): grade for page, grade in query.relevant.items()}
            labels = [grades.get(document.path, 0) for document in made.documents]
            if labels:
                ideal = dcg(np.array(sorted(grades.values(), reverse=True)[:10]))
                self.judged.append(JudgedQuery(made.features, np.array(labels, np.int8), ideal))
        index.close()

    def quality(self, params: Array) -> float:
        """nDCG@10 of these parameters on the held-out queries."""
        held_out = HeldOut.of(self.judged)
        scores = START.scores(params, held_out.features)
        return held_out.ndcg(scores, stream(self.seed, "ties"))

    @property
    def plain(self) -> float:
        return self.quality(START.init(len(NAMES), stream(0)))

    @property
    def learned(self) -> float:
        """nDCG@10 of this device's ranker, as its file has it."""
        log = ClickLog(self.home.index_file)
        try:
            return self.quality(LocalRanker(log, stepwise(learners.build(LEARNER))).weights)
        finally:
            log.close()

    def device(self) -> Device:
        """Its queries, for a simulation."""
        return Device(self.name, 3, tuple(self.judged), self.name)


def people_of(folder: Path, seed: int, tell: Callable[[str], None]) -> tuple[list[Person], str]:
    """Six people with manuals, and where the manuals come from."""
    found, sources = [], set[str]()
    for number, (name, packages) in enumerate(MANUALS.items()):
        places = list(fetch(packages, folder / "manuals", tell).values())
        sources.add("Debian's packages" if places else "generated")
        if not places:
            places = [generated(folder / "manuals" / f"generated-{name}", name, seed)]
        pages = [page for place in places for page in pages_of(place, MOST_PAGES)]
        queries = queries_from(links_between(pages), pages, seed=seed)
        own = copied(folder / "people" / name / "documents", places, pages)
        moved = [
            AnchorQuery(query.text, {own[page]: grade for page, grade in query.relevant.items()})
            for query in queries
        ]
        home = Home(folder / "people" / name / "device")
        found.append(Person(name, home, list(own.values()), moved, 1000 * seed + number))
    return found, " and ".join(sorted(sources))


def copied(folder: Path, places: Sequence[Path], pages: Sequence[Path]) -> dict[Path, Path]:
    """The pages in a folder of their own."""
    found = {}
    for page in pages:
        place = next(place for place in places if page.is_relative_to(place))
        found[page] = (folder / place.name / page.relative_to(place)).resolve()
        found[page].parent.mkdir(parents=True, exist_ok=True)
        copy2(page, found[page])
    return found


class Federation(GatewayDeployment):
    """The server, the gateway and the people's devices. Rounds begin when all but the last person
    want to send."""

    def __init__(self, folder: Path, people: Sequence[Person], seed: int) -> None:
        self.people = people
        e = Experiment(
            data="Synthetic(queries=20)", learner=LEARNER, ranker=repr(START),
            clients=len(people), rounds=20, seed=seed,
        )  # fmt: skip
        agreed = {"features": list(NAMES), "fewest": len(people) - 1, "noise": "system"}
        server = {"wait": 2.0, "deadline": 30.0}
        super().__init__(folder, e, 1, server, agreed, gateway={"grace": 0.5})

    def __enter__(self) -> Federation:
        self.start("server")
        self.wait_logged("server", "nodes connect to", SECONDS)
        self.start("gateway-0")
        self.wait_logged("gateway-0", "devices connect to", SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for person in self.people:
            person.stop()
        super().__exit__()

    def join(self, number: int) -> None:
        """Let a person's device join, and start its page."""
        person = self.people[number]
        ca = self.folder / "gateway-tls" / CA
        replace_private(person.home.made().folder / CA, ca.read_bytes())
        invitation = (self.folder / "invitations-0.txt").read_text().split()[number]
        url = f"https://localhost:{self.ports[0]}"
        words = ("join", url, "--invitation", invitation, "--ca", str(ca), "--yes")
        until = time.monotonic() + SECONDS
        while True:
            try:
                person.command(*words)
                break
            except Mistake as mistake:  # the gateway has only just started
                if "not reached its server" not in str(mistake) or time.monotonic() > until:
                    raise
                time.sleep(0.5)
        person.start()

    def round(self, t: int, people: Sequence[Person]) -> None:
        """Everybody searches, and the devices send."""
        for person in people:
            for _ in range(SEARCHES):
                person.search_once()
            person.ask("POST", "pause", {"paused": True})  # closes the last search
            person.ask("POST", "pause", {"paused": False})
        self.wait_round(t + 1, SECONDS)
        until = time.monotonic() + SECONDS
        for person in people:  # until the devices have noted their message
            while time.monotonic() < until:
                if len(ClickLog(person.home.index_file).messages()) > t:
                    break
                time.sleep(0.1)
