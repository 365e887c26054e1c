"""The test beds of the study of device search (`device_study.py`).

A bed is a set of devices. Each has documents, and queries whose relevant documents are known
(`device_study_corpora.py`):

    five                kernel, database, web, science, office: the manuals of five people
    newcomer            the same, and a sixth person who joins them
    tuning              manuals on which settings are fixed; nothing else uses them
    docs                twenty devices with one manual each
    collections         text collections with human judgements, each a device
    collections-split   each collection as four devices, which share its queries
    packages            twenty sections of Debian's packages

The index of a device and the features of its candidates are made once, and stored. Work that was
interrupted goes on where it was."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from device_study_corpora import (
    DOCS,
    NEWCOMER,
    PEOPLE,
    SECTIONS,
    TUNING,
    Corpus,
    Tell,
    collection,
    descriptions_of_packages,
    hashed,
    manuals,
    section,
)

from foltr.core.errors import did_you_mean, require
from foltr.core.metrics import DEPTH, dcg
from foltr.core.system.files import write_whole, writing
from foltr.device.demo.simulated import Device, JudgedQuery, dealt
from foltr.device.index import Index
from foltr.device.query import parsed
from foltr.device.reading import Unread
from foltr.device.searching import NAMES, search
from foltr.device.tokens import VERSION as TERMS

Recipe = Mapping[str, Callable[[], Corpus]]  # how each device is made

BEDS = ("five", "newcomer", "tuning", "docs", "collections", "collections-split", "packages")
VERSION = 1  # whoever changes how features are stored or computed must raise it
SPLIT = 4  # devices of a collection in collections-split
NOW = 1.7e9  # seconds since 1970: the features of a bed know no other time
BATCH = 500  # documents between two commits
SYNTAX = str.maketrans('":*', "   ")  # characters that mean something in a query


@dataclass(frozen=True, eq=False)
class Bed:
    """A test bed.

    Fields
        name: one of `BEDS`
        devices: those that search
        newcomers: the names of those that are left out, one at a time, to measure what a device
            gets without a click of its own"""

    name: str
    devices: tuple[Device, ...]
    newcomers: tuple[str, ...]

    @property
    def content(self) -> str:
        """A hash of everything that results depend on."""
        return hashed(" ".join([*(device.content for device in self.devices), *self.newcomers]))


def load_bed(name: str, folder: Path, collections: Path | None, tell: Tell) -> Bed:
    """A bed, made if `folder` does not have it yet. `collections` is the folder of the text
    collections, for the beds that need them."""
    require(name in BEDS, f"there is no test bed {name!r}: {did_you_mean(name, BEDS)}")
    if name == "collections-split":
        whole = load_bed("collections", folder, collections, tell).devices
        parts = tuple(part for device in whole for part in dealt(device, SPLIT))
        return Bed(name, parts, tuple(part.name for part in parts))
    place, recipe = _recipe(name, folder, collections, tell)
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    devices = tuple(_device(place / each, recipe[each], tell) for each in recipe)
    return Bed(name, devices, (NEWCOMER,) if name == "newcomer" else tuple(recipe))


def _recipe(name: str, folder: Path, collections: Path | None, tell: Tell) -> tuple[Path, Recipe]:
    """Where a bed is stored, and how its devices are made."""
    if name == "packages":
        known = cache(partial(descriptions_of_packages, folder / "debian", tell))
        return folder / name, {each: partial(section, each, known) for each in SECTIONS}
    if name == "collections":
        found = [] if collections is None else sorted(collections.glob("*/documents.jsonl"))
        none = f"there are no text collections in {collections}"
        require(bool(found), f"{none}: name the folder that has */documents.jsonl")
        places = [each.parent for each in found]
        return folder / name, {place.name: partial(collection, place) for place in places}
    known_manuals = {"tuning": TUNING, "docs": DOCS}
    chosen = known_manuals.get(name, PEOPLE)
    return folder / (name if name in known_manuals else "people"), {
        device: partial(manuals, packages, folder / "manuals", tell)
        for device, packages in chosen.items()
        if name == "newcomer" or device != NEWCOMER
    }


def _device(place: Path, corpus: Callable[[], Corpus], tell: Tell) -> Device:
    """The device that is stored in `place`.npz, made if it is not."""
    file = place.with_name(f"{place.name}.npz")
    stored = _stored(file)
    if stored is None:
        write_whole(file, _measured(place, corpus(), tell))
        stored = _stored(file)
        assert stored is not None
    features, labels = stored["features"], stored["labels"]
    queries = tuple(
        JudgedQuery(features[first:last], labels[first:last], float(ideal))
        for (first, last), ideal in zip(
            pairwise(stored["offsets"].tolist()), stored["ideals"], strict=True
        )
    )
    return Device(place.name, int(stored["grades"]), queries, str(stored["content"]))


def _stored(file: Path) -> dict[str, Any] | None:
    """What a file has; None if there is none, or if another version made it."""
    try:
        with np.load(file, allow_pickle=False) as found:
            arrays = dict(found)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None
    return arrays if str(arrays.get("made_by")) == _made_by() else None


def _made_by() -> str:
    return f"{VERSION} {TERMS} {hashed(' '.join(NAMES))}"


def _measured(place: Path, corpus: Corpus, tell: Tell) -> bytes:
    """Index the documents of a device, and compute the features of all candidates. Returns the
    content of a .npz file."""
    index = Index(place.with_name(f"{place.name}.db"))
    try:
        _index(index, corpus, place.name, tell)
        found = list(_judged(index, corpus, place.name, tell))
    finally:
        index.close()
    require(bool(found), f"the device {place.name} has no queries")
    arrays = {
        "features": np.concatenate([each.features for each in found]),
        "labels": np.concatenate([each.labels for each in found]),
        "offsets": np.cumsum([0, *(len(each.labels) for each in found)]),
        "ideals": np.array([each.ideal for each in found]),
        "grades": np.array(corpus.grades),
    }
    content = blake2b(b"".join(array.tobytes() for array in arrays.values()), digest_size=16)
    about = {"content": np.array(content.hexdigest()), "made_by": np.array(_made_by())}
    file = io.BytesIO()
    np.savez(file, **arrays, **about)
    return file.getvalue()


def _index(index: Index, corpus: Corpus, name: str, tell: Tell) -> None:
    known = index.files()
    left = iter([path for path in corpus.documents if path not in known])
    done = len(known)
    while paths := list(islice(left, BATCH)):
        tell(f"{name}: documents", done, len(corpus.documents))
        with index.batch():
            for path in paths:
                try:
                    texts = list(corpus.documents[path]())
                except Unread:
                    texts = []
                index.put(path, 0, 0, texts)
        done += len(paths)


def _judged(index: Index, corpus: Corpus, name: str, tell: Tell) -> Iterator[JudgedQuery]:
    for number, (text, relevant) in enumerate(corpus.queries):
        if number % 50 == 0:
            tell(f"{name}: queries", number, len(corpus.queries))
        found = search(index, parsed(text.translate(SYNTAX)), NOW)
        labels = [relevant.get(document.path, 0) for document in found.documents]
        best = sorted(relevant.values(), reverse=True)[:DEPTH]
        yield JudgedQuery(found.features, np.array(labels, np.int8), dcg(np.array(best)))
