"""The story of `foltr demo --devices`: five people search their own manuals, their devices learn
together, and a sixth one joins late.

Everything is a process of its own, as in real life: a server, a gateway, and for each person the
search page of a device. Scripted people search by the texts of hyperlinks and click what those
links lead to. They use the same requests as the page."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.metrics import dcg
from foltr.core.seeds import stream
from foltr.core.stepwise import stepwise
from foltr.core.system.private import replace_private
from foltr.core.system.web import TOKEN
from foltr.deployment.local.deployment import GatewayDeployment
from foltr.device.anchors import AnchorQuery, links_between, queries_from
from foltr.device.click_log import ClickLog
from foltr.device.generated_manuals import generated
from foltr.device.home import CA, Home
from foltr.device.index import Index
from foltr.device.learning import START, LocalRanker
from foltr.device.manuals import NEWCOMER, fetch, pages_of
from foltr.device.query import parsed
from foltr.device.searching import NAMES, search
from foltr.device.study_data import Device, HeldOut, JudgedQuery
from foltr.experiment import Experiment

Tell = Callable[[str], None]
# the documentation that each person searches: small packages of Debian
MANUALS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("libvirt-doc",),
    "database": ("sqlite3-doc",),
    "web": ("python-django-doc",),
    "science": ("octave-doc",),
    "office": ("gimp-help-en",),
    NEWCOMER: ("debian-handbook", "debian-reference-en"),
}
SEARCHES, ROUNDS = 10, 5  # of each person in a round
MOST_PAGES = 900  # of a person
MEASURED = 100  # held-out queries of a person
CLICKS = Cascade("navigational")
LEARNER = (
    f"Personal(learner=PDGD(lr=0.1, sessions={SEARCHES}, explore=False), pull=0.05)"  # one message
)
SECONDS = 60.0  # in which a process must start, or a round end


@dataclass(eq=False)
class Person:
    """A person with a device."""

    name: str
    home: Home
    pages: list[Path]
    queries: list[AnchorQuery]
    seed: int
    held_out: HeldOut | None = None
    process: subprocess.Popen[str] | None = None
    address: str = ""
    searched: int = 0
    log: list[str] = field(default_factory=list)

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
        index, found = Index(self.home.index_file), []
        for query in self.measured:
            made = search(index, parsed(query.text, typing=True))
            grades = {str(page): grade for page, grade in query.relevant.items()}
            labels = [grades.get(document.path, 0) for document in made.documents]
            if labels:
                best = np.array(sorted(grades.values(), reverse=True)[:10])
                found.append(JudgedQuery(made.features, np.array(labels, np.int8), dcg(best)))
        index.close()
        self.judged = tuple(found)
        self.held_out = HeldOut.of(found)

    def quality(self, params: Any) -> float:
        assert self.held_out is not None
        scores = START.scores(params, self.held_out.features)
        return self.held_out.ndcg(scores, stream(self.seed, "ties"))

    @property
    def plain(self) -> float:
        """nDCG@10 of BM25 on the held-out queries."""
        return self.quality(START.init(len(NAMES), stream(0)))

    @property
    def learned(self) -> float:
        """nDCG@10 of this device's ranker, as its file has it."""
        from foltr.core.spec import learners

        log = ClickLog(self.home.index_file)
        try:
            return self.quality(LocalRanker(log, stepwise(learners.build(LEARNER))).weights)
        finally:
            log.close()

    def device(self) -> Device:
        """Its queries, for a simulation."""
        return Device(self.name, 3, self.judged, self.name)


def people_of(folder: Path, seed: int, tell: Tell) -> tuple[list[Person], str]:
    """Six people with manuals, and where the manuals come from."""
    found, sources = [], set[str]()
    for number, (name, packages) in enumerate(MANUALS.items()):
        had = fetch(packages, folder / "manuals", tell)
        places = list(had.found.values())
        sources.add("Debian's packages" if places else "generated")
        if not places:
            places = [generated(folder / "manuals" / f"generated-{name}", name, seed)]
        pages = [page for place in places for page in pages_of(place, MOST_PAGES)]
        queries = queries_from(links_between(pages), pages, seed=seed)
        own = linked(folder / "people" / name / "documents", places, pages)
        moved = [_moved(query, own) for query in queries]
        home = Home(folder / "people" / name / "device")
        found.append(Person(name, home, list(own.values()), moved, 1000 * seed + number))
    return found, " and ".join(sorted(sources))


def linked(folder: Path, places: Sequence[Path], pages: Sequence[Path]) -> dict[Path, Path]:
    """The pages in a folder of their own, without taking space again where possible."""
    found = {}
    for page in pages:
        place = next(place for place in places if page.is_relative_to(place))
        other = folder / place.name / page.relative_to(place)
        found[page] = other.resolve()
        if not other.exists():
            other.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(page.resolve(), other)
            except OSError:  # on another disk
                other.write_bytes(page.read_bytes())
    return found


def _moved(query: AnchorQuery, own: Mapping[Path, Path]) -> AnchorQuery:
    return AnchorQuery(query.text, {own[page]: grade for page, grade in query.relevant.items()})


def deployment(folder: Path, people: int, seed: int) -> GatewayDeployment:
    """The server and the gateway. Rounds begin when all but the last person want to send."""
    e = Experiment(
        data="Synthetic(queries=20)", learner=LEARNER, ranker=repr(START), clients=people,
        rounds=20, seed=seed,
    )  # fmt: skip
    agreed = {"features": list(NAMES), "fewest": people - 1, "noise": "system"}
    server = {"wait": 2.0, "deadline": 30.0}
    return GatewayDeployment(folder, e, 1, server, agreed, gateway={"grace": 0.5})


class Story:
    """The federation, and who is in it. Within it, processes run."""

    def __init__(self, folder: Path, people: Sequence[Person], seed: int, tell: Tell) -> None:
        self.people, self.tell = people, tell
        self.here = deployment(folder / "federation", len(people), seed)

    def __enter__(self) -> Story:
        self.here.start("server")
        self.here.wait_logged("server", "nodes connect to", SECONDS)
        self.here.start("gateway-0")
        self.here.wait_logged("gateway-0", "devices connect to", SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for person in self.people:
            person.stop()
        self.here.__exit__(None, None, None)

    def join(self, number: int) -> None:
        """Let a person's device join, and start its page."""
        person = self.people[number]
        ca = self.here.folder / "gateway-tls" / CA
        replace_private(person.home.made().folder / CA, ca.read_bytes())
        invitation = (self.here.folder / "invitations-0.txt").read_text().split()[number]
        url = f"https://localhost:{self.here.ports[0]}"
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
        self.here.wait_round(t + 1, SECONDS)
        self._wait_models(t, people)

    def _wait_models(self, t: int, people: Sequence[Person]) -> None:
        """Wait until the devices have noted their message."""
        until = time.monotonic() + SECONDS
        for person in people:
            while time.monotonic() < until:
                if len(ClickLog(person.home.index_file).messages()) > t:
                    break
                time.sleep(0.1)
