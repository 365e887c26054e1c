"""Documents and queries with known answers, from which the test beds of the study are made.

Three kinds are public. Manuals: the queries are the texts of hyperlinks
(`foltr.device.demo.anchors`), if two pages agree on the target. Text collections: people wrote the
queries and judged the documents. Debian's packages: the queries are the one-line synopses, which
the documents lack; a document is a name and a long description."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, require, shown
from foltr.core.system.files import writing
from foltr.device.content import Text
from foltr.device.demo.anchors import links_between, queries_from
from foltr.device.demo.manuals import fetch, pages_of
from foltr.device.reading import texts_of

Tell = Callable[[str, int, int], None]  # (what is done, how much of it, out of how much)
Descriptions = Mapping[str, Mapping[str, tuple[str, str]]]  # section -> name -> synopsis, text

# The manuals of Debian of people with several, of the devices on which settings are fixed (nothing
# else uses these), and of those on which results are reported. A star stands for a version.
MANUALS = json.loads(Path(__file__).with_name("device_manuals.json").read_text())
PEOPLE, TUNING, DOCS = MANUALS["people"], MANUALS["tuning"], MANUALS["docs"]
NEWCOMER = "newcomer"  # joins when the other people have searched already

MOST_QUERIES = 1000  # of a device with manuals
GRADES = (2, 3, 5)  # numbers of grades for which there are published click models
SECTIONS = tuple(  # the largest of Debian 12
    "libs libdevel python doc perl devel utils haskell net rust golang javascript java science"
    " admin ruby gnu-r games x11 text".split()
)
MOST_PACKAGES, MOST_SYNOPSES = 3000, 400  # of a section
FIELD = re.compile(r"^(Package|Section|Description-en): ?(.*(?:\n .*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Corpus:
    """What a device is made from.

    Fields
        grades: those of relevant documents are 1 .. grades - 1
        documents: by path; a text is read when it is indexed
        queries: each with the grades of its relevant documents by path"""

    grades: int
    documents: Mapping[str, Callable[[], Iterable[Text]]]
    queries: Sequence[tuple[str, Mapping[str, int]]]


def manuals(packages: Sequence[str], folder: Path, tell: Tell) -> Corpus:
    """The manuals of one device. Those that are not in `folder` are downloaded."""
    found = fetch(packages, folder, lambda text: tell(text, 0, 0))
    require(bool(found), f"none of the manuals {', '.join(packages)} can be had")
    paths = {
        page: f"/{place.name}/{page.relative_to(place).as_posix()}"
        for place in found.values()
        for page in pages_of(place)
    }
    pages = list(paths)
    tell(f"{', '.join(packages)}: links", 0, len(pages))
    queries = queries_from(links_between(pages), pages, least_links=2)[:MOST_QUERIES]
    documents = {paths[page]: partial(_page, page) for page in pages}
    judged = [
        (each.text, {paths[page]: grade for page, grade in each.relevant.items()})
        for each in queries
    ]
    return Corpus(3, documents, judged)


def _page(page: Path) -> Iterable[Text]:
    return texts_of(page, page.stat().st_size)


def collection(folder: Path) -> Corpus:
    """A text collection: documents.jsonl (id, title, author, source, keywords, text), queries.tsv
    (id, text), and qrels.txt in TREC's form. Queries without a relevant document are left out."""
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    try:
        with open(folder / "documents.jsonl", encoding="utf-8") as file:
            articles = {f"/{each['id']}": dict(each) for each in map(json.loads, file)}
        with open(folder / "queries.tsv", encoding="utf-8") as file:
            texts = dict(line.rstrip("\n").split("\t", 1) for line in file)
        with open(folder / "qrels.txt", encoding="utf-8") as file:
            for query, _, document, grade in map(str.split, file):
                if int(grade) > 0:
                    relevant[query][f"/{document}"] = int(grade)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Mistake(f"{folder} is not a text collection: {shown(error)}") from None
    judged = [(texts[query], grades) for query, grades in relevant.items() if query in texts]
    require(bool(judged), f"{folder} has no query with a relevant document")
    most = max(grade for _, grades in judged for grade in grades.values())
    require(most < max(GRADES), f"{folder}: grades must be 0 .. {max(GRADES) - 1}, got {most}")
    documents = {path: partial(_article, about) for path, about in articles.items()}
    return Corpus(min(grades for grades in GRADES if most < grades), documents, judged)


def _article(about: Mapping[str, Any]) -> Iterable[Text]:
    keywords = about.get("keywords") or ""
    headings = " ".join(map(str, keywords)) if isinstance(keywords, list) else str(keywords)
    parts = [str(about.get(name) or "") for name in ("title", "author", "source", "text")]
    return [Text("text", parts[0] or str(about["id"]), headings, "\n".join([*parts, headings]))]


def section(name: str, descriptions: Callable[[], Descriptions]) -> Corpus:
    """A section of Debian's packages. Which packages and queries are taken depends on hashes only.
    Packages with one synopsis are all relevant for it."""
    known = descriptions()[name]
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    documents = {}
    for package in sorted(known, key=hashed)[:MOST_PACKAGES]:
        synopsis, text = known[package]
        path = f"/{name}/{package}"
        documents[path] = partial(_package, package, text)
        relevant[synopsis][path] = 1
    queries = sorted(relevant, key=hashed)[:MOST_SYNOPSES]
    return Corpus(2, documents, [(query, relevant[query]) for query in queries])


def _package(name: str, text: str) -> Iterable[Text]:
    return [Text("text", name, "", text)]


def descriptions_of_packages(folder: Path, tell: Tell) -> Descriptions:
    """The English descriptions of Debian's packages. The lists of packages are downloaded into
    `folder`; those of the system have no long descriptions, and stay as they are."""
    lists = folder / "lists"
    if not list(lists.glob("*_Translation-en")):
        tell("downloading the descriptions of Debian's packages", 0, 0)
        with writing(lists):
            (lists / "partial").mkdir(parents=True, exist_ok=True)
        _download(lists)
    sections = {each["Package"]: each.get("Section") for each in _records(lists, "*_Packages")}
    found: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in SECTIONS}
    for about in _records(lists, "*_Translation-en"):
        package = about["Package"]
        synopsis, _, text = about.get("Description-en", "").partition("\n")
        if (where := sections.get(package)) in found and synopsis and text:
            lines = ("" if line == " ." else line.strip() for line in text.split("\n"))
            found[where][package] = synopsis, "\n".join(lines)
    return found


def _records(lists: Path, pattern: str) -> Iterator[dict[str, str]]:
    """The packages in lists of apt."""
    for file in sorted(lists.glob(pattern)):
        for record in file.read_text(encoding="utf-8", errors="replace").split("\n\n"):
            about = dict(FIELD.findall(record))
            if "Package" in about:
                yield about


def _download(lists: Path) -> None:
    folder = lists.parent.absolute()
    options = {
        "Dir::State": folder,
        "Dir::State::lists": lists.absolute(),
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "en",
        "Acquire::GzipIndexes": "false",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",  # another user could not write into the folder
    }
    try:
        done = subprocess.run(
            ["apt-get", "update", *(f"-o{name}={value}" for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise Mistake(f"the bed packages needs apt-get: {error.strerror}") from None
    if done.returncode != 0 or not list(lists.glob("*_Translation-en")):
        last = (done.stderr.strip() or "it wrote no descriptions").splitlines()[-1]
        raise Mistake(f"apt-get could not download the descriptions of packages: {last}")


def hashed(text: str) -> str:
    """A stable hash; sorting by it is a random choice that never changes."""
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
