"""The manuals that studies of device search use, and the queries that their hyperlinks give.

Run: python reproduce/device_corpora.py FOLDER [--only five|tuning|docs]. Downloads what is not in
FOLDER yet (needs apt-get), prints a table of all devices, and writes for each device
FOLDER/queries/BED/DEVICE.jsonl, a query a line, with paths relative to FOLDER, and
FOLDER/queries/BED/DEVICE.pages, the absolute path of a page a line."""

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from device_study_corpora import DOCS, NEWCOMER, PEOPLE, TUNING

from foltr.core.system.files import write_whole
from foltr.device.demo.anchors import AnchorQuery, links_between, queries_from
from foltr.device.demo.manuals import fetch, pages_of
from foltr.device.read_text import read_html

BEDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "five": {name: packages for name, packages in PEOPLE.items() if name != NEWCOMER},
    "newcomer": {NEWCOMER: PEOPLE[NEWCOMER]},
    "tuning": TUNING,
    "docs": DOCS,
}
TITLES = "device       packages  pages      MB    links  queries  relevant  in title"


def line(bed: str, device: str, packages: Sequence[str], folder: Path) -> str:
    """Write the queries of a device; its line of the table."""
    found = fetch(packages, folder, lambda text: print(f"  {text}", flush=True))
    pages = [page for package in found for page in pages_of(found[package])]
    links = links_between(pages)
    queries = queries_from(links, pages)
    place = folder / "queries" / bed
    place.mkdir(parents=True, exist_ok=True)
    write_whole(place / f"{device}.jsonl", "".join(as_json(query, folder) for query in queries))
    write_whole(place / f"{device}.pages", "".join(f"{page}\n" for page in pages))
    size = sum(page.stat().st_size for page in pages) / 1e6
    relevant = sum(len(query.relevant) for query in queries) / max(1, len(queries))
    titled = sum(map(is_in_title, queries)) / max(1, len(queries))
    return (
        f"{device:12} {len(found):>3} of {len(packages):<2} {len(pages):6,} {size:7.1f}"
        f" {len(links):8,} {len(queries):8,} {relevant:9.2f} {titled:9.2f}"
    )


def as_json(query: AnchorQuery, folder: Path) -> str:
    # a manual that was installed already is not below the folder
    relevant = {os.path.relpath(page, folder): grade for page, grade in query.relevant.items()}
    return json.dumps({"text": query.text, "relevant": relevant}, ensure_ascii=False) + "\n"


def is_in_title(query: AnchorQuery) -> bool:
    """Whether the title of the most relevant page has all words of the query."""
    page = max(query.relevant, key=lambda page: query.relevant[page])
    title = read_html(page.read_bytes(), page.name).title
    return words(query.text) <= words(title)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    options.add_argument("--only", choices=["five", "tuning", "docs"], help="five: and newcomer")
    given = options.parse_args()
    folder = given.folder.resolve()
    lines = []
    for bed in BEDS:
        if given.only and given.only != ("five" if bed == "newcomer" else bed):
            continue
        for device, packages in BEDS[bed].items():
            lines.append(f"{bed:9} {line(bed, device, packages, folder)}")
            print(lines[-1], flush=True)
    print("\n".join([f"{'bed':9} {TITLES}", *lines]))


if __name__ == "__main__":
    main()
