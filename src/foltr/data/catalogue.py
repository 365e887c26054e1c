"""The rows and texts of `foltr data list | info NAME | add NAME PATH`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from foltr.core.errors import Mistake, did_you_mean
from foltr.core.spec import sources
from foltr.data import collection as lookup
from foltr.data import text_files
from foltr.data.collection import Collection
from foltr.data.letor import read


@dataclass(frozen=True)
class CollectionRow:
    """One line of `foltr data list`; `where` is the folder, or where to get the collection."""

    name: str
    present: bool
    queries: int | None
    documents: int | None
    features: int
    grades: int
    where: str


def collections() -> dict[str, Collection]:
    """The published collections among the sources."""
    facts = ((name, getattr(cls, "collection", None)) for name, cls in sources.members().items())
    return {name: known for name, known in facts if isinstance(known, Collection)}


def listing() -> list[CollectionRow]:
    """All published collections, present or not."""
    return [_row(collection) for collection in collections().values()]


def info(name: str) -> str:
    """What a collection is, where it comes from, and whether it is on this machine."""
    collection = _known(name)
    folder = collection.present()
    lines = [
        f"{collection.name}: {collection.about}",
        f"features {collection.features}, grades 0 .. {collection.grades - 1}",
        *(
            f"{part}: {_counts(*counts)} as published"
            for part, counts in collection.published.items()
        ),
        f"home: {collection.home}",
        f"terms: {collection.terms}",
        f"layout: {', '.join(_paths(collection))}",
        f"here: {folder}" if folder else collection.absent(_paths(collection)[0]),
    ]
    return "\n".join(lines)


def add(name: str, path: str | Path, tell: Callable[[str], None] = lambda line: None) -> None:
    """Check every file of a collection against the published counts, and register its folder.

    `tell` is called with each line of the report as soon as it is known."""
    collection, given = _known(name), Path(path).expanduser()
    if not given.is_dir():
        raise Mistake(f"there is no folder {given}")
    folder = next(
        (
            f
            for f in [given, *(given / n for n in collection.folders)]
            if _missing(collection, f) == []
        ),
        None,
    )
    if folder is None:
        missing = _missing(collection, given)
        raise Mistake(
            f"{given} lacks {', '.join(missing[:5])}{' and others' if len(missing) > 5 else ''};"
            f" nothing was added (a part of {name} can be used without `add`, in a folder"
            f" {collection.folders[0]} below FOLTR_DATA)"
        )
    tell(f"{name} in {folder}")
    other = []
    for part, files in collection.files.items():
        total = (0, 0)
        for split, file in files.items():
            counts = _count(text_files.at(folder / file) or folder / file, collection)
            total = (total[0] + counts[0], total[1] + counts[1])
            other += _unlike(collection, f"{part} {split}", counts)
            tell(f"  {file}: {_counts(*counts)}{_beside(collection, f'{part} {split}', counts)}")
        other += _unlike(collection, part, total)
        tell(f"  {part}: {_counts(*total)}{_beside(collection, part, total)}")
    if other:
        raise Mistake(
            f"this is not {name} as published ({other[0]}): nothing was added. Use it as"
            " Letor(path=...)"
        )
    lookup.register(name, folder)
    tell(f"registered in {lookup.registry()}")


def _row(collection: Collection) -> CollectionRow:
    folder, parts = collection.present(), list(collection.files)
    whole = collection.published.get(parts[0])
    if whole is None and collection.published:
        splits = [
            count for part, count in collection.published.items() if part.startswith(parts[0])
        ]
        whole = (sum(q for q, _ in splits), sum(d for _, d in splits))
    queries, documents = whole or (None, None)
    where = str(folder) if folder else collection.home
    return CollectionRow(
        collection.name,
        folder is not None,
        queries,
        documents,
        collection.features,
        collection.grades,
        where,
    )


def _known(name: str) -> Collection:
    known = collections()
    if name not in known:
        hint = did_you_mean(name, known)
        raise Mistake(
            f"no published collection is called {name!r}: {hint} (your own folder:"
            " Letor(path=...))"
        )
    return known[name]


def _paths(collection: Collection) -> list[str]:
    return sorted(
        {path for part in collection.files.values() for path in part.values()}
        | set(collection.extras)
    )


def _missing(collection: Collection, folder: Path) -> list[str]:
    return [path for path in _paths(collection) if text_files.at(folder / path) is None]


def _count(file: Path, collection: Collection) -> tuple[int, int]:
    """The numbers of queries and documents in a file; every line is checked."""
    queries = documents = 0
    for piece in read(file, collection.reading):
        queries, documents = queries + len(piece.starts), documents + len(piece.labels)
    return queries, documents


def _counts(queries: int, documents: int) -> str:
    return f"{queries:,} queries, {documents:,} documents"


def _unlike(collection: Collection, part: str, found: tuple[int, int]) -> list[str]:
    """What is wrong with the counts of a part: an empty list, or one sentence."""
    published = collection.published.get(part, found)
    return (
        [] if published == found else [f"{part} has {_counts(*found)}, not {_counts(*published)}"]
    )


def _beside(collection: Collection, part: str, found: tuple[int, int]) -> str:
    published = collection.published.get(part)
    if published is None:
        return ""
    return (
        " (as published)"
        if published == found
        else f" (published: {_counts(*published)}: NOT the same)"
    )
